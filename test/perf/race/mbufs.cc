// SPDX-License-Identifier: BSD-3-Clause
// Bursts in mbufs: net_kilim's on rings of an emulated NIC, net_mlx5's on the queues that it made.
#include "perf/race/mbufs.hh"

#include <algorithm>
#include <cstring>

#include "kilim/queue.hh"

namespace kilim::race {
namespace {

template <Work W>
[[gnu::noinline]] uint32_t forward(void* self) {
  return forward_mbufs<W>(static_cast<OnNic*>(self)->bursts);
}

constexpr uint64_t fresh_words = uint64_t{RTE_PKTMBUF_HEADROOM} | 1ull << 16 | 1ull << 32;

// Compares what the mbuf alone says: rearm_data's last word is the port.
bool is_whole(const rte_mbuf& m) noexcept {
  uint64_t words;
  std::memcpy(&words, &m.rearm_data, sizeof words);
  return (words & 0xffffffffffffull) == fresh_words && m.next == nullptr && m.pkt_len == m.data_len;
}

uint32_t receive(void* self, std::span<Seen> out) {
  MbufBursts& b = static_cast<OnNic*>(self)->bursts;
  const auto want = static_cast<uint16_t>(std::min<std::size_t>(out.size(), burst_packets));
  const uint16_t n = b.receive(b.rx, b.packets, want);
  for (uint16_t i = 0; i < n; i++) {
    const rte_mbuf& m = *b.packets[i];
    out[i] = {.bytes = m.pkt_len,
              .type = m.packet_type,
              .hash = m.hash.rss,
              .flags = m.ol_flags,
              .is_whole = is_whole(m)};
    std::memcpy(&out[i].frame, rte_pktmbuf_mtod(&m, const void*), sizeof out[i].frame);
  }
  rte_pktmbuf_free_bulk(b.packets, n);
  return n;
}

}  // namespace

void KilimMbufs::make_rx(Reception reception) {
  const queue::RqGeometry geometry = rings.rq();
  rx.counts = &rx_counts;
  rx.cq.emplace(rings.rx_cq());
  rx.mbufs = received;
  rx.wqes = geometry.buf;
  rx.record = geometry.record;
  rx.pool = pool;
  const uint16_t words[4] = {RTE_PKTMBUF_HEADROOM, 1, 1, 0};
  __builtin_memcpy(&rx.rearm, words, sizeof rx.rearm);
  rx.mask = geometry.wqe_count - 1;
  rx.stride = geometry.stride;
  rx.segments = 1;
  rx.headroom = RTE_PKTMBUF_HEADROOM;
  rx.room = RTE_MBUF_DEFAULT_DATAROOM;
  rx.stamp_offset = -1;
  rx.mini_hash = reception == Reception::hash_minis;
  rx.keys.use(memory);
  rx.one_key = memory.whole(*pool).bytes != 0;
  for (uint32_t i = 0; i < geometry.wqe_count; i++)
    queue::store_pointer(geometry.buf + std::size_t{i} * geometry.stride, 0, rx.room,
                         perf::packet_key);
}

void KilimMbufs::make_tx(uint64_t tx_offloads) {
  tx.counts = &tx_counts;
  tx.sq.emplace(rings.sq(), wr_ids);
  tx.cq.emplace(rings.tx_cq());
  tx.sent = sent;
  tx.ends = ends;
  tx.mask = tx.end_mask = ring - 1;
  tx.most = prm::max_ds;
  tx.fast_free = (tx_offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
  tx.tags = (tx_offloads & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) != 0;
  tx.checksums = (tx_offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0;
  tx.max_tso = (tx_offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0 ? 1 << 18 : 0;
  tx.max_frame = queue::max_frame;
  tx.plain_least = queue::ether_header_bytes;
  tx.keys.use(memory);
}

std::string KilimMbufs::open(uint64_t tx_offloads, Reception reception) {
  if (std::string why = rings.open("race_rings"); !why.empty()) return why;
  pool = rte_pktmbuf_pool_create("race_kilim", pool_mbufs, pool_cache, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                 SOCKET_ID_ANY);
  if (pool == nullptr) return "no memory for a mempool";
  if (Status s = memory.add_pool(*pool); !s) return s.error().what;
  make_rx(reception);
  make_tx(tx_offloads);
  if (net::fill_mbuf_rx(rx) != ring) return "net_kilim's receive queue is not full";
  const net::RxForm form{.compressed = reception != Reception::single};
  bursts = {.receive = net::select_mbuf_rx(form, false),
            .rx = &rx,
            .send = net::select_mbuf_tx(false),
            .tx = &tx,
            .packets = {},
            .held = {},
            .pool = pool};
  nic = std::make_unique<Nic>(Rings{rings.rq(), rings.rx_cq(), rings.sq(), rings.tx_cq()});
  return "";
}

namespace {

// The offsets that no value tells at rest: after some bursts the driver's own statistics, its
// doorbell record and what the Nic read in its WQEs say the same.
std::string try_out(Mlx5Mbufs& m) {
  uint64_t read = 0, done = 0;
  for (uint32_t i = 0; i < 40; i++) {
    m.nic->complete();
    read += m.nic->sent().packets;
    if (m.nic->room() < burst_packets) return "net_mlx5 posts no receives";
    for (uint32_t k = 0; k < burst_packets; k++) m.nic->receive({.hash = 0x1000000 + k});
    done += forward<Work{}>(&m);
  }
  m.nic->complete();
  read += m.nic->sent().packets;
  if (done != read || done != m.port.sent() || done != 40 * burst_packets)
    return "net_mlx5 sent " + std::to_string(m.port.sent()) + " packets, returned " +
           std::to_string(done) + ", and its WQEs have " + std::to_string(read);
  const rte_mbuf& p = *m.bursts.packets[burst_packets - 1];
  if ((p.ol_flags & (RTE_MBUF_F_RX_RSS_HASH | sums_good)) != (RTE_MBUF_F_RX_RSS_HASH | sums_good) ||
      p.pkt_len != 64 || p.hash.rss == 0 || (p.packet_type & RTE_PTYPE_L4_MASK) != RTE_PTYPE_L4_TCP)
    return "net_mlx5 receives without hash, packet type or checksum status";
  return "";
}

uint64_t tx_offloads_of(const Setting& s) {
  constexpr uint64_t sums = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
  uint64_t wanted = s.fast_free ? RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE : 0;
  if (s.work.segments > 1) wanted |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  switch (s.work.ask) {
    case Ask::nothing:
      return wanted;
    case Ask::tag:
    case Ask::tags:
      return wanted | RTE_ETH_TX_OFFLOAD_VLAN_INSERT;
    case Ask::tso:
      return wanted | sums | RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    default:
      return wanted | sums;
  }
}

}  // namespace

std::string Mlx5Mbufs::open(uint64_t tx_offloads) {
  if (std::string why = port.open(tx_offloads); !why.empty()) return why;
  const auto& ops = rte_eth_fp_ops[port.number()];
  bursts = {.receive = ops.rx_pkt_burst,
            .rx = ops.rxq.data[0],
            .send = ops.tx_pkt_burst,
            .tx = ops.txq.data[0],
            .packets = {},
            .held = {},
            .pool = port.pool()};
  nic = std::make_unique<Nic>(port.rings());
  return try_out(*this);
}

std::string add_mbufs(std::vector<Racer>& racers, const Setting& s) {
  const auto forward_it = function_of<uint32_t (*)(void*)>(
      s.work, []<Work W>() noexcept -> uint32_t (*)(void*) { return &forward<W>; });
  auto kilim = std::make_shared<KilimMbufs>();
  if (std::string why = kilim->open(tx_offloads_of(s), s.reception); !why.empty())
    return "net_kilim: " + why;
  racers.push_back({.name = "net_kilim",
                    .self = kilim,
                    .forward = forward_it,
                    .receive = receive,
                    .nic = kilim->nic.get()});
  if (s.reception == Reception::sum_minis) return "";  // not among the driver's formats
  auto mlx5 = std::make_shared<Mlx5Mbufs>();
  if (std::string why = mlx5->open(tx_offloads_of(s)); !why.empty()) return why;
  racers.push_back({.name = "net_mlx5",
                    .self = mlx5,
                    .forward = forward_it,
                    .receive = receive,
                    .nic = mlx5->nic.get(),
                    .always_hash = true,
                    .is_peer = true,
                    .bursts = mlx5->port.bursts()});
  return "";
}

}  // namespace kilim::race
