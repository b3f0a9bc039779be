// SPDX-License-Identifier: BSD-3-Clause
// Lists of pieces that nobody has looked at: every writer of the table writes the same bytes, finds
// the same sum and the same faults, reads nothing behind the last piece and writes nothing behind
// the last line; and the builders refuse what a view refuses.
#include <cstring>
#include <random>
#include <vector>

#include <sys/mman.h>

#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/layout.hh"
#include "kilim/detail/umr/patch.hh"
#include "kilim/detail/umr/shape.hh"
#include "send_ring_fixture.hh"
#include "ut.hh"

namespace list_writer_ut {
namespace {

using namespace kilim;
using namespace kilim::umr;

constexpr uint32_t gib2 = 1u << 31;

// What the table's writers need is there; without AVX2 there is only one.
bool runs(const ListVariant& v) {
  return v.needs == Simd::base || __builtin_cpu_supports("avx2") != 0;
}

// Two pages of which the second gives no access.
class Edge {
 public:
  Edge() {
    void* const at =
        ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(at, MAP_FAILED);
    page_ = static_cast<std::byte*>(at);
    EQUAL_FATAL(::mprotect(page_ + 4096, 4096, PROT_NONE), 0);
  }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;
  ~Edge() { ::munmap(page_, 8192); }
  // So many bytes that end where the page does.
  [[nodiscard]] std::byte* last(std::size_t bytes) const { return page_ + 4096 - bytes; }

 private:
  std::byte* page_ = nullptr;
};

std::vector<Piece> random_pieces(std::mt19937_64& random, uint32_t n) {
  // Short ones, whose sums are of 32 bits, and any, whose sums are not.
  const uint32_t most = random() % 2 != 0 ? 1u << 26 : gib2;
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < n; i++)
    pieces.push_back({random(), static_cast<uint32_t>(1 + random() % most),
                      Lkey{static_cast<uint32_t>(random())}});
  if (random() % 4 == 0) pieces[random() % n].length = most;
  return pieces;
}

// The list by each writer, read from and written to the end of a page.
void written_alike(const std::vector<Piece>& pieces, const Edge& from, const Edge& to) {
  const auto n = static_cast<uint32_t>(pieces.size());
  auto* const at = reinterpret_cast<Piece*>(from.last(n * sizeof(Piece)));
  std::memcpy(at, pieces.data(), n * sizeof(Piece));
  const std::size_t bytes = klm_octowords(n) * sizeof(prm::Klm);
  std::vector<std::byte> wanted(bytes + 63);
  auto* const lines = reinterpret_cast<std::byte*>(
      (reinterpret_cast<uintptr_t>(wanted.data()) + 63) & ~uintptr_t{63});
  store_klm_lines(lines, at, n);
  for (const ListVariant& v : list_variants) {
    if (!runs(v)) continue;
    std::byte* const out = to.last(bytes);
    std::memset(out, 0xee, bytes);
    EQUAL_FATAL(write_list_by(v.write, out, at, n), View::of(pieces).length);
    EQUAL_FATAL(std::memcmp(out, lines, bytes), 0);
  }
}

void alike_at_the_edge() {
  const Edge from, to;
  std::mt19937_64 random{71};
  for (uint32_t n = 1; n <= max_at_once; n++)
    for (uint32_t i = 0; i < 40; i++) written_alike(random_pieces(random, n), from, to);
}

// One bad piece anywhere among good ones; with the largest good ones no sum hides it.
void bad_ones_found() {
  alignas(64) std::byte out[max_at_once * sizeof(prm::Klm)];
  for (const uint32_t good : {1u, 4096u, 1u << 26, (1u << 26) + 1, gib2})
    for (const uint32_t bad : {0u, gib2 + 1, ~0u})
      for (uint32_t n = 1; n <= max_at_once; n += n < 20 ? 1 : 11)
        for (uint32_t where = 0; where < n; where++) {
          std::vector<Piece> pieces(n, Piece{1, good, Lkey{7}});
          pieces[where].length = bad;
          for (const ListVariant& v : list_variants)
            if (runs(v)) EQUAL_FATAL(write_list_by(v.write, out, pieces.data(), n), 0);
        }
}

// The writers themselves leave large lengths to the exact sum, and no small ones.
void sums_of_32_bits() {
  alignas(64) std::byte out[max_at_once * sizeof(prm::Klm)];
  for (const ListVariant& v : list_variants) {
    if (!runs(v)) continue;
    for (uint32_t n = 1; n <= max_at_once; n++) {
      const std::vector<Piece> most(n, Piece{1, 1u << 26, Lkey{7}});
      EQUAL_FATAL(v.write(out, most.data(), n), uint64_t{n} << 26);
    }
  }
}

void long_lists() {
  std::mt19937_64 random{72};
  for (const uint32_t n : {1u, 64u, 65u, 191u, 4097u}) {
    std::vector<Piece> pieces = random_pieces(random, n);
    std::vector<std::byte> memory(std::size_t{2} * (klm_octowords(n) * 16 + 64));
    auto* const lines = reinterpret_cast<std::byte*>(
        (reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63});
    std::byte* const wanted = lines + std::size_t{klm_octowords(n)} * 16;
    encode_klm_list(wanted, View::of(pieces));
    for (const ListVariant& v : list_variants) {
      if (!runs(v)) continue;
      EQUAL_FATAL(write_long_list(v.write, lines, pieces), View::of(pieces).length);
      EQUAL_FATAL(std::memcmp(lines, wanted, std::size_t{klm_octowords(n)} * 16), 0);
      const Piece last = pieces.back();
      pieces.back().length = 0;
      EQUAL(write_long_list(v.write, lines, pieces), 0);
      pieces.back() = last;
    }
  }
}

using Ring = kilim::test::SendRing<16>;

constexpr Simd widest = Simd::avx2;
bool wide_runs() {
  return __builtin_cpu_supports("avx2") != 0;
}

// The builders of a request and of a shape, each with a summed view, and with the pieces by each
// writer.
constexpr uint32_t ways = 5;
Outcome build(uint32_t way, queue::WqeCursor& c, const ListRequest& r,
              std::span<const Piece> pieces) {
  const UmrWr wr{.id = 9, .flags = queue::WrFlags::signalled};
  const auto n = static_cast<uint32_t>(pieces.size());
  const ListShape shape{r, n, wide_runs() ? widest : Simd::base};
  const ShapedKey key{r.key, r.new_tag, r.start};
  const ListWriter by = select_list_writer(wide_runs() ? widest : Simd::base);
  switch (way) {
    case 0:
      return umr_list(c, r, View::of(pieces), wr);
    case 1:
      return umr_list(c, r, pieces, wr);
    case 2:
      return umr_list(c, r, pieces, wr, by);
    case 3:
      return umr_shape(c, shape, key, pieces, wr);
    default:
      return umr_shape_chosen(c, shape, key, pieces, wr);
  }
}

void builders_alike() {
  std::mt19937_64 random{73};
  for (uint32_t n = 1; n <= max_inline_klms; n++)
    for (uint32_t block = 0; block < Ring::blocks; block++) {
      const std::vector<Piece> pieces = random_pieces(random, n);
      const ListRequest r{.key = Lkey{0x01020304}, .max_entries = 52, .new_tag = 5, .access = 0x28};
      std::array<Ring, ways> rings;
      for (uint32_t way = 0; way < ways; way++) {
        rings[way].go_to(block);
        rings[way].memory.fill(std::byte{0xee});
        queue::WqeCursor c{rings[way].sq};
        CU_ASSERT_TRUE_FATAL(build(way, c, r, pieces).ok());
        c.commit();
        CU_ASSERT_TRUE_FATAL(rings[way].memory == rings[0].memory);
      }
    }
}

bool same(const Outcome& a, const Outcome& b) {
  return a.why == b.why && a.asked == b.asked && a.limit == b.limit;
}

// What a builder refuses of a view it refuses of the pieces, with the same numbers, and posts
// nothing.
void builders_refuse_alike() {
  std::vector<Piece> pieces(60, Piece{1, 64, Lkey{7}});
  Ring ring;
  queue::WqeCursor c{ring.sq};
  for (const uint32_t bytes : {0u, gib2 + 1, ~0u})
    for (const uint32_t n : {1u, 4u, 7u, 52u}) {
      pieces[n - 1].length = bytes;
      const ListRequest r{.key = Lkey{0x100}, .max_entries = 52};
      const Outcome wanted = build(0, c, r, std::span{pieces}.first(n));
      EQUAL(wanted.why, bytes == 0 ? Refusal::empty : Refusal::long_piece);
      for (uint32_t way = 1; way < ways; way++) {
        const Outcome o = build(way, c, r, std::span{pieces}.first(n));
        EQUAL(o.why, wanted.why);
        EQUAL(o.asked, wanted.asked);
        if (way < 3) CU_ASSERT_TRUE(same(o, wanted));
      }
      pieces[n - 1].length = 64;
    }
  for (const uint32_t most : {3u, 52u, 64u})
    for (const uint32_t n : {0u, 4u, 53u, 60u}) {
      const ListRequest r{.key = Lkey{0x100}, .max_entries = most};
      for (uint32_t way = 1; way < 3; way++) {
        queue::WqeCursor other{ring.sq};
        const Outcome wanted = umr_list(other, r, View::of(std::span{pieces}.first(n)), {});
        queue::WqeCursor again{ring.sq};
        CU_ASSERT_TRUE(same(build(way, again, r, std::span{pieces}.first(n)), wanted));
      }
    }
  EQUAL(c.position(), 0);
  CU_ASSERT_TRUE(ring.sq.idle());
}

void shapes_want_their_count() {
  Ring ring;
  queue::WqeCursor c{ring.sq};
  const std::vector<Piece> pieces(16, Piece{1, 64, Lkey{7}});
  const ListShape shape{{.max_entries = 52}, 16};
  const Outcome o = umr_shape(c, shape, {.key = Lkey{1}}, std::span{pieces}.first(15), {});
  EQUAL(o.why, Refusal::empty);
  EQUAL(o.asked, 15);
  EQUAL(o.limit, 16);
  for (uint32_t i = 0; i < 2; i++)
    CU_ASSERT_TRUE(umr_shape(c, shape, {.key = Lkey{1}}, std::span{pieces}, {}).ok());
  const Outcome full = umr_shape_chosen(c, shape, {.key = Lkey{1}}, std::span{pieces}, {});
  EQUAL(full.why, Refusal::no_room);
  EQUAL(full.asked, 6);
  EQUAL(full.limit, 4);
}

void patches_alike() {
  std::mt19937_64 random{74};
  const Patch where{.key = Lkey{0x100}, .max_entries = 64, .first = 8};
  std::vector<Piece> pieces = random_pieces(random, 12);
  Ring seen, unseen;
  queue::WqeCursor a{seen.sq}, b{unseen.sq};
  CU_ASSERT_TRUE(patch(a, {}, where, View::of(pieces), {}).ok());
  CU_ASSERT_TRUE(patch(b, {}, where, std::span<const Piece>{pieces}, {}).ok());
  a.commit(), b.commit();
  CU_ASSERT_TRUE(seen.memory == unseen.memory);
  for (const uint32_t bytes : {0u, gib2 + 1}) {
    pieces[5].length = bytes;
    CU_ASSERT_TRUE(same(patch(b, {}, where, std::span<const Piece>{pieces}, {}),
                        patch(a, {}, where, View::of(pieces), {})));
  }
}

const kilim::test::Case cases[] = {
    {"each writer writes and sums alike, from and to the edge of a page", alike_at_the_edge},
    {"each writer finds an empty or too long piece wherever it is", bad_ones_found},
    {"lengths to 64 MiB are summed up by the writer itself", sums_of_32_bits},
    {"a list longer than a writer takes is written by parts", long_lists},
    {"builders post the same WQE of pieces as of a view, anywhere in the ring", builders_alike},
    {"builders refuse of pieces what they refuse of a view", builders_refuse_alike},
    {"a shape takes its number of pieces and no other, while there is room",
     shapes_want_their_count},
    {"patches of pieces are those of a view", patches_alike},
};

}  // namespace
}  // namespace list_writer_ut

KILIM_TEST_SUITE(list_writer, list_writer_ut::cases)
