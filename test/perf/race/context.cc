// SPDX-License-Identifier: BSD-3-Clause
// Ports of DPDK's software drivers, which move packets between processes or to the kernel and so do
// other work than a card's driver: a scale to read the race by.
#include <chrono>

#include "perf/race/mbuf_work.hh"
#include "perf/race/mlx5_port.hh"
#include "perf/race/racers.hh"

namespace kilim::race {
namespace {

struct Ports {
  MbufBursts bursts{};
  uint16_t port = 0, feeder = 0;  // the same: what is sent comes back
  bool makes_packets = false;     // of its own
  rte_mempool* pool = nullptr;
};

template <Work W>
[[gnu::noinline]] uint32_t forward(void* self) {
  return forward_mbufs<W>(static_cast<Ports*>(self)->bursts);
}

// What was sent is taken from the other end, and as much is sent from there.
uint32_t serve(void* self, uint32_t bytes) {
  auto& s = *static_cast<Ports*>(self);
  if (s.makes_packets) return burst_packets;
  rte_mbuf* some[2 * burst_packets];
  while (const uint16_t n = rte_eth_rx_burst(s.feeder, 0, some, 2 * burst_packets))
    rte_pktmbuf_free_bulk(some, n);
  if (rte_pktmbuf_alloc_bulk(s.pool, some, burst_packets) != 0) return 0;
  for (uint16_t i = 0; i < burst_packets; i++)
    some[i]->pkt_len = some[i]->data_len = static_cast<uint16_t>(bytes);
  const uint16_t n = rte_eth_tx_burst(s.feeder, 0, some, burst_packets);
  if (n < burst_packets) rte_pktmbuf_free_bulk(some + n, burst_packets - n);
  return n;
}

// A client of memif connects a while after its start.
bool is_up(uint16_t port) {
  using Clock = std::chrono::steady_clock;
  rte_eth_link link{};
  const auto end = Clock::now() + std::chrono::seconds(5);
  do {
    if (rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP)
      return true;
  } while (Clock::now() < end);
  return false;
}

}  // namespace

std::string add_context(std::vector<Racer>& racers, const Setting& s) {
  auto self = std::make_shared<Ports>();
  const uint16_t ports = rte_eth_dev_count_avail();
  if (ports == 0 || ports > 2) return "context takes a --vdev, or two that are connected";
  self->feeder = static_cast<uint16_t>(ports - 1);
  self->pool = rte_mempool_lookup("race_context");
  if (self->pool == nullptr)
    self->pool = rte_pktmbuf_pool_create("race_context", 4 * pool_mbufs, pool_cache, 0,
                                         RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (self->pool == nullptr) return "no memory for a mempool";
  for (uint16_t p = 0; p < ports; p++) {
    (void)rte_eth_dev_stop(p);  // of the setting before
    if (std::string why = start_port(p, self->pool); !why.empty()) return why;
  }
  for (uint16_t p = 0; p < ports; p++)
    if (!is_up(p)) return "a port's link does not come up";
  rte_eth_dev_info info;
  if (rte_eth_dev_info_get(0, &info) != 0) return "the port tells nothing of itself";
  const std::string driver = info.driver_name;
  self->makes_packets = driver == "net_null" || driver == "net_pcap";
  const auto& ops = rte_eth_fp_ops[0];
  self->bursts = {.receive = ops.rx_pkt_burst,
                  .rx = ops.rxq.data[0],
                  .send = ops.tx_pkt_burst,
                  .tx = ops.txq.data[0],
                  .packets = {},
                  .held = {}};
  const bool is_mac = s.work.job == Job::mac;
  racers.push_back({.name = driver,
                    .self = self,
                    .forward = is_mac ? forward<Work{.job = Job::mac}> : forward<Work{}>,
                    .serve = serve});
  return "";
}

}  // namespace kilim::race
