// SPDX-License-Identifier: BSD-3-Clause
// Part of form_edges. Keys beyond 2^31 and 2^32 bytes, and lists that are longer than one WQE.
#include "form_rounds_fixture.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/patch.hh"

namespace form_borders_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
namespace field = prm::umr;

constexpr uint64_t block = 65535;

// Seven bytes on each place around 2^31, 2^32 and 3 * 2^31, of a key that shows the block again and
// again, and of one whose byte 0 is its byte 16.
void check_far_borders(Bench& b, const BoundKey& inner, const BoundKey& outer) {
  const Shown twice{{b.rig.memory(0), block}, {b.rig.memory(0), block}};
  for (uint64_t border : {uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{3} << 31}) {
    for (int64_t off = -3; off <= 3; off++) {
      const uint64_t at = border + static_cast<uint64_t>(off) - 2;
      for (const BoundKey* key : {&inner, &outer}) {
        const uint64_t in_inner = key == &inner ? at : at + 16;
        for (uint32_t how = 0; how < uses; how++) {
          const uint64_t base = key->start + at - in_inner % block;
          CU_ASSERT_TRUE(
              b.rig.use(static_cast<Use>(how), key->lkey, base, twice, in_inner % block, 7));
        }
      }
    }
  }
}

// 64 KiB of memory shown often: a block of 65,535 bytes without a stride, then pieces of 2 GiB of
// that key. Every byte of the long key is known.
void beyond_4_gib() {
  Bench b{"long", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  constexpr uint32_t repeat = 100'000;  // 6.5 GB
  BoundKey inner = b.make({.max_entries = 4});
  BoundKey outer = b.make({.max_entries = 8});
  const umr::StridedEntry entry{b.rig.address(0), block, 0, b.rig.arena_key(0, block)};
  umr::ListRequest r = plain(inner);
  r.start = 0;
  queue::WqeCursor c{*b.rig.loop->sq};
  CU_ASSERT_TRUE(umr::umr_strided(c, b.rig.limits, r, {&entry, 1, repeat}, {}).ok());
  CU_ASSERT_TRUE(b.done(c, inner, r, {}));
  EQUAL(b.device_key(inner).len, block * repeat);

  umr::PieceList<8> pieces;
  constexpr uint64_t length = 0x1'8000'0010;
  CU_ASSERT_TRUE(pieces.add(inner.lkey, 16, length));  // four pieces
  EQUAL(pieces.count(), 4);
  const umr::ListRequest o = plain(outer);
  queue::WqeCursor d{*b.rig.loop->sq};
  umr::UmrContext context = b.context();
  context.levels = 2;
  CU_ASSERT_TRUE(umr::umr_view(d, context, o, pieces.view(), {}).ok());
  CU_ASSERT_TRUE(b.done(d, outer, o, {}));
  EQUAL(b.device_key(outer).len, length);
  check_far_borders(b, inner, outer);
  CU_ASSERT_TRUE(b.rig.refused(outer.lkey, outer.start + length - 1, 2));
}

void use_often(Bench& b, const BoundKey& key) {
  const uint64_t all = bytes_of(key.shown);
  for (int i = 0; i < 20; i++) {
    const uint64_t bytes = 1 + b.rig.below(4000);
    const auto u = static_cast<Use>(b.rig.below(uses));
    CU_ASSERT_TRUE(b.rig.use(u, key.lkey, key.start, key.shown, b.rig.below(all - bytes), bytes));
  }
}

// Entries beyond 2^16 change, inline and by pointer, and keep their lengths.
void change_far_entries(Bench& b, BoundKey& key, ListLayout& l) {
  const auto n = static_cast<uint32_t>(l.pieces.size());
  for (uint32_t first : {65'532u, 65'536u, 131'072u, n - 8}) {
    for (uint32_t i = first; i < first + 8; i++) {
      const uint64_t at = b.rig.below(FormRig::arena_bytes - 4);
      l.pieces[i].address = b.rig.address(at);
      l.pieces[i].key = b.rig.arena_key(at, 4);
      l.shown[i] = {b.rig.memory(at), l.pieces[i].length};
    }
    const umr::View part = umr::View::of(std::span{l.pieces}.subspan(first, 8));
    const umr::Patch p{.key = key.lkey, .max_entries = n, .first = first};
    umr::StoredList stored = b.rig.lists->allocate(8);
    umr::encode_klm_list(stored.memory, part);
    queue::WqeCursor d{*b.rig.loop->sq};
    CU_ASSERT_TRUE(first % 8 == 0 ? umr::patch(d, b.rig.limits, p, part, {}).ok()
                                  : umr::patch_by_pointer(d, b.rig.limits, p, stored, {}).ok());
    CU_ASSERT_TRUE_FATAL(b.done(d));
    for (uint32_t i = 0; i < n; i += i + 16 < first || i > first + 16 ? 997 : 1)
      EQUAL_FATAL(b.device_key(key).list[i].address.host(), l.pieces[i].address);
    key.shown = l.shown;
    use_often(b, key);
  }
}

// Pieces of 1 to 4 bytes all over the arena.
ListLayout layout_of(Bench& b, uint32_t n) {
  ListLayout l;
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t at = i * 7919ull % (FormRig::arena_bytes - 4);
    l.pieces.push_back({b.rig.address(at), 1 + i % 4, b.rig.arena_key(at, 4)});
    l.shown.push_back({b.rig.memory(at), 1 + i % 4});
  }
  return l;
}

// Without extended translation offsets the far entries cannot be named; without memory for the list
// it cannot be stored.
void refuse_long_lists(Bench& b, queue::WqeCursor& c, const umr::ListRequest& r,
                       const umr::View& view) {
  umr::UmrContext context = b.context();
  const Outcome small = umr::umr_view(c, context, r, view, {});
  context.limits.extended_offset = false;
  const Outcome near = umr::umr_view(c, context, r, view, {});
  EQUAL(near.why, Refusal::offset_too_far);
  EQUAL(near.limit, 0xffff);
  EQUAL(small.why, Refusal::no_list_memory);
  EQUAL(small.asked, view.count);
  EQUAL(small.limit, 131072);
}

// A list of 150,000 entries takes three WQEs, and every entry comes to its place.
void longer_than_a_wqe() {
  Bench b{"chain", "long-lists"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  constexpr uint32_t n = 150'000;
  BoundKey key = b.make({.max_entries = n});
  ListLayout l = layout_of(b, n);
  std::vector<std::byte> memory(umr::klm_octowords(n) * 16ull + 4096);
  Result<mr::Mr> region =
      mr::Mr::create(b.rig.device->device->registrar(), memory, mr::Access::local, 4096);
  CU_ASSERT_TRUE_FATAL(region.ok());
  umr::ListMemory lists{region->region()};
  umr::UmrContext context = b.context();
  const umr::ListRequest r = plain(key);
  queue::WqeCursor c{*b.rig.loop->sq};
  refuse_long_lists(b, c, r, umr::View::of(l.pieces));
  context.memory = &lists;
  const uint64_t umrs = b.rig.device->journal().count(vhca::Journal::Kind::umr);
  CU_ASSERT_TRUE(umr::umr_view(c, context, r, umr::View::of(l.pieces), {}).ok());
  CU_ASSERT_TRUE_FATAL(b.done(c, key, r, Shown{l.shown}));
  EQUAL(b.device_key(key).used, umr::klm_octowords(n));
  EQUAL(umr::pointer_wqes(umr::klm_octowords(n)), 3);
  CU_ASSERT_TRUE(b.rig.device->journal().count(vhca::Journal::Kind::umr) >= umrs + 1);
  for (uint64_t i = 0; i < n; i++)
    EQUAL_FATAL(b.device_key(key).list[i].address.host(), l.pieces[i].address);
  use_often(b, key);
  change_far_entries(b, key, l);
}

constexpr kilim::test::Case of_borders[] = {
    {"keys beyond 2^31 and 2^32 bytes", beyond_4_gib},
    {"a list of 150,000 entries takes three WQEs, and is patched", longer_than_a_wqe},
};

}  // namespace
}  // namespace form_borders_ut

std::span<const kilim::test::Case> kilim::test::form_border_cases() {
  return form_borders_ut::of_borders;
}
