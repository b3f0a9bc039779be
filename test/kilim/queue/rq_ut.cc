// SPDX-License-Identifier: BSD-3-Clause
// The receive queue over an array.
#include <array>
#include <cstring>

#include "kilim/queue/rq.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::queue;

template <uint32_t Stride>
struct Ring {
  alignas(64) std::array<std::byte, 4 * Stride> memory;
  std::array<uint64_t, 4> wr_ids{};
  be32 record{0};
  Ring() { memory.fill(std::byte{0xee}); }
  RqGeometry geometry() {
    return {.buf = memory.data(), .wqe_count = 4, .stride = Stride, .record = &record};
  }
};

const Sge piece{0x99aabbccddeeff00, 0x1234, Lkey{0x01020304}};
constexpr uint8_t segment[16] = {0,    0,    0x12, 0x34, 1,    2,    3,    4,
                                 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0};
constexpr uint8_t end[16] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};

void one_piece() {
  Ring<16> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  CU_ASSERT_TRUE(rq.post(piece, 5));
  CU_ASSERT_EQUAL(std::memcmp(ring.memory.data(), segment, 16), 0);
  CU_ASSERT_EQUAL(ring.memory[16], std::byte{0xee});
  CU_ASSERT_EQUAL(ring.record.host(), 0);
  rq.ring();
  CU_ASSERT_EQUAL(ring.record.host(), 1);
}

void short_lists_are_ended() {
  Ring<64> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  CU_ASSERT_TRUE(rq.post(piece, 5));
  CU_ASSERT_EQUAL(std::memcmp(ring.memory.data(), segment, 16), 0);
  CU_ASSERT_EQUAL(std::memcmp(ring.memory.data() + 16, end, 16), 0);
  const Sge list[3] = {piece, {1, 0, Lkey{1}}, piece};
  CU_ASSERT_TRUE(rq.post(std::span{list}, 6));
  CU_ASSERT_EQUAL(std::memcmp(ring.memory.data() + 64, segment, 16), 0);
  CU_ASSERT_EQUAL(std::memcmp(ring.memory.data() + 80, segment, 16), 0);
  CU_ASSERT_EQUAL(std::memcmp(ring.memory.data() + 96, end, 16), 0);
  const Sge full[5] = {piece, piece, piece, piece, piece};
  CU_ASSERT_FALSE(rq.post(std::span{full}, 7));
  CU_ASSERT_TRUE(rq.post(std::span{full}.first(4), 7));
  CU_ASSERT_EQUAL(std::memcmp(ring.memory.data() + 176, segment, 16), 0);
  CU_ASSERT_EQUAL(ring.memory[192], std::byte{0xee});
}

void burst_stops_when_full() {
  Ring<16> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  const Sge six[6] = {piece, piece, piece, piece, piece, piece};
  const uint64_t ids[6] = {10, 11, 12, 13, 14, 15};
  CU_ASSERT_EQUAL(rq.post_burst(six, ids), 4);
  CU_ASSERT_EQUAL(ring.record.host(), 4);
  CU_ASSERT_FALSE(rq.post(piece, 9));
  CU_ASSERT_EQUAL(rq.wr_id(1), 11);
  CU_ASSERT_EQUAL(rq.retire(0), 10);
  CU_ASSERT_EQUAL(rq.room(), 1);
  CU_ASSERT_EQUAL(rq.post_burst(six, ids), 1);
  CU_ASSERT_EQUAL(ring.record.host(), 5);
}

void counters_wrap() {
  Ring<16> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  for (uint32_t i = 0; i < 0x10009; i++) {
    CU_ASSERT_TRUE_FATAL(rq.post(piece, i));
    rq.ring();
    CU_ASSERT_EQUAL_FATAL(ring.record.host(), (i + 1) & 0xffff);
    CU_ASSERT_EQUAL_FATAL(rq.retire(static_cast<uint16_t>(i)), i);
  }
  CU_ASSERT_EQUAL(rq.posted(), 0);
}

void reset_gives_back() {
  Ring<16> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  for (uint64_t i = 0; i < 3; i++) rq.post(piece, 50 + i);
  rq.ring();
  rq.retire(0);
  uint64_t sum = 0;
  rq.reset([&sum](uint64_t id) { sum = sum * 100 + id; });
  CU_ASSERT_EQUAL(sum, 5152);
  CU_ASSERT_EQUAL(rq.room(), 4);
  CU_ASSERT_EQUAL(ring.record.host(), 0);
}

const kilim::test::Case cases[] = {
    {"a receive into one piece is one segment, announced by ring", one_piece},
    {"a list shorter than the WQE is ended by the invalid key", short_lists_are_ended},
    {"a burst posts what fits", burst_stops_when_full},
    {"counters wrap at 16 bits", counters_wrap},
    {"a reset queue gives back what was posted, in order", reset_gives_back},
};

}  // namespace

KILIM_UT_MAIN("queue/rq", cases)
