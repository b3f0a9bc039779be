// SPDX-License-Identifier: BSD-3-Clause
// Ethdev: a Kilim port as a port of DPDK's ethdev library: its operations, the queues of mbufs that
// it makes on the port's device, and the device's rules through port::Port. Made when EAL probes
// the vdev; it costs nothing before rte_eth_dev_configure() (doc/decisions/0041). Threads: as
// ethdev, control operations by one thread at a time; a lock keeps apart from them the thread of
// alarms and lcores that bring a queue back to work.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/device/owned.hh"
#include "kilim/detail/flow/filter.hh"
#include "kilim/detail/mr/runs.hh"
#include "kilim/detail/port/port.hh"
#include "kilim/detail/port/retry.hh"
#include "net/kilim/devargs.hh"
#include "net/kilim/ethdev_abi.hh"
#include "net/kilim/mbuf_memory.hh"
#include "net/kilim/mbuf_rx.hh"
#include "net/kilim/mbuf_tx.hh"

// A rule of rte_flow: librte_ethdev hands out pointers to it.
struct rte_flow {
  kilim::port::RuleId id;
  bool counts = false;
  kilim::flow::Count reset{};  // what it had seen when its count was last reset
};

namespace kilim::net {

// What the device has lost of a port's frames, and what the native port has carried where a program
// uses that: members of port::PortStats (ethdev_stats.cc).
inline constexpr std::size_t port_counts = 19;

// What all processes see of a port: its dev_private, in EAL's shared memory.
struct SharedPort {
  Ethdev* owner;  // in the primary process
  rte_eth_dev_info info;
  RxCounts rx[port::max_rxq];
  TxCounts tx[port::max_txq];
  Counter of_port[port_counts];  // what is counted of the port, not of these queues
  uint64_t secondary_dropped;    // packets that secondary processes sent; changed atomically
  // What there was at the last rte_eth_stats_reset().
  RxCounts rx_base[port::max_rxq];
  TxCounts tx_base[port::max_txq];
  uint64_t of_port_base[port_counts];
};

// A queue of the application; the order of the members matters: what is made last goes first.
struct EthdevRx {
  uint16_t descriptors = 0;
  rte_mempool* pool = nullptr;
  rte_eth_rxconf conf{};
  uint32_t of_frame = 1;  // mbufs that a frame of the MTU takes
  uint32_t segments = 1;  // mbufs of a receive
  device::OwnedCq cq;
  device::OwnedRwq rwq;
  rte_mempool* stride_pool = nullptr;  // of receives of several packets
  MbufRx* queue = nullptr;             // of rte_malloc()
  bool stopped = false;                // by rte_eth_dev_rx_queue_stop()
  port::Retry retry;                   // of bursts, while the queue is down
  uint32_t events_seen = 0;            // of its interrupt, since it was last enabled
};
struct EthdevTx {
  uint16_t descriptors = 0;
  rte_eth_txconf conf{};
  device::OwnedCq cq;
  device::OwnedQp qp;
  std::vector<uint64_t> wr_ids;
  MbufTx* queue = nullptr;
  bool stopped = false;
  port::Retry retry;  // as above
};

class Ethdev {
 public:
  // `port` outlives it.
  Ethdev(port::Port& port, const Devargs& args) noexcept
      : port_(port),
        args_(args),
        memory_(port.device().registrar(), mr::packet_rights(args.relaxed_ordering != 0)) {}
  Ethdev(const Ethdev&) = delete;
  Ethdev& operator=(const Ethdev&) = delete;
  ~Ethdev();

  // Registers the port with ethdev. EEXIST: the name is an ethdev's already; ENOMEM.
  Status enter(rte_vdev_device& vdev);
  // Closes the port, if the application has not, and takes it out of ethdev.
  void leave() noexcept;

  [[nodiscard]] port::Port& port() noexcept { return port_; }
  [[nodiscard]] MbufMemory& memory() noexcept { return memory_; }
  [[nodiscard]] const Devargs& args() const noexcept { return args_; }
  [[nodiscard]] rte_eth_dev* dev() noexcept { return dev_; }

  // Operations: 0 or a negative errno.
  int configure() noexcept;
  int start() noexcept;
  int stop() noexcept;
  int close() noexcept;
  // A stopped port becomes what it was behind the probe: no queue is set up, and its address is its
  // first one alone (rte_ethdev.h, rte_eth_dev_reset()). EIO: the device is lost.
  int reset() noexcept;
  int set_up_rx(uint16_t queue, uint16_t descriptors, const rte_eth_rxconf& conf,
                rte_mempool& pool) noexcept;
  int set_up_tx(uint16_t queue, uint16_t descriptors, const rte_eth_txconf& conf) noexcept;
  void release_rx(uint16_t queue) noexcept;
  void release_tx(uint16_t queue) noexcept;
  int start_rx(uint16_t queue) noexcept;
  int stop_rx(uint16_t queue) noexcept;
  int start_tx(uint16_t queue) noexcept;
  int stop_tx(uint16_t queue) noexcept;
  // Called by a burst whose queue went down by an error: takes it through RESET, or tries again
  // what failed, each time after a longer pause (port/retry.hh).
  void recover_rx(uint16_t queue) noexcept;
  void recover_tx(uint16_t queue) noexcept;

  int enable_interrupt(uint16_t queue, bool on) noexcept;
  int update_link(bool tell) noexcept;
  // Whether the device is dead (Device::lost()).
  [[nodiscard]] bool is_lost() noexcept;
  // SharedPort::of_port, since the port was made. Reads sysfs files.
  void update_port_counts() noexcept;
  int fill_info(rte_eth_dev_info& info) noexcept;
  void tell_rxq(uint16_t queue, rte_eth_rxq_info& info) const noexcept;
  void tell_txq(uint16_t queue, rte_eth_txq_info& info) const noexcept;
  // The form of a started port's receive bursts.
  [[nodiscard]] RxForm form() const noexcept;

  // Which frames are received; what a started port cannot take is refused, and all is as before.
  int set_promiscuous(bool on) noexcept;
  int set_all_multicast(bool on) noexcept;
  int set_address(const rte_ether_addr& mac) noexcept;
  // The address with this number, of those besides the port's own; nullptr takes it away.
  int set_further(uint32_t index, const rte_ether_addr* mac) noexcept;
  int set_vlan(uint16_t vlan, bool on) noexcept;
  int set_multicast(std::span<const rte_ether_addr> macs) noexcept;
  int strip_vlan(uint16_t queue, bool on) noexcept;
  int set_vlan_offload(int mask) noexcept;
  int set_mtu(uint16_t mtu) noexcept;
  int set_rss(flow::Rss rss) noexcept;
  [[nodiscard]] const flow::Rss& rss() const noexcept { return rss_; }
  // RTE_ETH_RSS_* that were asked for; 0: no spreading.
  [[nodiscard]] uint64_t rss_asked() const noexcept { return rss_asked_; }
  int set_rss_hash(const rte_eth_rss_conf& conf) noexcept;

  rte_flow* add_flow(const flow::Rule& rule, flow::RuleError& why) noexcept;
  int remove_flow(rte_flow* flow) noexcept;
  void flush_flows() noexcept;
  // A line for each rule of rte_flow, or for one of them: its number and what it has counted.
  // -EINVAL: there is no such rule.
  int dump_flows(const rte_flow* one, std::FILE& to) noexcept;

 private:
  int make_rx(uint16_t queue) noexcept;
  int make_tx(uint16_t queue) noexcept;
  [[nodiscard]] uint32_t longest_sent() noexcept;
  void limit_port(uint16_t mtu) noexcept;
  int make_queues() noexcept;
  void drop_queues() noexcept;
  void release_queues() noexcept;
  void settle() noexcept;
  void drop_rx(EthdevRx& rx) noexcept;
  void drop_tx(EthdevTx& tx) noexcept;
  int run_rx(EthdevRx& rx) noexcept;
  void halt_rx(EthdevRx& rx) noexcept;
  bool bring_back_tx(EthdevTx& tx) noexcept;
  [[nodiscard]] RxForm form_of(uint16_t queue) const noexcept;
  [[nodiscard]] bool compresses() const noexcept;
  [[nodiscard]] bool strides() const noexcept;
  [[nodiscard]] uint32_t strided_receives_of(const EthdevRx& rx) const noexcept;
  int check_strides() const noexcept;
  int make_strides(EthdevRx& rx, MbufRx& q) noexcept;
  [[nodiscard]] flow::Filter filter_of() const;
  int apply_filter() noexcept;
  template <typename Change>
  int change_filter(Change change) noexcept;
  [[nodiscard]] uint32_t segments_for(rte_mempool& pool, uint64_t offloads,
                                      uint32_t bytes) const noexcept;
  [[nodiscard]] uint32_t max_lro_bytes() const noexcept;
  [[nodiscard]] uint32_t longest_of(uint64_t offloads, uint32_t mtu) const noexcept;
  int check_lro(const EthdevRx& rx) const noexcept;
  int size_receives(EthdevRx& rx) const noexcept;
  [[nodiscard]] device::Lro lro_of(const EthdevRx& rx) const noexcept;
  [[nodiscard]] bool polled() const noexcept { return port_.poller().fn != nullptr; }
  int start_interrupts() noexcept;
  void stop_interrupts() noexcept;
  void choose_bursts() noexcept;
  void forget_bursts() noexcept;
  // Says why, for people; returns the negative errno.
  int refuse(const Error& e) const noexcept;
  // Events of the device (net/kilim/ethdev_events.cc).
  static void watch(void* port);
  void watch_device(bool on) noexcept;
  void heed_events() noexcept;
  [[nodiscard]] bool cq_ended(const device::OwnedCq& cq) const noexcept {
    return cq && port_.device().faulted(cq->handle);
  }

  port::Port& port_;
  Devargs args_;
  MbufMemory memory_;
  std::recursive_mutex lock_;
  rte_eth_dev* dev_ = nullptr;
  SharedPort* shared_ = nullptr;
  std::vector<EthdevRx> rx_;
  std::vector<EthdevTx> tx_;
  flow::Rss rss_;
  uint64_t rss_asked_ = 0;
  device::MacAddress first_mac_{};  // the device's own
  // The frames that the application wants.
  struct Wanted {
    bool promiscuous = false, all_multicast = false;
    std::map<uint32_t, flow::MacAddress> further;  // rte_eth_dev_mac_addr_add(), by number
    std::vector<flow::MacAddress> multicast;
    std::vector<uint16_t> vlans;
    bool filters_vlans = false;
  } wanted_;
  std::vector<std::unique_ptr<rte_flow>> flows_;
  int stamp_offset_ = -1;
  uint64_t stamp_flag_ = 0;
  bool mtu_asked_ = false;       // rte_eth_dev_set_mtu()
  bool watches_ = false;         // watch() is among EAL's alarms
  device::DeviceEvents heeded_;  // what heed_events() has read
  device::DeviceEvents told_;    // how much of it came while this ethdev ran
  bool marks_ = false;           // a rule marks, or marked
  bool tunnels_ = false;         // CQEs may tell of headers inside tunnels, or did
  bool queues_run_ = false;      // from start() to stop()
};

// True: the queue takes TCP segments that the device joined (LRO).
inline bool joins(const EthdevRx& rx) noexcept {
  return (rx.conf.offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0;
}

// The port of an ethdev of ours, in the primary process.
inline Ethdev& ethdev_of(const rte_eth_dev* dev) noexcept {
  return *static_cast<SharedPort*>(dev->data->dev_private)->owner;
}
inline SharedPort& shared_of(const rte_eth_dev* dev) noexcept {
  return *static_cast<SharedPort*>(dev->data->dev_private);
}

// The tables of operations: of the primary process, and of others.
extern const eth_dev_ops ethdev_ops;
extern const eth_dev_ops secondary_ops;
// The operations of rte_flow.
extern const rte_flow_ops ethdev_flow_ops;

inline constexpr uint32_t around_mtu = RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN;  // of a frame

// The driver logs all its messages with this rte_log type (net/kilim/driver.cc).
uint32_t log_type() noexcept;

// In a secondary process: attaches to the port that the primary process has. ENODEV.
int attach_secondary(rte_vdev_device& vdev) noexcept;

// Statistics, which any process reads (net/kilim/ethdev_stats.cc).
struct QueueSums {
  uint64_t packets, bytes, errors;
};
QueueSums rx_sums(const rte_eth_dev* dev, int queue) noexcept;
QueueSums tx_sums(const rte_eth_dev* dev, int queue) noexcept;
// All but the counts of each queue, whose place differs (ethdev_ops_abi.hh).
void read_sums(rte_eth_dev* dev, rte_eth_stats& stats) noexcept;
int read_xstats(rte_eth_dev* dev, rte_eth_xstat* stats, unsigned count);
int read_xstat_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count);
int reset_stats(rte_eth_dev* dev);

// What a port tells (net/kilim/ethdev_info.cc).
// RTE_PTYPE_UNKNOWN is the last one.
std::span<const uint32_t> packet_types() noexcept;
int tell_rx_mode(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode);
int tell_tx_mode(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode);

// How frames are spread (net/kilim/ethdev_rss.cc).
int update_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf);
int tell_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf);
int update_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries);
int tell_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries);

// Descriptors (net/kilim/ethdev_run.cc).
uint32_t waiting_packets(const void* queue) noexcept;  // 0 for a queue that is null
int rx_status(void* queue, uint16_t offset);
int tx_status(void* queue, uint16_t offset);

// RTE_ETH_RSS_* from and to kinds of hashes; levels are apart (rss_levels_of()). Offered is what
// DPDK's mlx5 driver offers but IPsec's SPI (DPDK 22.11 drivers/net/mlx5/mlx5.h, MLX5_RSS_HF_MASK).
// IPv6 with extension headers (_EX) is hashed by the same fields as IPv6 without: an mlx5 device
// reads the headers behind them.
uint32_t hash_types_of(uint64_t rss_hf) noexcept;
flow::HashSides hash_sides_of(uint64_t rss_hf) noexcept;
inline constexpr uint64_t all_rss_kinds = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
inline constexpr uint64_t all_rss_sides = RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY |
                                          RTE_ETH_RSS_L4_SRC_ONLY | RTE_ETH_RSS_L4_DST_ONLY;
inline constexpr uint64_t all_rss_hf = all_rss_kinds | all_rss_sides;
// RTE_ETH_RSS_LEVEL_*: by which of a tunnel's headers a port spreads, where the device sees both.
// rte_flow_action_rss::level has the same numbers.
inline constexpr uint64_t rss_innermost = RTE_ETH_RSS_LEVEL(RTE_ETH_RSS_LEVEL_INNERMOST);
constexpr uint64_t rss_levels_of(const device::Caps& caps) noexcept {
  return caps.tx.tunnels ? RTE_ETH_RSS_LEVEL_MASK : 0;
}
inline constexpr uint16_t reta_entries = flow::default_table;

}  // namespace kilim::net
