// SPDX-License-Identifier: BSD-3-Clause
// Bursts of any size with any contents over rings that wrap at different places: handles, side
// records and WQEs are compared with what one packet by itself would be. Words of packets are those
// of DPDK's mlx5 driver (mlx5_set_ptype_table() and rxq_cq_to_mbuf(), drivers/net/mlx5/mlx5_rxtx.c
// and mlx5_rx.c of DPDK 22.11).
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "burst_fixture.hh"
#include "case_tables.hh"
#include "forms_cases.hh"
#include "rows_fixture.hh"
#include "ut.hh"

namespace packets_random_ut {
namespace {

using namespace kilim;
using namespace kilim::burst;
using pool::Handle;
using test::arena_key;
using test::Bench;
using test::expected_side;

constexpr uint32_t rounds = 400;

bool same(const pool::SideRecord& a, const pool::SideRecord& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

struct Arrival {
  Handle handle;
  pool::SideRecord side;
};

unsigned seed_of(RxConfig c) {
  return 1u + c.side + 2u * c.vlan + 4u * c.timestamp + 8u * c.mark + 16u * c.tunnel;
}

class Receiver {
 public:
  Receiver(const RxVariant& v, uint32_t side_piece, uint32_t cqe_bytes)
      : b_(side_piece), burst_(v.burst), config_(v.config), random_(seed_of(v.config)) {
    b_.rx_memory.cq.entry_bytes = cqe_bytes;
    b_.rx->cq = queue::Cq(b_.rx_memory.cq.geometry());
    rx_refill(*b_.rx);
  }

  void round() {
    for (uint32_t n = below(28); n > 0 && arrived_ < b_.rx->rq.posted(); n--) arrive();
    std::array<Handle, 27> out;
    const uint32_t before = b_.rx_memory.cq.record.host();
    const uint32_t n = burst_(*b_.rx, std::span(out).first(1 + below(26)));
    arrived_ -= b_.rx_memory.cq.record.host() - before;
    for (uint32_t i = 0; i < n; i++) compare(out[i]);
  }
  void finish() {
    while (!due_.empty()) round();
    EQUAL(b_.outstanding(), b_.rx->rq.posted());
    EQUAL(b_.rx->counters.packets.read(), packets_);
    EQUAL(b_.rx->counters.bytes.read(), bytes_);
    CU_ASSERT_TRUE(packets_ > rounds);
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void arrive() {
    const auto wqe = static_cast<uint16_t>(next_++);
    arrived_++;
    const Handle posted{b_.rx->rq.index(wqe), 0, 0};
    const prm::DataSeg& into = b_.rx_memory.ring[wqe % test::RxMemory::wqes];
    EQUAL_FATAL(into.addr.host(), b_.arena.address(posted).value() + 128);
    EQUAL(into.byte_count.host(), 2112 - 128);
    EQUAL(into.lkey.host(), arena_key.value());
    if (below(40) == 0) {
      b_.rx_memory.cq.write_error(prm::CqeOpcode::resp_err, wqe, prm::Syndrome::local_length);
      return;
    }
    prm::Cqe& e = b_.rx_memory.cq.write(prm::CqeOpcode::resp_send, wqe, 1 + below(1984));
    e.rx_hash_result = be32{below(4) == 0 ? 0u : static_cast<uint32_t>(random_())};
    test::describe_at_random(e, random_);
    e.op_own |= below(2) == 0 ? prm::cqe::solicited_bit : uint8_t{0};
    Arrival a{pool::make_handle(posted.index, e.byte_cnt.host(), 2), {}};
    if (config_.side) {
      a.handle.meta |= Handle::side;
      a.side = expected_side(e, config_, b_.arena.side(a.handle));
    }
    due_.push_back(a);
  }
  void compare(Handle h) {
    CU_ASSERT_FALSE_FATAL(due_.empty());
    const Arrival a = due_.front();
    due_.pop_front();
    CU_ASSERT_TRUE_FATAL(h == a.handle);
    if (config_.side) CU_ASSERT_TRUE_FATAL(same(b_.arena.side(h), a.side));
    packets_++;
    bytes_ += h.length;
    b_.cache->free_one(h);
  }

  Bench b_;
  RxBurst burst_;
  RxConfig config_;
  std::mt19937_64 random_;
  std::deque<Arrival> due_;
  uint32_t next_ = 0, arrived_ = 0;
  uint64_t packets_ = 0, bytes_ = 0;
};

void received_as_one_by_one() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());  // before it nothing but the base is allowed
  uint32_t visited = 0;
  for (const RxVariant& v : test::compiled().rx) {
    if (v.needs > widest_simd()) continue;
    for (const auto& [side_piece, cqe_bytes] : {std::pair{0u, 64u}, {64u, 64u}, {0u, 128u}}) {
      Receiver r(v, side_piece, cqe_bytes);
      for (uint32_t i = 0; i < rounds; i++) r.round();
      r.finish();
    }
    visited++;
  }
  EQUAL(visited, 10 * test::kinds_of_vectors());
}

// The WQEs of each burst against those of a queue that gets its packets one by one. Where several
// packets share a WQE, its segments are taken apart (DPDK drivers/net/mlx5/mlx5_tx.h,
// mlx5_tx_burst_empw_simple()).
class Sender {
 public:
  explicit Sender(const TxVariant& v) : variant_(v) {}

  void round() {
    std::array<Handle, 47> in;
    const uint32_t want = 1 + below(in.size());
    const uint32_t got = b_.cache->alloc(std::span(in).first(want), 1);
    for (uint32_t i = 0; i < got; i++) {
      in[i].length = static_cast<uint16_t>(below(60) == 0 ? 0 : 1 + below(65535));
      in[i].meta = pool::meta_at(below(pool::default_stride));
      if (below(2) == 0) in[i].meta |= Handle::side;
    }
    (void)variant_.reclaim(*b_.tx);
    const uint32_t room = tx_room(*b_.tx), first = b_.tx->sq.posted();
    const uint32_t sent = variant_.burst(*b_.tx, std::span(in).first(got));
    const uint32_t least = expected(in, got, room), most = expected(in, got, got);
    CU_ASSERT_TRUE_FATAL(sent >= least);
    CU_ASSERT_TRUE_FATAL(sent <= (variant_.config.multi_packet ? most : least));
    if (sent != 0) compare(first, std::span(in).first(sent));
    b_.cache->free({in.data() + sent, got - sent});
    if (below(3) == 0) complete();
  }
  void finish() {
    while (!ends_.empty()) complete();
    (void)variant_.reclaim(*b_.tx);
    EQUAL(b_.outstanding(), 0u);
    EQUAL(b_.tx->counters.bytes.read(), bytes_);
    CU_ASSERT_TRUE(packets_ > rounds);
    if (variant_.config.multi_packet) {
      CU_ASSERT_TRUE(wqes_ * 2 < packets_);
      CU_ASSERT_TRUE(longest_ > 30);
    }
  }

 private:
  uint32_t below(std::size_t n) { return static_cast<uint32_t>(random_() % n); }

  // All that have room, up to the first empty one.
  static uint32_t expected(std::span<const Handle> in, uint32_t got, uint32_t room) {
    uint32_t n = 0;
    while (n < got && n < room && in[n].length != 0) n++;
    return n;
  }
  void compare(uint32_t first, std::span<const Handle> sent) {
    uint32_t at = first;
    for (std::size_t done = 0; done < sent.size();) {
      const prm::CtrlSeg& ctrl = b_.tx_memory.ctrl(at);
      const uint32_t packets = prm::ctrl::ds::get(ctrl) - 2u;
      const uint32_t opcode = packets == 1 ? 0x0au : 0x29u;
      CU_ASSERT_TRUE_FATAL(packets <= (variant_.config.multi_packet ? 61u : 1u));
      CU_ASSERT_TRUE_FATAL(packets != 0);
      CU_ASSERT_TRUE_FATAL(done + packets <= sent.size());
      EQUAL_FATAL(ctrl.opmod_idx_opcode.host(), (at & 0xffff) << 8 | opcode);
      EQUAL_FATAL(ctrl.qpn_ds.host() >> 8, 0x123u);
      const bool last = done + packets == sent.size();
      EQUAL_FATAL(ctrl.fm_ce_se, last ? prm::ctrl::cq_update : prm::ctrl::only_first_error);
      for (uint32_t i = 0; i < packets; i++) compare(b_.tx_memory.data(at, i), sent[done++]);
      if (last) ends_.push_back(at);
      at += (packets + 2 + 3) / 4;
      longest_ = std::max(longest_, packets);
      wqes_++;
    }
    packets_ += static_cast<uint32_t>(sent.size());
    EQUAL_FATAL(b_.tx_memory.record.host(), at & 0xffff);
    EQUAL_FATAL(b_.tx->sq.posted(), at);
  }
  void compare(const prm::DataSeg& data, Handle h) {
    EQUAL_FATAL(data.byte_count.host(), uint32_t{h.length});
    EQUAL_FATAL(data.lkey.host(), arena_key.value());
    EQUAL_FATAL(data.addr.host(), reinterpret_cast<uint64_t>(b_.memory.data()) +
                                      uint64_t{h.index} * pool::default_stride + h.offset());
    bytes_ += h.length;
  }
  void complete() {
    if (ends_.empty()) return;
    b_.tx_memory.cq.write(prm::CqeOpcode::req, static_cast<uint16_t>(ends_.front()));
    ends_.pop_front();
  }

  Bench b_;
  const TxVariant& variant_;
  std::mt19937_64 random_{7};
  std::deque<uint32_t> ends_;
  uint64_t bytes_ = 0;
  uint32_t wqes_ = 0, packets_ = 0, longest_ = 0;
};

void sent_as_one_by_one() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  uint32_t visited = 0;
  for (const TxVariant& v : test::compiled().tx) {
    if (v.needs > widest_simd() || !test::sends_one_buffer(v.config)) continue;
    Sender s(v);
    for (uint32_t i = 0; i < 5 * rounds; i++) s.round();
    s.finish();
    visited++;
  }
  EQUAL(visited, test::one_buffer_rows * test::kinds_of_vectors());
}

// All values of both bytes, as the driver's table has them.
void packet_types_are_dpdks() {
  constexpr RxConfig plain{.side = true}, tunnel{.side = true, .tunnel = true};
  for (uint32_t i = 0; i < 1 << 16; i++) {
    prm::Cqe e{};
    e.l4_hdr_type_etc = static_cast<uint8_t>(i);
    e.outer_l3_tunneled = static_cast<uint8_t>(i >> 8);
    EQUAL(packet_types[i & 0xff], expected_side(e, plain, {}).packet_type);
    EQUAL(type_of<tunnel>(e), expected_side(e, tunnel, {}).packet_type);
  }
}

// What is asked for has a row with all of it, the smallest where there is one of just that.
void each_configuration_is_served() {
  for (uint32_t i = 0; i < 64; i++) {
    const RxConfig c{.side = (i & 1) != 0,
                     .vlan = (i & 2) != 0,
                     .timestamp = (i & 4) != 0,
                     .mark = (i & 8) != 0,
                     .tunnel = (i & 16) != 0,
                     .lro = (i & 32) != 0};
    const RxConfig row = test::chosen_rx(c, Simd::base).config;
    EQUAL(row.side, c.side);
    if (c.side) {
      CU_ASSERT_TRUE(row.vlan >= c.vlan);
      CU_ASSERT_TRUE(row.timestamp >= c.timestamp);
      CU_ASSERT_TRUE(row.mark >= c.mark);
      CU_ASSERT_TRUE(row.tunnel >= c.tunnel);
      CU_ASSERT_TRUE(row.lro >= c.lro);
    }
    for (const RxConfig& r : rx_rows)
      if (r == c) CU_ASSERT_TRUE(row == c);
    EQUAL(test::chosen_chain(c).config, row);
    EQUAL(test::chosen_compressed(c, Simd::base).config, row);
    EQUAL(test::chosen_strided(c).config, row);
  }
}

const kilim::test::Case cases[] = {
    {"packets received in bursts are those received one by one", received_as_one_by_one},
    {"packets sent in bursts are those sent one by one", sent_as_one_by_one},
    {"packet types are those of DPDK's driver", packet_types_are_dpdks},
    {"each configuration is served by a row", each_configuration_is_served},
};

}  // namespace
}  // namespace packets_random_ut

kilim::pool::SideRecord kilim::test::expected_side(const prm::Cqe& e, burst::RxConfig c,
                                                   const pool::SideRecord& before) {
  static constexpr uint32_t l3[] = {0, 0xe0, 0x90, 0};  // -, IPv6, IPv4, -
  static constexpr uint32_t l4[] = {0x600, 0x100, 0x200, 0x100, 0x100, 0, 0, 0};
  pool::SideRecord r = before;
  r.rx_hash = e.rx_hash_result.host();
  const uint32_t kind = e.l4_hdr_type_etc >> 2 & 3, network = l3[kind];
  const bool fragment = (e.l4_hdr_type_etc & 0x80) != 0;
  const uint32_t transport = fragment ? 0x300 : l4[e.l4_hdr_type_etc >> 4 & 7];
  r.packet_type = 1 | network | (network != 0 ? transport : 0);
  if (c.tunnel && (e.outer_l3_tunneled & 1) != 0) {
    static constexpr uint32_t inner[] = {0, 0x600000, 0x400000, 0};
    const bool outer6 = (e.outer_l3_tunneled & 2) != 0;
    r.packet_type = 1 | (outer6 ? 0xe0 : 0x90) | inner[kind];
    if (network != 0) r.packet_type |= transport << 16;  // the same numbers, 16 bits higher
  }
  uint32_t flags = (r.rx_hash != 0 ? 1u << 1 : 0u) | ((e.hds_ip_ext & 2) != 0 ? 1u << 7 : 0u) |
                   ((e.hds_ip_ext & 4) != 0 ? 1u << 8 : 0u);
  r.vlan = c.vlan ? e.vlan_info.host() : uint16_t{0};
  if (c.vlan && (e.l4_hdr_type_etc & 1) != 0) flags |= 1u << 0 | 1u << 6;
  const uint32_t mark = c.mark ? e.sop_drop_qpn.host() % (1u << 24) : 0;
  if (mark != 0) flags |= 1u << 2 | 1u << 13;
  r.flags = flags | mark / 65536 * (1u << 24);
  r.mark_low = static_cast<uint16_t>(mark % 65536);
  if (c.timestamp) r.timestamp = e.timestamp.host();
  return r;
}

void kilim::test::describe_at_random(prm::Cqe& e, std::mt19937_64& random) {
  e.outer_l3_tunneled = static_cast<uint8_t>(random());
  e.hds_ip_ext = static_cast<uint8_t>(random());
  e.l4_hdr_type_etc = static_cast<uint8_t>(random());
  e.vlan_info = be16{static_cast<uint16_t>(random())};
  e.timestamp = be64{random()};
  const uint64_t number = random();
  const uint32_t mark = number % 4 == 0 ? 0 : static_cast<uint32_t>(number >> 8 & 0xffffff);
  e.sop_drop_qpn = be32{static_cast<uint32_t>(number >> 32 & 0xff) << 24 | mark};
}

KILIM_TEST_MAIN(packets_random) {
  return kilim::test::run_tables(
      "burst_packets_random",
      {packets_random_ut::cases, kilim::test::forms_cases(), kilim::test::words_cases()}, argc,
      argv);
}
