// SPDX-License-Identifier: BSD-3-Clause
// A WQE of a shape is the WQE of the request that the shape was made of, byte for byte, wherever in
// the ring it begins.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/shape.hh"
#include "send_ring_fixture.hh"
#include "ut.hh"

namespace shape_ut {
namespace {

using namespace kilim;
using namespace kilim::umr;

using Ring = kilim::test::SendRing<32>;

std::vector<Piece> random_pieces(std::mt19937_64& random, uint32_t n) {
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < n; i++)
    pieces.push_back({random(), static_cast<uint32_t>(1 + random() % (1u << 31)),
                      Lkey{static_cast<uint32_t>(random())}});
  return pieces;
}

ListRequest any_request(std::mt19937_64& random) {
  return {.key = Lkey{static_cast<uint32_t>(random())},
          .max_entries = 52,
          .new_tag = static_cast<uint8_t>(random()),
          .access = static_cast<uint8_t>(random() & 0x78),
          .checks = random() % 2 != 0 ? prm::umr::check_free : uint8_t{0},
          .has_start = random() % 2 != 0,
          .keep_atomic = random() % 2 != 0};
}

// A list of n random pieces by each of the three ways, its WQE at `block` of the ring.
void same_by_each_way(std::mt19937_64& random, uint32_t n, uint32_t block) {
  const std::vector<Piece> pieces = random_pieces(random, n);
  const View view = View::of(pieces);
  ListRequest r = any_request(random);
  const ListShape shape{r, n};
  CU_ASSERT_TRUE_FATAL(shape.ok());
  EQUAL_FATAL(shape.pieces(), n);
  if (r.has_start) r.start = random();
  const UmrWr wr{.id = n, .flags = queue::WrFlags::signalled};
  Ring a, b, on_the_spot;
  a.go_to(block);
  b.go_to(block);
  on_the_spot.go_to(block);
  queue::WqeCursor ca{a.sq}, cb{b.sq}, cs{on_the_spot.sq};
  CU_ASSERT_TRUE_FATAL(umr_list(ca, r, view, wr).ok());
  CU_ASSERT_TRUE_FATAL(umr_shape(cb, shape, {r.key, r.new_tag, r.start}, view, wr).ok());
  const auto piece = [&pieces](uint32_t i) { return pieces[i]; };
  CU_ASSERT_TRUE_FATAL(umr_shape_of(cs, shape, {r.key, r.new_tag, r.start}, piece, wr).ok());
  ca.commit();
  cb.commit();
  cs.commit();
  EQUAL(a.memory, on_the_spot.memory);
  EQUAL(a.doorbell, on_the_spot.doorbell);
  EQUAL_FATAL(std::memcmp(a.memory.data(), b.memory.data(), a.memory.size()), 0);
  EQUAL(a.record.host(), b.record.host());
  EQUAL(a.sq.credits().value(), b.sq.credits().value());
  // And nothing but the WQE was written.
  const uint32_t end = block + shape.wqebbs();
  if (end < Ring::blocks) EQUAL(b.memory[std::size_t{end} * 64], std::byte{0xee});
}

void every_count_everywhere() {
  std::mt19937_64 random{49};
  for (uint32_t n = 1; n <= max_inline_klms; n++) {
    for (uint32_t block = 0; block < Ring::blocks; block++) {
      same_by_each_way(random, n, block);
    }
  }
}

void no_shape() {
  const ListRequest r{.max_entries = 8};
  CU_ASSERT_FALSE((ListShape{r, 0}.ok()));
  CU_ASSERT_FALSE((ListShape{r, 9}.ok()));
  CU_ASSERT_TRUE((ListShape{r, 8}.ok()));
  CU_ASSERT_FALSE((ListShape{{.max_entries = 64}, 53}.ok()));
  static_assert(ListShape{{.max_entries = 64}, 52}.ok());
}

void no_room() {
  Ring ring;
  ring.go_to(3);
  queue::WqeCursor c{ring.sq};
  const ListShape shape{{.max_entries = 52}, 52};
  std::mt19937_64 random{50};
  const std::vector<Piece> pieces = random_pieces(random, 52);
  const View view = View::of(pieces);
  CU_ASSERT_TRUE(umr_shape(c, shape, {.key = Lkey{1}}, view, {}).ok());
  CU_ASSERT_TRUE(umr_shape(c, shape, {.key = Lkey{1}}, view, {}).ok());
  const Outcome o = umr_shape(c, shape, {.key = Lkey{1}}, view, {});
  EQUAL(o.why, Refusal::no_room);
  EQUAL(o.asked, 15);
  EQUAL(o.limit, 2);
}

// A view with a piece that none may hold is empty: what lay in the ring is not sent in its place.
void bad_view() {
  Ring ring;
  queue::WqeCursor c{ring.sq};
  const ListShape shape{{.max_entries = 52}, 2};
  for (const uint32_t bytes : {0u, (1u << 31) + 1}) {
    const std::array<Piece, 2> pieces{{{1, 64, Lkey{1}}, {1, bytes, Lkey{1}}}};
    const Outcome o = umr_shape(c, shape, {.key = Lkey{1}}, View::of(pieces), {});
    const Refusal why = bytes == 0 ? Refusal::empty : Refusal::long_piece;
    EQUAL(o.why, why);
    EQUAL(o.asked, bytes);
    EQUAL(o.limit, (bytes == 0 ? 2 : 1u << 31));
  }
  c.commit();
  CU_ASSERT_TRUE(ring.sq.idle());
}

void bad_pieces() {
  Ring ring;
  const std::array<std::byte, Ring::blocks* 64> before = ring.memory;
  queue::WqeCursor c{ring.sq};
  const ListShape shape{{.max_entries = 52}, 6};
  for (const uint32_t bytes : {0u, (1u << 31) + 1})
    for (uint32_t bad = 0; bad < 6; bad++) {
      const auto piece = [&](uint32_t i) { return Piece{1, i == bad ? bytes : 64, Lkey{1}}; };
      const Outcome o = umr_shape_of(c, shape, {.key = Lkey{1}}, piece, {});
      EQUAL(o.why, bytes == 0 ? Refusal::empty : Refusal::long_piece);
      EQUAL(o.asked, bytes);
    }
  c.commit();
  EQUAL(c.position(), 0);
  EQUAL(ring.record, be32{0});
  CU_ASSERT_TRUE(std::equal(before.begin(), before.begin() + 16, ring.memory.begin()));
}

const kilim::test::Case cases[] = {
    {"every count of pieces, at every place of the ring", every_count_everywhere},
    {"what does not fit into a WQE has no shape", no_shape},
    {"a full queue refuses", no_room},
    {"pieces that no list may hold are refused, nothing is posted", bad_pieces},
    {"a view that holds such a piece is refused too", bad_view},
};

}  // namespace
}  // namespace shape_ut

KILIM_TEST_SUITE(shape, shape_ut::cases)
