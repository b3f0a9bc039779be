// SPDX-License-Identifier: BSD-3-Clause
// The receive queue and the shared receive queue over arrays.
#include <array>
#include <cstring>

#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/srq.hh"
#include "ut.hh"

namespace rq_ut {
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
  EQUAL(std::memcmp(ring.memory.data(), segment, 16), 0);
  EQUAL(ring.memory[16], std::byte{0xee});
  EQUAL(ring.record.host(), 0);
  rq.ring();
  EQUAL(ring.record.host(), 1);
}

void short_lists_are_ended() {
  Ring<64> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  CU_ASSERT_TRUE(rq.post(piece, 5));
  EQUAL(std::memcmp(ring.memory.data(), segment, 16), 0);
  EQUAL(std::memcmp(ring.memory.data() + 16, end, 16), 0);
  const Sge list[3] = {piece, {1, 0, Lkey{1}}, piece};
  CU_ASSERT_TRUE(rq.post(std::span{list}, 6));
  EQUAL(std::memcmp(ring.memory.data() + 64, segment, 16), 0);
  EQUAL(std::memcmp(ring.memory.data() + 80, segment, 16), 0);
  EQUAL(std::memcmp(ring.memory.data() + 96, end, 16), 0);
  const Sge full[5] = {piece, piece, piece, piece, piece};
  CU_ASSERT_FALSE(rq.post(std::span{full}, 7));
  CU_ASSERT_TRUE(rq.post(std::span{full}.first(4), 7));
  EQUAL(std::memcmp(ring.memory.data() + 176, segment, 16), 0);
  EQUAL(ring.memory[192], std::byte{0xee});
}

void burst_stops_when_full() {
  Ring<16> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  const Sge six[6] = {piece, piece, piece, piece, piece, piece};
  const uint64_t ids[6] = {10, 11, 12, 13, 14, 15};
  EQUAL(rq.post_burst(six, ids), 4);
  EQUAL(ring.record.host(), 4);
  CU_ASSERT_FALSE(rq.post(piece, 9));
  EQUAL(rq.wr_id(1), 11);
  EQUAL(rq.retire(0), 10);
  EQUAL(rq.room(), 1);
  EQUAL(rq.post_burst(six, ids), 1);
  EQUAL(ring.record.host(), 5);
}

void counters_wrap() {
  Ring<16> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  for (uint32_t i = 0; i < 0x10009; i++) {
    CU_ASSERT_TRUE_FATAL(rq.post(piece, i));
    rq.ring();
    EQUAL_FATAL(ring.record.host(), (i + 1) & 0xffff);
    EQUAL_FATAL(rq.retire(static_cast<uint16_t>(i)), i);
  }
  EQUAL(rq.posted(), 0);
}

void reset_gives_back() {
  Ring<16> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  for (uint64_t i = 0; i < 3; i++) (void)rq.post(piece, 50 + i);
  rq.ring();
  rq.retire(0);
  uint64_t sum = 0;
  rq.reset([&sum](uint64_t id) { sum = sum * 100 + id; });
  EQUAL(sum, 5152);
  EQUAL(rq.room(), 4);
  EQUAL(ring.record.host(), 0);
}

// As libmlx5 leaves it: each WQE names the next.
template <uint32_t Stride>
struct List : Ring<Stride> {
  List() {
    for (uint32_t i = 0; i < 3; i++) head(i)->next_wqe_index = be16{static_cast<uint16_t>(i + 1)};
  }
  prm::SrqNextSeg* head(uint32_t i) {
    return reinterpret_cast<prm::SrqNextSeg*>(this->memory.data() + i * Stride);
  }
  SrqGeometry shared() {
    return {.buf = this->memory.data(), .wqe_count = 4, .stride = Stride, .record = &this->record};
  }
};

void shared_one_piece() {
  List<32> ring;
  Srq srq{ring.shared(), ring.wr_ids};
  EQUAL(srq.max_pieces(), 1);
  EQUAL(srq.room(), 3);
  CU_ASSERT_TRUE(srq.post(piece, 5));
  EQUAL(std::memcmp(ring.memory.data() + 16, segment, 16), 0);
  EQUAL(ring.head(0)->next_wqe_index.host(), 1);
  EQUAL(ring.record.host(), 0);
  CU_ASSERT_TRUE(srq.post(piece, 6));
  CU_ASSERT_TRUE(srq.post(piece, 7));
  CU_ASSERT_TRUE(!srq.post(piece, 8));
  CU_ASSERT_FALSE(srq.post(std::span{&piece, 1}, 8));
  srq.ring();
  EQUAL(ring.record.host(), 3);
}

void shared_lists_are_ended() {
  List<64> ring;
  Srq srq{ring.shared(), ring.wr_ids};
  const Sge list[4] = {piece, {1, 0, Lkey{1}}, piece, piece};
  EQUAL(srq.max_pieces(), 3);
  CU_ASSERT_FALSE(srq.post(std::span{list}, 6));
  CU_ASSERT_TRUE(srq.post(std::span{list}.first(3), 6));
  EQUAL(std::memcmp(ring.memory.data() + 32, segment, 16), 0);
  EQUAL(std::memcmp(ring.memory.data() + 48, end, 16), 0);
  CU_ASSERT_TRUE(srq.post(piece, 7));
  EQUAL(std::memcmp(ring.memory.data() + 80, segment, 16), 0);
  EQUAL(std::memcmp(ring.memory.data() + 96, end, 16), 0);
}

// The device follows the links; what it took comes back in any order.
void shared_in_any_order() {
  List<32> ring;
  Srq srq{ring.shared(), ring.wr_ids};
  uint32_t device = 0;
  uint64_t next_id = 0;
  for (uint32_t round = 0; round < 70000; round++) {
    while (srq.post(piece, next_id)) next_id++;
    srq.ring();
    EQUAL_FATAL(ring.record.host(), next_id & 0xffff);
    uint16_t taken[2];
    for (uint16_t& t : taken) {
      t = static_cast<uint16_t>(device);
      device = ring.head(device)->next_wqe_index.host();
    }
    const uint64_t first = srq.wr_id(taken[0]), second = srq.wr_id(taken[1]);
    EQUAL_FATAL(second, first + 1);
    const bool turned = round % 3 == 0;
    EQUAL_FATAL(srq.retire(taken[turned ? 1 : 0]), turned ? second : first);
    EQUAL_FATAL(srq.retire(taken[turned ? 0 : 1]), turned ? first : second);
    EQUAL_FATAL(srq.posted(), 1);
  }
}

void shared_end_gives_back() {
  List<32> ring;
  Srq srq{ring.shared(), ring.wr_ids};
  for (uint64_t id : {10, 20, 30}) (void)srq.post(piece, id);
  EQUAL(srq.retire(1), 20);
  CU_ASSERT_TRUE(srq.post(piece, 40));
  EQUAL(srq.retire(0), 10);
  uint64_t sum = 0;
  srq.end([&sum](uint64_t id) { sum += id; });
  EQUAL(sum, 70);
  CU_ASSERT_FALSE(srq.post(piece, 50));
}

// What a ring has from place `at` on: a segment of the piece with this count, or the list's end.
bool has(const std::byte* at, uint32_t count) {
  uint8_t wanted[16];
  std::memcpy(wanted, segment, sizeof wanted);
  const be32 big{count};
  std::memcpy(wanted, &big, 4);
  return std::memcmp(at, wanted, 16) == 0;
}
bool ends(const std::byte* at) {
  return std::memcmp(at, end, 16) == 0;
}
bool is(const Outcome& a, Refusal why, uint32_t asked, uint32_t limit) {
  return !a && a.why == why && a.asked == asked && a.limit == limit;
}
constexpr uint32_t two_gib = prm::max_segment_bytes;

// A length of 0 would let a peer write over 2 GiB; bit 31 is no length at all.
template <typename Queue, typename Memory>
void receives_say_their_lengths(Queue& q, const Memory& memory, std::size_t head) {
  auto at = [&](uint32_t place) { return memory.data() + place * 64 + head; };
  auto of = [](uint32_t length) { return Sge{piece.address, length, piece.key}; };
  CU_ASSERT_TRUE(q.post(of(two_gib), 1));
  CU_ASSERT_TRUE(has(at(0), 0));
  CU_ASSERT_TRUE(ends(at(0) + 16));
  const Sge list[3] = {of(0), of(two_gib - 1), of(two_gib)};
  CU_ASSERT_TRUE(q.post(std::span{list}, 2));
  CU_ASSERT_TRUE(has(at(1), two_gib - 1));
  CU_ASSERT_TRUE(has(at(1) + 16, 0));
  const uint32_t room = q.room();
  for (uint32_t length : {two_gib + 1, ~0u}) {
    const Sge bad[2] = {piece, of(length)};
    CU_ASSERT_TRUE(is(q.post(of(length), 3), Refusal::long_piece, length, two_gib));
    CU_ASSERT_TRUE(is(q.post(std::span{bad}, 3), Refusal::long_piece, length, two_gib));
  }
  const Sge many[5] = {piece, piece, piece, piece, piece};
  CU_ASSERT_TRUE(is(q.post(std::span{many}, 3), Refusal::many_pieces, 5, q.max_pieces()));
  EQUAL(q.room(), room);
  CU_ASSERT_TRUE(q.post(of(0), 3));
  CU_ASSERT_TRUE(ends(at(2)));
  while (q.room() != 0) CU_ASSERT_TRUE(q.post(std::span<const Sge>{}, 4));
  CU_ASSERT_TRUE(is(q.post(piece, 5), Refusal::no_room, 1, 0));
}

void own_receives_say_their_lengths() {
  Ring<64> ring;
  Rq rq{ring.geometry(), ring.wr_ids};
  receives_say_their_lengths(rq, ring.memory, 0);
  Ring<16> narrow;
  Rq one{narrow.geometry(), narrow.wr_ids};
  CU_ASSERT_TRUE(one.post(Sge{1, 0, Lkey{1}}, 5));
  CU_ASSERT_TRUE(ends(narrow.memory.data()));
  const Sge three[3] = {piece, {piece.address, two_gib + 1, piece.key}, piece};
  const uint64_t ids[3] = {1, 2, 3};
  EQUAL(one.post_burst(three, ids), 1);
  EQUAL(narrow.record.host(), 2);
}

void shared_receives_say_their_lengths() {
  List<64> list;
  Srq srq{list.shared(), list.wr_ids};
  receives_say_their_lengths(srq, list.memory, 16);
}

const kilim::test::Case cases[] = {
    {"a receive into one piece is one segment, announced by ring", one_piece},
    {"a list shorter than the WQE is ended by the invalid key", short_lists_are_ended},
    {"a burst posts what fits", burst_stops_when_full},
    {"counters wrap at 16 bits", counters_wrap},
    {"a reset queue gives back what was posted, in order", reset_gives_back},
    {"receives say their lengths, or are refused with the number", own_receives_say_their_lengths},
    {"shared receives say their lengths, or are refused with the number",
     shared_receives_say_their_lengths},
    {"a shared receive is a segment behind its link, one WQE stays free", shared_one_piece},
    {"a shared list shorter than the WQE is ended by the invalid key", shared_lists_are_ended},
    {"shared receives complete in any order, and counters wrap", shared_in_any_order},
    {"a shared queue that ends gives back what was posted", shared_end_gives_back},
};

}  // namespace
}  // namespace rq_ut

KILIM_TEST_SUITE(rq, rq_ut::cases)
