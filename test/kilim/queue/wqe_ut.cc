// SPDX-License-Identifier: BSD-3-Clause
// The bytes of every builder, written out by hand from the manual's layout.
#include "case_tables.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "ring_fixture.hh"
#include "ut.hh"

namespace wqe_ut {
namespace {

using namespace kilim;
using namespace kilim::queue;
using kilim::test::SqRing;

constexpr Remote peer{0x1122334455667788, Rkey{0xa1b2c3d4}};
const Sge piece{0x99aabbccddeeff00, 0x1234, Lkey{0x01020304}};
const Sge second{0x0f0e0d0c0b0a0908, 1, Lkey{0x05060708}};
constexpr Wr wr{.id = 42, .flags = WrFlags::signalled, .imm = 0xcafe0102};

// Appends one WQE with `build` to a fresh ring and returns it.
template <typename Build>
SqRing<8> built(Build build) {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  WqeCursor c{sq};
  CU_ASSERT_TRUE(build(c));
  c.commit();
  EQUAL(ring.wr_ids[0], wr.id);
  return ring;
}

bool starts(const SqRing<8>& r, uint32_t block, std::span<const uint8_t> bytes) {
  return std::memcmp(r.block(block), bytes.data(), bytes.size()) == 0;
}

void write_and_read() {
  uint8_t expected[48] = {0,    0,    0,    0x08, 0xab, 0xcd, 0xef, 3,    0,    0,    0,    8,
                          0,    0,    0,    0,    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
                          0xa1, 0xb2, 0xc3, 0xd4, 0,    0,    0,    0,    0,    0,    0x12, 0x34,
                          1,    2,    3,    4,    0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0};
  const Sge list[1] = {piece};
  auto one = built([](WqeCursor& c) { return rdma_write(c, peer, piece, wr); });
  auto many = built([&](WqeCursor& c) { return rdma_write(c, peer, std::span{list}, wr); });
  CU_ASSERT_TRUE(starts(one, 0, expected));
  CU_ASSERT_TRUE(starts(many, 0, expected));
  expected[3] = 0x10;
  auto read = built([](WqeCursor& c) { return rdma_read(c, peer, piece, wr); });
  auto reads = built([&](WqeCursor& c) { return rdma_read(c, peer, std::span{list}, wr); });
  CU_ASSERT_TRUE(starts(read, 0, expected));
  CU_ASSERT_TRUE(starts(reads, 0, expected));
  expected[3] = 0x09;
  const uint8_t imm[4] = {0xca, 0xfe, 1, 2};
  std::memcpy(expected + 12, imm, 4);
  auto write_imm = built([&](WqeCursor& c) { return rdma_write_imm(c, peer, list, wr); });
  CU_ASSERT_TRUE(starts(write_imm, 0, expected));
}

void sends() {
  uint8_t expected[32] = {0, 0, 0,    0x0a, 0xab, 0xcd, 0xef, 2,    0,    0, 0,
                          8, 0, 0,    0,    0,    0,    0,    0x12, 0x34, 1, 2,
                          3, 4, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0};
  const Sge list[1] = {piece};
  auto one = built([](WqeCursor& c) { return send(c, piece, wr); });
  auto many = built([&](WqeCursor& c) { return send(c, std::span{list}, wr); });
  CU_ASSERT_TRUE(starts(one, 0, expected));
  CU_ASSERT_TRUE(starts(many, 0, expected));
  expected[3] = 0x0b;
  const uint8_t imm[4] = {0xca, 0xfe, 1, 2};
  std::memcpy(expected + 12, imm, 4);
  auto with_imm = built([&](WqeCursor& c) { return send_imm(c, std::span{list}, wr); });
  CU_ASSERT_TRUE(starts(with_imm, 0, expected));
}

void empty_message() {
  const uint8_t expected[16] = {0, 0, 0, 0x0a, 0xab, 0xcd, 0xef, 1, 0, 0, 0, 8, 0, 0, 0, 0};
  const Sge nothing[2] = {{1, 0, Lkey{1}}, {2, 0, Lkey{2}}};
  auto none = built([](WqeCursor& c) { return send(c, std::span<const Sge>{}, wr); });
  auto empty = built([&](WqeCursor& c) { return send(c, std::span{nothing}, wr); });
  CU_ASSERT_TRUE(starts(none, 0, expected));
  CU_ASSERT_TRUE(starts(empty, 0, expected));
}

void atomics() {
  uint8_t expected[64] = {0,    0,    0,    0x11, 0xab, 0xcd, 0xef, 4,    0,    0,    0,
                          8,    0,    0,    0,    0,    0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
                          0x77, 0x88, 0xa1, 0xb2, 0xc3, 0xd4, 0,    0,    0,    0,    1,
                          2,    3,    4,    5,    6,    7,    8,    0x11, 0x12, 0x13, 0x14,
                          0x15, 0x16, 0x17, 0x18, 0,    0,    0,    8,    1,    2,    3,
                          4,    0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0};
  const Atomic a{.target = peer,
                 .result_address = piece.address,
                 .result_key = piece.key,
                 .swap_or_add = 0x0102030405060708,
                 .compare = 0x1112131415161718};
  auto cas = built([&](WqeCursor& c) { return compare_and_swap(c, a, wr); });
  CU_ASSERT_TRUE(cas.block_is(0, expected));
  expected[3] = 0x12;
  auto add = built([&](WqeCursor& c) { return fetch_and_add(c, a, wr); });
  CU_ASSERT_TRUE(add.block_is(0, expected));
}

// Modes are numbers: what a WQE asked for before is replaced.
void the_last_one_asks_for_an_entry() {
  for (uint8_t mode : {WrFlags::none, WrFlags::only_first_error, WrFlags::signalled,
                       WrFlags::signalled_with_event}) {
    const uint8_t others = WrFlags::fence | WrFlags::solicited;
    auto last = built([&](WqeCursor& c) {
      const auto flags = static_cast<uint8_t>(mode | others);
      const bool done = send(c, piece, {.id = wr.id, .flags = flags});
      c.signal_last();
      return done;
    });
    EQUAL(last.block(0)[11], WrFlags::signalled | others);
  }
}

void eth_frames() {
  uint8_t expected[64] = {0,    0,    0,    0x0a, 0xab, 0xcd, 0xef, 4,   0,    0,    0,
                          8,    0,    0,    0,    0,  // control
                          0,    0,    0,    0,    0xc0, 0,    0,    0,   0,    0,    0,
                          0,    0,    0,    0,    0,  // Ethernet
                          0,    0,    0x12, 0x34, 1,    2,    3,    4,   0x99, 0xaa, 0xbb,
                          0xcc, 0xdd, 0xee, 0xff, 0,    0,    0,    0,   1,    5,    6,
                          7,    8,    0xf,  0xe,  0xd,  0xc,  0xb,  0xa, 9,    8};
  const Sge two[2] = {piece, second};
  constexpr uint8_t both = EthOffload::l3 | EthOffload::l4;
  auto list = built([&](WqeCursor& c) { return eth_send(c, std::span{two}, both, wr); });
  CU_ASSERT_TRUE(list.block_is(0, expected));
  expected[7] = 3;
  auto one = built([](WqeCursor& c) { return eth_send(c, piece, both, wr); });
  CU_ASSERT_TRUE(starts(one, 0, std::span{expected}.first(48)));
  expected[20] = 0;
  auto plain = built([](WqeCursor& c) { return eth_send(c, piece, EthOffload::none, wr); });
  CU_ASSERT_TRUE(starts(plain, 0, std::span{expected}.first(48)));
}

bool is(const Outcome& a, Refusal why, uint32_t asked, uint32_t limit) {
  return !a && a.why == why && a.asked == asked && a.limit == limit && *text(a.why) != 0;
}
void too_long_lists() {
  SqRing<32> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  std::array<Sge, 63> many;
  many.fill(piece);
  const std::span<const Sge> all{many};
  WqeCursor c{sq};
  CU_ASSERT_TRUE(is(send(c, all, wr), Refusal::many_pieces, 63, 62));
  CU_ASSERT_TRUE(is(rdma_write(c, peer, all.first(62), wr), Refusal::many_pieces, 62, 61));
  CU_ASSERT_TRUE(
      is(eth_send(c, all.first(62), EthOffload::none, wr), Refusal::many_pieces, 62, 61));
  CU_ASSERT_TRUE(send(c, all.first(62), wr));
  EQUAL(c.room().value(), 16);
  CU_ASSERT_TRUE(rdma_write(c, peer, all.first(61), wr));
  CU_ASSERT_TRUE(is(send(c, piece, wr), Refusal::no_room, 1, 0));
  CU_ASSERT_TRUE(is(rdma_write(c, peer, all.first(3), wr), Refusal::no_room, 2, 0));
}

Sge of(uint32_t length) {
  return {piece.address, length, piece.key};
}
constexpr uint32_t gib = 1u << 30, two_gib = prm::max_segment_bytes;

// Every builder of one piece, and of lists.
using OneBuilder = Outcome (*)(WqeCursor&, const Sge&);
constexpr OneBuilder one_piece[] = {
    [](WqeCursor& c, const Sge& p) { return rdma_write(c, peer, p, wr); },
    [](WqeCursor& c, const Sge& p) { return rdma_write(c, peer, Sge{p}, wr); },
    [](WqeCursor& c, const Sge& p) { return rdma_read(c, peer, p, wr); },
    [](WqeCursor& c, const Sge& p) { return rdma_read(c, peer, Sge{p}, wr); },
    [](WqeCursor& c, const Sge& p) { return send(c, p, wr); },
    [](WqeCursor& c, const Sge& p) { return send(c, Sge{p}, wr); },
    [](WqeCursor& c, const Sge& p) { return send_invalidate(c, p, Rkey{1}, wr); },
};
using ListBuilder = Outcome (*)(WqeCursor&, std::span<const Sge>);
constexpr ListBuilder lists[] = {
    [](WqeCursor& c, std::span<const Sge> p) { return rdma_write(c, peer, p, wr); },
    [](WqeCursor& c, std::span<const Sge> p) { return rdma_write_imm(c, peer, p, wr); },
    [](WqeCursor& c, std::span<const Sge> p) { return rdma_read(c, peer, p, wr); },
    [](WqeCursor& c, std::span<const Sge> p) { return send(c, p, wr); },
    [](WqeCursor& c, std::span<const Sge> p) { return send_imm(c, p, wr); },
};

// The length that the only data segment of the WQE says.
uint32_t said(const SqRing<8>& r) {
  const uint32_t ds = r.block(0)[7];
  prm::DataSeg d;
  std::memcpy(&d, r.block(0) + (ds - 1) * 16, sizeof d);
  EQUAL(d.lkey.host(), piece.key.value());
  EQUAL(d.addr.host(), piece.address);
  return d.byte_count.host();
}

void two_gib_are_said_as_zero() {
  for (uint32_t length : {1u, gib, gib + 1, two_gib - 1, two_gib}) {
    const Sge p = of(length);
    for (const OneBuilder build : one_piece)
      if (length < two_gib) EQUAL(said(built([&](WqeCursor& c) { return build(c, p); })), length);
    for (const ListBuilder build : lists)
      EQUAL(said(built([&](WqeCursor& c) { return build(c, {&p, 1}); })), length % two_gib);
  }
  const Sge longest = of(two_gib - 1);
  EQUAL(said(built([&](WqeCursor& c) { return eth_send(c, longest, EthOffload::none, wr); })),
        two_gib - 1);
}

void lengths_that_no_segment_says_are_refused() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  WqeCursor c{sq};
  for (uint32_t length : {two_gib + 1, two_gib + 100, ~0u}) {
    const Sge mixed[2] = {of(1), of(length)};
    for (const OneBuilder build : one_piece)
      CU_ASSERT_TRUE(is(build(c, of(length)), Refusal::long_piece, length, two_gib));
    for (const ListBuilder build : lists)
      CU_ASSERT_TRUE(is(build(c, std::span{mixed}), Refusal::long_piece, length, two_gib));
    const Outcome frame = eth_send(c, of(length), EthOffload::none, wr);
    CU_ASSERT_TRUE(is(frame, Refusal::long_piece, length, two_gib));
    CU_ASSERT_TRUE(is(eth_send(c, std::span{mixed}, EthOffload::none, wr), Refusal::long_piece,
                      length, two_gib));
  }
  for (const OneBuilder build : one_piece) {
    CU_ASSERT_TRUE(is(build(c, of(0)), Refusal::empty_piece, 0, two_gib - 1));
    CU_ASSERT_TRUE(is(build(c, of(two_gib)), Refusal::long_message, two_gib, two_gib - 1));
  }
  CU_ASSERT_TRUE(
      is(eth_send(c, of(0), EthOffload::none, wr), Refusal::empty_piece, 0, two_gib - 1));
  CU_ASSERT_TRUE(is(eth_send(c, of(two_gib), EthOffload::none, wr), Refusal::long_message, two_gib,
                    two_gib - 1));
  const Sge nothing[2] = {of(0), of(0)};
  CU_ASSERT_TRUE(is(eth_send(c, std::span{nothing}, EthOffload::none, wr), Refusal::empty_piece, 0,
                    two_gib - 1));
  EQUAL(c.room().value(), 8);
}

void messages_beyond_the_devices_limit_are_refused() {
  SqRing<8> ring;
  SqGeometry geometry = ring.geometry();
  geometry.max_message = gib;
  Sq sq{geometry, ring.wr_ids};
  WqeCursor c{sq};
  const Sge halves[3] = {of(gib / 2), of(gib / 2), of(1)};
  for (uint32_t length : {gib + 1, two_gib - 1, two_gib}) {
    const Sge p = of(length);
    for (const OneBuilder build : one_piece)
      CU_ASSERT_TRUE(is(build(c, p), Refusal::long_message, length, gib));
    for (const ListBuilder build : lists)
      CU_ASSERT_TRUE(is(build(c, {&p, 1}), Refusal::long_message, length, gib));
  }
  for (const ListBuilder build : lists)
    CU_ASSERT_TRUE(is(build(c, std::span{halves}), Refusal::long_message, gib + 1, gib));
  const Sge huge[3] = {of(two_gib), of(two_gib), of(7)};  // a sum of more than 32 bits
  for (const ListBuilder build : lists)
    CU_ASSERT_TRUE(is(build(c, std::span{huge}), Refusal::long_message, ~0u, gib));
  EQUAL(c.room().value(), 8);
  CU_ASSERT_TRUE(send(c, of(gib), wr));
  CU_ASSERT_TRUE(send(c, std::span{halves}.first(2), wr));
}

// 512 bytes, empty pieces not counted; other requests take twice as many.
void a_read_has_thirty_pieces() {
  SqRing<32> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  std::array<Sge, 40> many;
  many.fill(piece);
  const std::span<const Sge> all{many};
  WqeCursor c{sq};
  CU_ASSERT_TRUE(is(rdma_read(c, peer, all.first(31), wr), Refusal::many_pieces, 31, 30));
  EQUAL(c.room().value(), 32);
  CU_ASSERT_TRUE(rdma_read(c, peer, all.first(30), wr));
  EQUAL(ring.block(0)[7], 32);
  for (uint32_t i = 0; i < 10; i++) many[i * 3].length = 0;
  CU_ASSERT_TRUE(rdma_read(c, peer, all, wr));
  CU_ASSERT_TRUE(rdma_write(c, peer, all, wr));
}

const kilim::test::Case cases[] = {
    {"write and read from one piece and from a list", write_and_read},
    {"send and send with immediate", sends},
    {"empty pieces are left out; none make an empty message", empty_message},
    {"compare and swap, fetch and add", atomics},
    {"the last request of a burst asks for an entry whatever it asked for",
     the_last_one_asks_for_an_entry},
    {"frames with their Ethernet segment", eth_frames},
    {"a list that does not fit into 63 octowords is not posted", too_long_lists},
    {"2 GiB are said as 0", two_gib_are_said_as_zero},
    {"lengths that no segment says are refused with the number",
     lengths_that_no_segment_says_are_refused},
    {"messages beyond the device's limit are refused with the number",
     messages_beyond_the_devices_limit_are_refused},
    {"a READ has thirty pieces", a_read_has_thirty_pieces},
};

}  // namespace
}  // namespace wqe_ut

namespace kilim::test {
std::span<const kilim::test::Case> wqe_packet_cases();  // wqe_packets.cc
}

KILIM_TEST_MAIN(wqe) {
  return kilim::test::run_tables("queue/wqe", {wqe_ut::cases, kilim::test::wqe_packet_cases()},
                                 argc, argv);
}
