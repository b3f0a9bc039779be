// SPDX-License-Identifier: BSD-3-Clause
// Bursts in mbufs: net_kilim's on rings of an emulated NIC, net_mlx5's on the queues that it made.
#include <cerrno>

#include "kilim/queue/sge.hh"
#include "net/kilim/mbuf_rx.hh"
#include "net/kilim/mbuf_tx.hh"
#include "perf/packet/emulated_nic.hh"
#include "race/racers.hh"

namespace kilim::race {
namespace {

struct OnNic {
  MbufBursts bursts{};
  std::unique_ptr<Nic> nic;
};

template <bool mac>
[[gnu::noinline]] uint32_t forward(void* self) {
  return forward_mbufs<mac>(static_cast<OnNic*>(self)->bursts);
}
uint32_t serve(void* self, uint32_t bytes) {
  return static_cast<OnNic*>(self)->nic->turn(burst_packets, bytes);
}

// Every region has the one key.
class OneKey final : public mr::Registrar {
 public:
  Result<mr::Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                     uint64_t page_bytes) override {
    mr::Region r{};
    r.address = reinterpret_cast<uint64_t>(memory.data());
    r.length = memory.size();
    r.lkey = perf::packet_key;
    r.access = access;
    r.page_bytes = page_bytes;
    return r;
  }
  Result<mr::Region> register_memory_at(std::span<std::byte>, Iova, uint32_t, uint64_t) override {
    return Error{EOPNOTSUPP, "one key for all"};
  }
  Status deregister(const mr::Region&) override { return Done{}; }
};

// As net/kilim/ethdev_queues.cc makes them, make_rx() and make_tx(); nothing fails here, so that no
// port stands behind them.
struct Kilim : OnNic {
  perf::EmulatedNic rings;
  OneKey registrar;
  net::MbufMemory memory{registrar};
  net::RxCounts rx_counts{};
  net::TxCounts tx_counts{};
  rte_mbuf* received[ring]{};
  rte_mbuf* sent[ring]{};
  uint32_t ends[ring]{};
  uint64_t wr_ids[ring]{};
  net::MbufRx rx{};
  net::MbufTx tx{};

  std::string open();
  void make_rx(rte_mempool& pool);
  void make_tx();
};

void Kilim::make_rx(rte_mempool& pool) {
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

void Kilim::make_tx() {
  tx.counts = &tx_counts;
  tx.sq.emplace(rings.sq(), wr_ids);
  tx.cq.emplace(rings.tx_cq());
  tx.sent = sent;
  tx.ends = ends;
  tx.mask = tx.end_mask = ring - 1;
  tx.most = prm::max_ds;
  tx.fast_free = true;
  tx.keys.use(memory);
}

std::string Kilim::open() {
  if (std::string why = rings.open("race_rings"); !why.empty()) return why;
  rte_mempool* pool = rte_pktmbuf_pool_create("race_kilim", pool_mbufs, pool_cache, 0,
                                              RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) return "no memory for a mempool";
  if (Status s = memory.add_pool(*pool); !s) return s.error().what;
  make_rx(*pool);
  make_tx();
  if (net::fill_mbuf_rx(rx) != ring) return "net_kilim's receive queue is not full";
  bursts = {net::select_mbuf_rx({}, false), &rx, net::select_mbuf_tx(false), &tx, {}};
  nic = std::make_unique<Nic>(Rings{rings.rq(), rings.rx_cq(), rings.sq(), rings.tx_cq()});
  return "";
}

struct Mlx5 : OnNic {
  Mlx5Port port;
};

// The offsets that no value tells at rest: after some bursts the driver's own statistics, its
// doorbell record and what the Nic read in its WQEs say the same.
std::string try_out(Mlx5& m) {
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

std::string add_mbufs(std::vector<Racer>& racers) {
  auto kilim = std::make_shared<Kilim>();
  if (std::string why = kilim->open(); !why.empty()) return "net_kilim: " + why;
  racers.push_back({"net_kilim", kilim, forward<false>, forward<true>, serve});
  auto mlx5 = std::make_shared<Mlx5>();
  if (std::string why = mlx5->port.open(); !why.empty()) return why;
  const auto& ops = rte_eth_fp_ops[mlx5->port.number()];
  mlx5->bursts = {ops.rx_pkt_burst, ops.rxq.data[0], ops.tx_pkt_burst, ops.txq.data[0], {}};
  mlx5->nic = std::make_unique<Nic>(mlx5->port.rings());
  if (std::string why = try_out(*mlx5); !why.empty()) return why;
  racers.push_back({"net_mlx5", mlx5, forward<false>, forward<true>, serve});
  std::printf("{\"bursts of net_mlx5\": \"%s\"}\n", mlx5->port.bursts().c_str());
  return "";
}

}  // namespace kilim::race
