// SPDX-License-Identifier: BSD-3-Clause
// Compressed blocks as mbufs over arrays that the test writes as a card does: every member that a
// receive writes is what the same packets have that come in CQEs of their own. Blocks of each
// length begin anywhere in the rings and cross their ends; bursts end inside of them.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include "eal.hh"
#include "net/kilim/mbuf_rx.hh"
#include "ut.hh"

namespace mbuf_blocks_ut {
namespace {

using namespace kilim;
using namespace kilim::net;

class OneKey final : public mr::Registrar {
 public:
  Result<mr::Region> register_memory(std::span<std::byte>, uint32_t, uint64_t) override {
    return Error{EOPNOTSUPP, "one key for all"};
  }
  Result<mr::Region> register_memory_at(std::span<std::byte>, Iova, uint32_t, uint64_t) override {
    return Error{EOPNOTSUPP, "one key for all"};
  }
  Status deregister(const mr::Region&) override { return Done{}; }
};

constexpr uint64_t pool_flags = RTE_MBUF_F_LAST_FREE;  // of a fresh mbuf

// A queue, and the device's side of it.
struct Queue {
  static constexpr uint32_t wqes = 64, entries = 128;
  alignas(64) std::array<prm::Cqe, entries> cqes{};
  alignas(64) std::array<prm::DataSeg, wqes> segments{};
  be32 cq_record{0}, rq_record{0};
  std::array<rte_mbuf*, wqes> mbufs{};
  RxCounts counts{};
  OneKey registrar;
  MbufMemory memory{registrar};
  MbufRx rx{};
  uint32_t made = 0, filled = 0;  // entries, receives

  Queue(rte_mempool* pool, int stamp_offset, uint64_t stamp_flag, bool mini_hash) {
    for (prm::Cqe& e : cqes) e.op_own = prm::cqe::invalid_op_own;
    rx.counts = &counts;
    rx.cq.emplace(queue::CqGeometry{.buf = reinterpret_cast<std::byte*>(cqes.data()),
                                    .cqe_count = entries,
                                    .cqe_bytes = 64,
                                    .record = &cq_record,
                                    .cqn = Cqn{1}});
    rx.mbufs = mbufs.data();
    rx.wqes = reinterpret_cast<std::byte*>(segments.data());
    rx.record = &rq_record;
    rx.pool = pool;
    const std::array<uint16_t, 4> words{RTE_PKTMBUF_HEADROOM, 1, 1, 7};
    std::memcpy(&rx.rearm, words.data(), sizeof rx.rearm);
    rx.base_flags = pool_flags;
    rx.mask = wqes - 1;
    rx.stride = sizeof(prm::DataSeg);
    rx.segments = 1;
    rx.headroom = RTE_PKTMBUF_HEADROOM;
    rx.room = RTE_MBUF_DEFAULT_DATAROOM;
    rx.one_key = true;
    rx.mini_hash = mini_hash;
    rx.stamp_offset = stamp_offset;
    rx.stamp_flag = stamp_flag;
    rx.keys.use(memory);
    EQUAL_FATAL(fill_mbuf_rx(rx), wqes);
  }
  [[nodiscard]] uint32_t can_come() const {
    return std::min<uint32_t>(entries - (made - cq_record.host()),
                              static_cast<uint16_t>(rq_record.host() - filled));
  }
  prm::Cqe& slot(uint32_t i) { return cqes[i % entries]; }
  void check_address() const {
    const rte_mbuf* m = mbufs[filled % wqes];
    EQUAL_FATAL(segments[filled % wqes].addr.host(),
                reinterpret_cast<uint64_t>(m->buf_addr) + RTE_PKTMBUF_HEADROOM);
  }
  void single(prm::Cqe e, prm::CqeOpcode op) {
    check_address();
    e.wqe_counter = be16{static_cast<uint16_t>(filled++)};
    e.op_own = prm::cqe::op_own(op, false, (made / entries & 1) != 0);
    slot(made++) = e;
  }
  // `packets`: alike but for length, hash and checksum.
  void block(std::span<const prm::Cqe> packets) {
    const auto n = static_cast<uint32_t>(packets.size());
    prm::Cqe title = packets[0];
    title.wqe_counter = be16{static_cast<uint16_t>(filled)};
    title.byte_cnt = be32{n};
    title.op_own = prm::cqe::op_own(prm::CqeOpcode::resp_send, false, (made / entries & 1) != 0) |
                   prm::cqe::compressed;
    slot(made) = title;
    for (uint32_t i = 0; i < n; i += 8) {
      // Behind the last one lies what lay there before.
      std::array<prm::MiniCqe, 8> minis;
      minis.fill({be32{0x5a5a5a5a}, be32{1999}});
      for (uint32_t k = i; k < std::min(i + 8, n); k++) {
        const be32 sum{uint32_t{packets[k].checksum.host()} << 16};
        minis[k - i] = {rx.mini_hash ? packets[k].rx_hash_result : sum, packets[k].byte_cnt};
      }
      std::memcpy(static_cast<void*>(&slot(made + prm::mini_cqe::entry_of(i))), minis.data(), 64);
    }
    filled += n;
    made += n;
  }
};

// Two queues that get the same packets: in blocks, and one by one.
class Both {
 public:
  Both(rte_mempool* pool, int stamp_offset, uint64_t stamp_flag, bool mini_hash)
      : stamp_offset_(stamp_offset),
        stamp_flag_(stamp_flag),
        blocks_(pool, stamp_offset, stamp_flag, mini_hash),
        singles_(pool, stamp_offset, stamp_flag, true) {}
  ~Both() {
    empty_mbuf_rx(blocks_.rx);
    empty_mbuf_rx(singles_.rx);
  }
  void round(uint32_t want) {
    if (below(3) == 0 && can_come() != 0) single();
    const uint32_t next = 2 + done_ % 63;
    if (can_come() >= next) {
      block(next);
      done_++;
    }
    std::array<rte_mbuf*, 32> got, beside;
    const uint16_t n = receive_(&blocks_.rx, got.data(), static_cast<uint16_t>(want));
    CU_ASSERT_FATAL(n <= want);
    // A burst that finds errors only is empty.
    for (uint32_t tries = 0; waiting_.size() < n; tries++) {
      CU_ASSERT_FATAL(tries < 40);
      const uint16_t more = receive_singles_(&singles_.rx, beside.data(), 32);
      waiting_.insert(waiting_.end(), beside.begin(), beside.begin() + more);
    }
    for (uint32_t i = 0; i < n; i++) {
      compare(*got[i], *waiting_.front());
      rte_pktmbuf_free(got[i]);
      rte_pktmbuf_free(waiting_.front());
      waiting_.pop_front();
      packets_++;
    }
  }
  void finish() {
    for (uint32_t i = 0; i < 200; i++) {
      std::array<rte_mbuf*, 32> got;
      rte_pktmbuf_free_bulk(got.data(), receive_(&blocks_.rx, got.data(), 32));
      rte_pktmbuf_free_bulk(got.data(), receive_singles_(&singles_.rx, got.data(), 32));
    }
    EQUAL(blocks_.counts.packets.read(), singles_.counts.packets.read());
    EQUAL(blocks_.counts.bytes.read(), singles_.counts.bytes.read());
    EQUAL(blocks_.counts.errors.read(), singles_.counts.errors.read());
    EQUAL(blocks_.cq_record.host(), blocks_.made);
    rte_pktmbuf_free_bulk(std::vector(waiting_.begin(), waiting_.end()).data(),
                          static_cast<unsigned>(waiting_.size()));
    for (const prm::Cqe& e : blocks_.cqes) CU_ASSERT(e.op_own >= prm::cqe::invalid_op_own);
  }
  [[nodiscard]] uint32_t done() const { return done_; }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  [[nodiscard]] uint32_t can_come() const {
    return std::min(blocks_.can_come(), singles_.can_come());
  }
  prm::Cqe title() {
    prm::Cqe e{};
    e.outer_l3_tunneled = static_cast<uint8_t>(random_());
    e.hds_ip_ext = static_cast<uint8_t>(random_());
    e.l4_hdr_type_etc = static_cast<uint8_t>(random_());
    e.vlan_info = be16{static_cast<uint16_t>(random_())};
    e.timestamp = be64{random_()};
    e.sop_drop_qpn = be32{below(2) == 0 ? 0u : static_cast<uint32_t>(random_())};
    return e;
  }
  prm::Cqe packet(prm::Cqe like) {
    like.byte_cnt = be32{1 + below(2000)};
    like.checksum = be16{static_cast<uint16_t>(random_())};
    like.rx_hash_result = be32{below(4) == 0 ? 0u : static_cast<uint32_t>(random_())};
    return like;
  }
  void single() {
    const prm::Cqe e = packet(title());
    if (below(8) != 0) {
      blocks_.single(e, prm::CqeOpcode::resp_send);
      return singles_.single(e, prm::CqeOpcode::resp_send);
    }
    prm::Cqe error{};
    reinterpret_cast<prm::ErrCqe&>(error).syndrome =
        static_cast<uint8_t>(prm::Syndrome::local_length);
    blocks_.single(error, prm::CqeOpcode::resp_err);
    singles_.single(error, prm::CqeOpcode::resp_err);
  }
  void block(uint32_t n) {
    const prm::Cqe like = title();
    std::vector<prm::Cqe> packets(n);
    for (prm::Cqe& e : packets) e = packet(like);
    blocks_.block(packets);
    for (uint32_t i = 0; i < n; i++) {
      if (!blocks_.rx.mini_hash && i != 0) packets[i].rx_hash_result = {};
      singles_.single(packets[i], prm::CqeOpcode::resp_send);
    }
  }
  void compare(const rte_mbuf& a, const rte_mbuf& b) const {
    CU_ASSERT_FATAL(std::memcmp(&a.rearm_data, &b.rearm_data, sizeof a.rearm_data) == 0);
    EQUAL_FATAL(a.ol_flags, b.ol_flags);
    EQUAL_FATAL(a.packet_type, b.packet_type);
    EQUAL_FATAL(a.pkt_len, b.pkt_len);
    EQUAL_FATAL(a.data_len, b.data_len);
    EQUAL_FATAL(a.vlan_tci, b.vlan_tci);
    EQUAL_FATAL(a.hash.rss, b.hash.rss);
    if ((a.ol_flags & RTE_MBUF_F_RX_FDIR) != 0) EQUAL_FATAL(a.hash.fdir.hi, b.hash.fdir.hi);
    EQUAL_FATAL((a.ol_flags & stamp_flag_) != 0, stamp_offset_ >= 0);
    if (stamp_offset_ < 0) return;
    EQUAL_FATAL(*RTE_MBUF_DYNFIELD(&a, stamp_offset_, const rte_mbuf_timestamp_t*),
                *RTE_MBUF_DYNFIELD(&b, stamp_offset_, const rte_mbuf_timestamp_t*));
  }

  int stamp_offset_;
  uint64_t stamp_flag_;
  Queue blocks_, singles_;
  MbufBurst receive_ = select_mbuf_rx({.compressed = true}, false);
  MbufBurst receive_singles_ = select_mbuf_rx({.extra = true}, false);
  std::mt19937_64 random_{5};
  std::deque<rte_mbuf*> waiting_;
  uint32_t done_ = 0;
  uint64_t packets_ = 0;
};

void blocks_are_what_single_ones_are() {
  CU_ASSERT_FATAL(test::start_eal());
  int offset = -1;
  uint64_t flag = 0;
  EQUAL_FATAL(rte_mbuf_dyn_rx_timestamp_register(&offset, &flag), 0);
  rte_mempool* const pool =
      rte_pktmbuf_pool_create("mbuf_blocks", 511, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  for (const bool mini_hash : {true, false}) {
    for (const bool stamped : {true, false}) {
      for (const uint32_t want : {1u, 4u, 7u, 32u}) {
        Both b(pool, stamped ? offset : -1, flag, mini_hash);
        for (uint32_t i = 0; i < 10000 && b.done() < 150; i++) b.round(want);
        EQUAL(b.done(), 150);
        b.finish();
      }
      EQUAL(rte_mempool_in_use_count(pool), 0);
    }
  }
  rte_mempool_free(pool);
}

const kilim::test::Case cases[] = {
    {"packets of blocks are what they are one by one", blocks_are_what_single_ones_are},
};

}  // namespace
}  // namespace mbuf_blocks_ut

KILIM_TEST_SUITE(mbuf_blocks, mbuf_blocks_ut::cases)
