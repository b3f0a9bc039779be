// SPDX-License-Identifier: BSD-3-Clause
// The table of operations that librte_ethdev calls, and what they tell of the port. Threads: as
// ethdev's own functions.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <rte_errno.h>

#include "kilim/burst/tx_packet.hh"
#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

constexpr uint32_t longest_mtu = 9978;  // what mlx5's interfaces take at most (ip -d link: maxmtu)

uint64_t rx_capabilities(const device::Caps& caps) noexcept {
  return RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_RSS_HASH | RTE_ETH_RX_OFFLOAD_TIMESTAMP |
         RTE_ETH_RX_OFFLOAD_VLAN_FILTER | RTE_ETH_RX_OFFLOAD_SCATTER |
         (caps.spread.strip_vlan ? RTE_ETH_RX_OFFLOAD_VLAN_STRIP : 0);
}

uint64_t tx_capabilities(const device::TxCaps& caps) noexcept {
  const uint64_t checksums =
      RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
  return RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE |
         RTE_ETH_TX_OFFLOAD_VLAN_INSERT | (caps.checksums ? checksums : 0) |
         (caps.max_tso != 0 ? RTE_ETH_TX_OFFLOAD_TCP_TSO : 0);
}

uint32_t speed_capability(uint32_t mbps) noexcept {
  return rte_eth_speed_bitflag(mbps, 0);
}

}  // namespace

int Ethdev::fill_info(rte_eth_dev_info& info) noexcept {
  const device::Caps& caps = port_.device().caps();
  const uint32_t mtu = port_.info().frame_mtu;
  info.min_mtu = RTE_ETHER_MIN_MTU;
  info.max_mtu = static_cast<uint16_t>(mtu > longest_mtu ? mtu : longest_mtu);
  info.min_rx_bufsize = 64;
  info.max_rx_pktlen = info.max_mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
  info.max_rx_queues = port::max_rxq;
  info.max_tx_queues = port::max_txq;
  info.max_mac_addrs = flow::max_filter_macs;
  info.rx_offload_capa = info.rx_queue_offload_capa = rx_capabilities(caps);
  info.rx_queue_offload_capa &= ~uint64_t{RTE_ETH_RX_OFFLOAD_VLAN_FILTER};
  info.tx_offload_capa = tx_capabilities(caps.tx);
  info.tx_queue_offload_capa = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  info.reta_size = reta_entries;
  info.hash_key_size = flow::hash_key_bytes;
  info.flow_type_rss_offloads = all_rss_hf | rss_levels_of(caps);
  info.rx_desc_lim = {static_cast<uint16_t>(port::max_depth), port::min_depth, 1, 16, 0};
  info.tx_desc_lim = {static_cast<uint16_t>(port::max_depth), port::min_depth, 1, burst::max_pieces,
                      burst::max_pieces};
  info.default_rxportconf = {32, static_cast<uint16_t>(args_.rxd),
                             static_cast<uint16_t>(args_.rxq)};
  info.default_txportconf = {32, static_cast<uint16_t>(args_.txd),
                             static_cast<uint16_t>(args_.txq)};
  info.speed_capa = speed_capability(port_.info().speed_mbps);
  info.dev_capa = 0;
  return 0;
}

namespace {

int configure(rte_eth_dev* dev) {
  return ethdev_of(dev).configure();
}
int start(rte_eth_dev* dev) {
  return ethdev_of(dev).start();
}
int stop(rte_eth_dev* dev) {
  return ethdev_of(dev).stop();
}
int close(rte_eth_dev* dev) {
  return ethdev_of(dev).close();
}
int reset(rte_eth_dev* dev) {
  return ethdev_of(dev).reset();
}
int update_link(rte_eth_dev* dev, int) {
  return ethdev_of(dev).update_link(false);
}
int is_removed(rte_eth_dev* dev) {
  return ethdev_of(dev).port().device().lost() ? 1 : 0;
}
int enable_promiscuous(rte_eth_dev* dev) {
  return ethdev_of(dev).set_promiscuous(true);
}
int disable_promiscuous(rte_eth_dev* dev) {
  return ethdev_of(dev).set_promiscuous(false);
}
int enable_all_multicast(rte_eth_dev* dev) {
  return ethdev_of(dev).set_all_multicast(true);
}
int disable_all_multicast(rte_eth_dev* dev) {
  return ethdev_of(dev).set_all_multicast(false);
}
void remove_mac(rte_eth_dev* dev, uint32_t index) {
  (void)ethdev_of(dev).set_further(index, nullptr);
}
int add_mac(rte_eth_dev* dev, rte_ether_addr* mac, uint32_t index, uint32_t) {
  return ethdev_of(dev).set_further(index, mac);
}
int set_mac(rte_eth_dev* dev, rte_ether_addr* mac) {
  return ethdev_of(dev).set_address(*mac);
}
int set_multicast_list(rte_eth_dev* dev, rte_ether_addr* macs, uint32_t count) {
  return ethdev_of(dev).set_multicast({macs, count});
}
int set_mtu(rte_eth_dev* dev, uint16_t mtu) {
  return ethdev_of(dev).set_mtu(mtu);
}

int tell_info(rte_eth_dev* dev, rte_eth_dev_info* info) {
  return ethdev_of(dev).fill_info(*info);
}
// Where the primary process's pointers in it would mean nothing: those are ethdev's to fill in.
int tell_kept_info(rte_eth_dev* dev, rte_eth_dev_info* info) {
  const rte_eth_dev_info from_ethdev = *info;
  *info = shared_of(dev).info;
  info->device = from_ethdev.device;
  info->switch_info = from_ethdev.switch_info;
  info->driver_name = from_ethdev.driver_name;
  info->dev_flags = from_ethdev.dev_flags;
  return 0;
}

int tell_firmware(rte_eth_dev* dev, char* text, size_t bytes) {
  const int n = std::snprintf(text, bytes, "%s", ethdev_of(dev).port().device().name());
  return static_cast<size_t>(n) < bytes ? 0 : n + 1;
}

const uint32_t* tell_types(rte_eth_dev*) {
  static const uint32_t types[] = {RTE_PTYPE_L2_ETHER,
                                   RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
                                   RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
                                   RTE_PTYPE_L4_NONFRAG,
                                   RTE_PTYPE_L4_FRAG,
                                   RTE_PTYPE_L4_TCP,
                                   RTE_PTYPE_L4_UDP,
                                   RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN,
                                   RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN,
                                   RTE_PTYPE_INNER_L4_NONFRAG,
                                   RTE_PTYPE_INNER_L4_FRAG,
                                   RTE_PTYPE_INNER_L4_TCP,
                                   RTE_PTYPE_INNER_L4_UDP,
                                   RTE_PTYPE_UNKNOWN};
  return types;
}

int set_vlan(rte_eth_dev* dev, uint16_t vlan, int on) {
  return ethdev_of(dev).set_vlan(vlan, on != 0);
}
void strip_queue(rte_eth_dev* dev, uint16_t queue, int on) {
  (void)ethdev_of(dev).strip_vlan(queue, on != 0);
}
int set_vlan_offload(rte_eth_dev* dev, int mask) {
  return ethdev_of(dev).set_vlan_offload(mask);
}

int start_rx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).start_rx(queue);
}
int stop_rx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).stop_rx(queue);
}
int start_tx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).start_tx(queue);
}
int stop_tx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).stop_tx(queue);
}
// NOLINTNEXTLINE(readability-function-size): the parameters of eth_rx_queue_setup_t
int set_up_rx(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned,
              const rte_eth_rxconf* conf, rte_mempool* pool) {
  if (pool == nullptr) return -ENOTSUP;  // buffer split and several mempools a queue
  return ethdev_of(dev).set_up_rx(queue, descriptors, *conf, *pool);
}
int set_up_tx(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned,
              const rte_eth_txconf* conf) {
  return ethdev_of(dev).set_up_tx(queue, descriptors, *conf);
}
void release_rx(rte_eth_dev* dev, uint16_t queue) {
  ethdev_of(dev).release_rx(queue);
}
void release_tx(rte_eth_dev* dev, uint16_t queue) {
  ethdev_of(dev).release_tx(queue);
}
int enable_interrupt(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).enable_interrupt(queue, true);
}
int disable_interrupt(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).enable_interrupt(queue, false);
}
// The count to stop at is in packets: more may go, as a completion is for a whole burst.
int clean_tx(void* queue, uint32_t) {
  auto& q = *static_cast<MbufTx*>(queue);
  if (q.down) return 0;
  if (q.poller.fn != nullptr) q.poller.fn(q.poller.context, q.mask + 1);
  return static_cast<int>(reclaim_mbuf_tx(q));
}

void tell_rxq(rte_eth_dev* dev, uint16_t queue, rte_eth_rxq_info* info) {
  ethdev_of(dev).tell_rxq(queue, *info);
}
void tell_txq(rte_eth_dev* dev, uint16_t queue, rte_eth_txq_info* info) {
  ethdev_of(dev).tell_txq(queue, *info);
}
int tell_rx_mode(rte_eth_dev* dev, uint16_t, rte_eth_burst_mode* mode) {
  const RxForm f = ethdev_of(dev).form();
  (void)std::snprintf(mode->info, sizeof mode->info, "%s%s%s",
                      f.scattered    ? "Scattered"
                      : f.compressed ? "Compressed completions"
                      : f.strided    ? "Several packets a receive (MPRQ)"
                                     : "Scalar",
                      f.extra ? " with tags, marks, times, tunnels" : "",
                      dev->rx_pkt_burst == select_mbuf_rx(f, true) ? ", runs the device" : "");
  return 0;
}
int tell_tx_mode(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) {
  const auto* q = static_cast<const MbufTx*>(dev->data->tx_queues[queue]);
  if (q == nullptr) return -EINVAL;  // librte_ethdev does not look whether it is set up
  (void)std::snprintf(mode->info, sizeof mode->info, "%s",
                      q->most > 1 ? "Several packets a WQE" : "A packet a WQE");
  return 0;
}

int update_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf) {
  return ethdev_of(dev).set_rss_hash(*conf);
}
int tell_rss(rte_eth_dev* dev, rte_eth_rss_conf* conf) {
  const Ethdev& e = ethdev_of(dev);
  conf->rss_hf = e.rss_asked();
  if (conf->rss_key == nullptr) return 0;
  if (conf->rss_key_len < flow::hash_key_bytes) return -EINVAL;
  conf->rss_key_len = flow::hash_key_bytes;
  std::copy(e.rss().key.begin(), e.rss().key.end(), conf->rss_key);
  return 0;
}

// The table as it is, in as many entries as are told.
std::vector<uint16_t> table_of(const rte_eth_dev* dev) {
  const std::vector<uint16_t> own = flow::table_of(ethdev_of(dev).rss(), dev->data->nb_rx_queues);
  std::vector<uint16_t> table(reta_entries);
  for (std::size_t i = 0; i < table.size(); i++) table[i] = own[i % own.size()];
  return table;
}

int update_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries) {
  if (entries != reta_entries) return -EINVAL;
  flow::Rss rss = ethdev_of(dev).rss();
  rss.table = table_of(dev);
  for (uint16_t i = 0; i < entries; i++) {
    const rte_eth_rss_reta_entry64& group = reta[i / RTE_ETH_RETA_GROUP_SIZE];
    if ((group.mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1) == 0) continue;
    rss.table[i] = group.reta[i % RTE_ETH_RETA_GROUP_SIZE];
  }
  return ethdev_of(dev).set_rss(std::move(rss));
}
int tell_reta(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries) {
  if (entries != reta_entries) return -EINVAL;
  const std::vector<uint16_t> table = table_of(dev);
  for (uint16_t i = 0; i < entries; i++) {
    rte_eth_rss_reta_entry64& group = reta[i / RTE_ETH_RETA_GROUP_SIZE];
    if ((group.mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1) != 0)
      group.reta[i % RTE_ETH_RETA_GROUP_SIZE] = table[i];
  }
  return 0;
}

int tell_flow_ops(rte_eth_dev*, const rte_flow_ops** ops) {
  *ops = &ethdev_flow_ops;
  return 0;
}

int read_clock(rte_eth_dev* dev, uint64_t* ticks) {
  const auto now = ethdev_of(dev).port().device().ticks();
  if (!now) return -now.error().code;
  *ticks = *now;
  return 0;
}

constexpr eth_dev_ops make_ops() noexcept {
  eth_dev_ops o{};
  o.dev_configure = configure;
  o.dev_start = start;
  o.dev_stop = stop;
  o.dev_close = close;
  o.dev_reset = reset;
  o.link_update = update_link;
  o.is_removed = is_removed;
  o.promiscuous_enable = enable_promiscuous;
  o.promiscuous_disable = disable_promiscuous;
  o.allmulticast_enable = enable_all_multicast;
  o.allmulticast_disable = disable_all_multicast;
  o.mac_addr_remove = remove_mac;
  o.mac_addr_add = add_mac;
  o.mac_addr_set = set_mac;
  o.set_mc_addr_list = set_multicast_list;
  o.mtu_set = set_mtu;
  o.stats_get = read_stats;
  o.stats_reset = o.xstats_reset = reset_stats;
  o.xstats_get = read_xstats;
  o.xstats_get_names = read_xstat_names;
  o.dev_infos_get = tell_info;
  o.rxq_info_get = tell_rxq;
  o.txq_info_get = tell_txq;
  o.rx_burst_mode_get = tell_rx_mode;
  o.tx_burst_mode_get = tell_tx_mode;
  o.fw_version_get = tell_firmware;
  o.dev_supported_ptypes_get = tell_types;
  o.vlan_filter_set = set_vlan;
  o.vlan_strip_queue_set = strip_queue;
  o.vlan_offload_set = set_vlan_offload;
  o.rx_queue_start = start_rx;
  o.rx_queue_stop = stop_rx;
  o.tx_queue_start = start_tx;
  o.tx_queue_stop = stop_tx;
  o.rx_queue_setup = set_up_rx;
  o.rx_queue_release = release_rx;
  o.rx_queue_intr_enable = enable_interrupt;
  o.rx_queue_intr_disable = disable_interrupt;
  o.tx_queue_setup = set_up_tx;
  o.tx_queue_release = release_tx;
  o.tx_done_cleanup = clean_tx;
  o.rss_hash_update = update_rss;
  o.rss_hash_conf_get = tell_rss;
  o.reta_update = update_reta;
  o.reta_query = tell_reta;
  o.flow_ops_get = tell_flow_ops;
  o.read_clock = read_clock;
  return o;
}

int close_secondary(rte_eth_dev*) {
  return 0;
}

constexpr eth_dev_ops make_secondary_ops() noexcept {
  eth_dev_ops o{};
  o.dev_close = close_secondary;
  o.stats_get = read_stats;
  o.xstats_get = read_xstats;
  o.xstats_get_names = read_xstat_names;
  o.dev_infos_get = tell_kept_info;
  o.dev_supported_ptypes_get = tell_types;
  return o;
}

}  // namespace

const eth_dev_ops ethdev_ops = make_ops();
const eth_dev_ops secondary_ops = make_secondary_ops();

}  // namespace kilim::net
