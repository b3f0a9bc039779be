// SPDX-License-Identifier: BSD-3-Clause
// Bursts in mbufs: net_kilim's on rings of an emulated NIC, net_mlx5's on the queues that it made.
#include "perf/race/mbufs.hh"

#include <cstdio>

#include "kilim/queue.hh"

namespace kilim::race {
namespace {

template <bool mac>
[[gnu::noinline]] uint32_t forward(void* self) {
  return forward_mbufs<mac>(static_cast<OnNic*>(self)->bursts);
}
uint32_t serve(void* self, uint32_t bytes) {
  return static_cast<OnNic*>(self)->nic->turn(burst_packets, bytes);
}

}  // namespace

void KilimMbufs::make_rx(rte_mempool& pool) {
  const queue::RqGeometry geometry = rings.rq();
  rx.counts = &rx_counts;
  rx.cq.emplace(rings.rx_cq());
  rx.mbufs = received;
  rx.wqes = geometry.buf;
  rx.record = geometry.record;
  rx.pool = &pool;
  const uint16_t words[4] = {RTE_PKTMBUF_HEADROOM, 1, 1, 0};
  __builtin_memcpy(&rx.rearm, words, sizeof rx.rearm);
  rx.mask = geometry.wqe_count - 1;
  rx.stride = geometry.stride;
  rx.segments = 1;
  rx.headroom = RTE_PKTMBUF_HEADROOM;
  rx.room = RTE_MBUF_DEFAULT_DATAROOM;
  rx.stamp_offset = -1;
  rx.keys.use(memory);
  rx.one_key = memory.whole(pool).bytes != 0;
  for (uint32_t i = 0; i < geometry.wqe_count; i++)
    queue::store_pointer(geometry.buf + std::size_t{i} * geometry.stride, 0, rx.room,
                         perf::packet_key);
}

void KilimMbufs::make_tx(bool offloads) {
  tx.counts = &tx_counts;
  tx.sq.emplace(rings.sq(), wr_ids);
  tx.cq.emplace(rings.tx_cq());
  tx.sent = sent;
  tx.ends = ends;
  tx.mask = tx.end_mask = ring - 1;
  tx.most = prm::max_ds;
  tx.fast_free = !offloads;
  tx.tags = tx.checksums = offloads;
  tx.max_tso = offloads ? 1 << 18 : 0;
  tx.max_frame = queue::max_frame;
  tx.plain_least = queue::ether_header_bytes;
  tx.keys.use(memory);
}

std::string KilimMbufs::open(bool offloads) {
  if (std::string why = rings.open("race_rings"); !why.empty()) return why;
  rte_mempool* pool = rte_pktmbuf_pool_create("race_kilim", pool_mbufs, pool_cache, 0,
                                              RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) return "no memory for a mempool";
  if (Status s = memory.add_pool(*pool); !s) return s.error().what;
  make_rx(*pool);
  make_tx(offloads);
  if (net::fill_mbuf_rx(rx) != ring) return "net_kilim's receive queue is not full";
  bursts = {net::select_mbuf_rx({}, false), &rx, net::select_mbuf_tx(false), &tx, {}};
  nic = std::make_unique<Nic>(Rings{rings.rq(), rings.rx_cq(), rings.sq(), rings.tx_cq()});
  return "";
}

namespace {

// The offsets that no value tells at rest: after some bursts the driver's own statistics, its
// doorbell record and what the Nic read in its WQEs say the same.
std::string try_out(Mlx5Mbufs& m) {
  uint64_t read = 0, done = 0;
  for (int i = 0; i < 40; i++) {
    if (serve(&m, 64) != burst_packets) return "net_mlx5 posts no receives";
    read += m.nic->sent();
    done += forward<false>(&m);
  }
  (void)m.nic->turn(0, 0);
  read += m.nic->sent();
  if (done != read || done != m.port.sent() || done != 40 * burst_packets)
    return "net_mlx5 sent " + std::to_string(m.port.sent()) + " packets, returned " +
           std::to_string(done) + ", and its WQEs have " + std::to_string(read);
  const rte_mbuf& p = *m.bursts.packets[burst_packets - 1];
  const uint64_t flags =
      RTE_MBUF_F_RX_RSS_HASH | RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  if ((p.ol_flags & flags) != flags || p.pkt_len != 64 || p.hash.rss == 0 ||
      (p.packet_type & RTE_PTYPE_L4_MASK) != RTE_PTYPE_L4_TCP)
    return "net_mlx5 receives without hash, packet type or checksum status";
  return "";
}

}  // namespace

std::string Mlx5Mbufs::open(uint64_t tx_offloads) {
  if (std::string why = port.open(tx_offloads); !why.empty()) return why;
  const auto& ops = rte_eth_fp_ops[port.number()];
  bursts = {ops.rx_pkt_burst, ops.rxq.data[0], ops.tx_pkt_burst, ops.txq.data[0], {}};
  nic = std::make_unique<Nic>(port.rings());
  return try_out(*this);
}

std::string add_mbufs(std::vector<Racer>& racers) {
  auto kilim = std::make_shared<KilimMbufs>();
  if (std::string why = kilim->open(); !why.empty()) return "net_kilim: " + why;
  racers.push_back({"net_kilim", kilim, forward<false>, forward<true>, serve});
  auto mlx5 = std::make_shared<Mlx5Mbufs>();
  if (std::string why = mlx5->open(); !why.empty()) return why;
  racers.push_back({"net_mlx5", mlx5, forward<false>, forward<true>, serve});
  std::printf("{\"bursts of net_mlx5\": \"%s\"}\n", mlx5->port.bursts().c_str());
  return "";
}

}  // namespace kilim::race
