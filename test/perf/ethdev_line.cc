// SPDX-License-Identifier: BSD-3-Clause
// The ethdev driver's io: rte_eth_rx_burst(), then rte_eth_tx_burst() of the same mbufs, 32 frames
// of 64 bytes at a time, with packet type, RSS hash, checksum status and statistics. The bursts are
// those of a card and of progress=thread, which run no device: the virtual device runs outside of
// what is counted. Frames come by a cable from an adapter of libibverbs alone.

#include <cstring>
#include <memory>

#include <rte_bus_vdev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "net/kilim/mbuf_rx.hh"
#include "net/kilim/mbuf_tx.hh"
#include "perf/device/cable_end.hh"

namespace kilim::perf {
namespace {

constexpr uint16_t ring = 256;
constexpr unsigned mbufs = 4096;
constexpr uint64_t rx_offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_RSS_HASH;

// A started port of one queue each way, and the other end of its cable.
struct EthdevCable {
  End far;
  uint16_t port = 0;
  rte_mempool* pool = nullptr;

  bool open() {
    if (rte_vdev_init("net_kilim_perf", "hca=vhca7,wire=cable:perf_ethdev") != 0) return false;
    if (rte_eth_dev_get_port_by_name("net_kilim_perf", &port) != 0) return false;
    pool = rte_pktmbuf_pool_create("perf_ethdev", mbufs, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (pool == nullptr || !start() || !far.open("perf_far", "perf_ethdev")) return false;
    for (uint32_t i = 0; i < round_requests; i++)
      std::memcpy(far.memory.data() + i * room_bytes, frame_headers, sizeof frame_headers);
    return true;
  }
  bool start() const {
    rte_eth_conf conf{};
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rxmode.offloads = rx_offloads;
    conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;  // as testpmd sets it by itself
    conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    return rte_eth_dev_configure(port, 1, 1, &conf) == 0 &&
           rte_eth_rx_queue_setup(port, 0, ring, 0, nullptr, pool) == 0 &&
           rte_eth_tx_queue_setup(port, 0, ring, 0, nullptr) == 0 && rte_eth_dev_start(port) == 0 &&
           rte_eth_promiscuous_enable(port) == 0;
  }
  // Runs the port's device: what its polled bursts do before they look for packets.
  void run() const {
    struct rte_eth_fp_ops& fast = ::rte_eth_fp_ops[port];
    rte_mbuf* none = nullptr;
    fast.rx_pkt_burst = net::select_mbuf_rx({}, true);
    (void)rte_eth_rx_burst(port, 0, &none, 0);
    fast.rx_pkt_burst = net::select_mbuf_rx({}, false);
    fast.tx_pkt_burst = net::select_mbuf_tx(false);
  }
};

std::unique_ptr<EthdevCable> cable;

uint32_t prepare(Rig&, const Case&) {
  if (cable == nullptr) {
    cable = std::make_unique<EthdevCable>();
    if (!cable->open()) return 0;
  }
  if (!cable->far.drain() || !cable->far.send_round()) return 0;
  cable->far.device->poll();
  cable->run();
  return 1;
}

// What a packet says must be there, or less would be counted than is asked for.
bool is_described(const rte_mbuf& m) noexcept {
  constexpr uint64_t flags =
      RTE_MBUF_F_RX_RSS_HASH | RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  return (m.ol_flags & flags) == flags && (m.packet_type & RTE_PTYPE_L4_MASK) == RTE_PTYPE_L4_UDP;
}

[[gnu::noinline]] uint32_t forward(Rig&, const Case&) {
  rte_mbuf* packets[round_requests];
  const uint16_t n = rte_eth_rx_burst(cable->port, 0, packets, round_requests);
  if (n != round_requests || !is_described(*packets[0])) return 0;
  return rte_eth_tx_burst(cable->port, 0, packets, n);
}

constexpr Case cases[] = {{"64 bytes", frame_bytes}};
constexpr Side peers[] = {{"memcpy, twice", two_copies}};

}  // namespace

extern const Line ethdev_line;
const Line ethdev_line = {.metric = "packets forwarded, io, by ethdev",
                          .time_goal = 0,
                          .instruction_goal = 0,
                          .cases = cases,
                          .kilim = {"bursts of mbufs", forward, prepare},
                          .peers = peers,
                          .executing = true,
                          .most_instructions = 118};

}  // namespace kilim::perf
