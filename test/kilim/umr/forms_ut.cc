// SPDX-License-Identifier: BSD-3-Clause
// List memory, and what the forms of UMR refuse, with the numbers; over arrays.
#include <array>
#include <cstring>
#include <vector>

#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/layout.hh"
#include "kilim/detail/umr/patch.hh"
#include "ut.hh"

namespace forms_ut {
namespace {

using namespace kilim;
using namespace kilim::umr;

alignas(4096) std::array<std::byte, 16384> area;

mr::Region region(uint64_t skip, uint64_t bytes) {
  const auto at = reinterpret_cast<uint64_t>(area.data()) + skip;
  return {.address = at, .length = bytes, .iova = at + 0x1000'0000, .lkey = Lkey{77}};
}

void memory_is_a_ring() {
  ListMemory memory{region(100, 12'200)};  // five whole units of 2 KiB
  const uint64_t first = region(0, 0).iova + 2048;
  EQUAL(memory.capacity_octowords(), 5 * 128);
  const StoredList a = memory.allocate(128);
  EQUAL(a.address, first);
  EQUAL(a.key, Lkey{77});
  EQUAL(a.octowords, 128);
  CU_ASSERT_PTR_EQUAL(a.memory, area.data() + 2048);
  const uint64_t until_a = memory.allocated();
  const StoredList b = memory.allocate(129);  // two units
  EQUAL(b.address, first + 2048);
  const StoredList c = memory.allocate(4);
  EQUAL(c.address, first + 3 * 2048);
  CU_ASSERT_PTR_NULL(memory.allocate(129).memory);  // one unit is left
  memory.release(until_a);
  CU_ASSERT_PTR_NULL(memory.allocate(129).memory);  // two units, but not in one piece
  EQUAL(memory.allocate(4).address, first + 4 * 2048);
  EQUAL(memory.allocate(4).address, first);
  CU_ASSERT_PTR_NULL(memory.allocate(4).memory);
  memory.release(memory.allocated());
  EQUAL(memory.allocate(4 * 128).address, first);  // empty: from the beginning
  memory.release(memory.allocated());
  EQUAL(memory.allocate(5 * 128).address, first);
  CU_ASSERT_PTR_NULL(memory.allocate(0).memory);
  memory.release(memory.allocated());
  CU_ASSERT_PTR_NULL(memory.allocate(5 * 128 + 1).memory);
  ListMemory none{region(100, 2000)};
  CU_ASSERT_PTR_NULL(none.allocate(4).memory);
}

struct Queue {
  alignas(64) std::array<std::byte, 64 * 64> memory{};
  std::array<uint64_t, 64> wr_ids{};
  be32 record{0};
  alignas(8) std::array<std::byte, 8> doorbell{};
  queue::Sq sq{{.buf = memory.data(),
                .wqebb_count = 64,
                .record = &record,
                .doorbell = doorbell.data(),
                .qpn = Qpn{1}},
               wr_ids};
};

constexpr prm::UmrLimits all{.pointer_lists = true,
                             .repeated_block = true,
                             .change_entity = true,
                             .extended_offset = true,
                             .max_indirection = 1};
bool is(const Outcome& o, Refusal why, uint32_t asked, uint32_t limit) {
  return o.why == why && o.asked == asked && o.limit == limit;
}

void strided_refusals() {
  const ListRequest r{.key = Lkey{0x500}, .max_entries = 8};
  Queue q;
  queue::WqeCursor c{q.sq};
  auto refused = [&](StridedEntry e, uint32_t repeat, uint32_t count = 1) {
    const std::vector<StridedEntry> entries(count, e);
    return umr_strided(c, all, r, {entries.data(), count, repeat}, {});
  };
  CU_ASSERT_TRUE(is(refused({1, 65536, 1, Lkey{1}}, 1), Refusal::long_block, 65536, 65535));
  CU_ASSERT_TRUE(is(refused({1, 1, 65536, Lkey{1}}, 1), Refusal::long_stride, 65536, 65535));
  CU_ASSERT_TRUE(is(refused({1, 1, 1, Lkey{1}}, 1, 8), Refusal::over_key, 9, 8));
  CU_ASSERT_TRUE(is(refused({1, 1, 1, Lkey{1}}, 1, 52), Refusal::over_key, 53, 8));
  CU_ASSERT_TRUE(is(refused({1, 1, 1, Lkey{1}}, 0), Refusal::empty, 1, 0));
  CU_ASSERT_TRUE(is(refused({1, 0, 1, Lkey{1}}, 1), Refusal::empty, 0, 0));
  CU_ASSERT_TRUE(is(refused({1, 1, 1, Lkey{1}}, 1, 65536), Refusal::too_many_blocks, 65536, 65535));
  prm::UmrLimits without = all;
  without.repeated_block = false;
  const StridedEntry good{1, 1, 1, Lkey{1}};
  CU_ASSERT_TRUE(is(umr_strided(c, without, r, {&good, 1, 1}, {}), Refusal::no_repeat, 0, 0));
  // As a list it would have 16 entries: the first reason is given.
  const UmrContext context{.limits = all};
  const StridedEntry far{1, 1, 70'000, Lkey{1}};
  CU_ASSERT_TRUE(
      is(umr_strided_view(c, context, r, {&far, 1, 16}, {}), Refusal::long_stride, 70'000, 65535));
  CU_ASSERT_TRUE(umr_strided_view(c, context, r, {&far, 1, 8}, {}).ok());
}

// The bytes of the WQE's list, entry by entry.
prm::Klm entry(const queue::SqGeometry& sq, uint32_t position, uint32_t i) {
  prm::Klm k;
  const std::size_t at = std::size_t{position & (sq.wqebb_count - 1)} * wqebb_bytes;
  std::memcpy(&k, sq.buf + at + 2 * wqebb_bytes + i * sizeof(k), sizeof(k));
  return k;
}

void strided_on_demand() {
  Queue q;
  queue::WqeCursor c{q.sq};
  const StridedEntry block{0x1000, 64, 256, Lkey{0x700}};
  const StridedView v{&block, 1, 4, true};
  const UmrContext context{.limits = all};
  ListRequest r{.key = Lkey{0x500}, .max_entries = 4};
  CU_ASSERT_TRUE(is(umr_strided(c, all, r, v, {}), Refusal::on_demand, 0, 0));
  const uint32_t at = c.position();
  CU_ASSERT_TRUE(umr_strided_view(c, context, r, v, {}).ok());
  for (uint32_t i = 0; i < 4; i++) {
    const prm::Klm k = entry(q.sq.geometry(), at, i);
    EQUAL(k.byte_count.host(), 64);
    EQUAL(k.mkey.host(), 0x700);
    EQUAL(k.address.host(), 0x1000 + 256 * i);
  }
  r.max_entries = 3;
  CU_ASSERT_TRUE(is(umr_strided_view(c, context, r, v, {}), Refusal::on_demand, 0, 0));
}

void fixed_entries_say_their_size() {
  Queue q;
  queue::WqeCursor c{q.sq};
  FixedView v;
  const std::array<Piece, 3> pages{{{0, 8192, Lkey{1}}, {1, 8192, Lkey{2}}, {2, 5, Lkey{3}}}};
  CU_ASSERT_TRUE(fixed_view(pages, 13, v).ok());
  const ListRequest r{.key = Lkey{0x500}, .max_entries = 8, .log_entity = 13};
  const uint32_t first = c.position();
  CU_ASSERT_TRUE(umr_fixed(c, all, r, v, {}).ok());
  const uint32_t second = c.position();
  CU_ASSERT_TRUE(patch_fixed(c, all, {Lkey{0x500}, 3, 0, 0}, v, {}).ok());
  std::array<prm::Klm, 4> stored;
  encode_ksm_list(reinterpret_cast<std::byte*>(stored.data()), v);
  for (uint32_t i = 0; i < 3; i++) {
    EQUAL(entry(q.sq.geometry(), first, i).byte_count.host(), 8192);
    EQUAL(entry(q.sq.geometry(), second, i).byte_count.host(), 8192);
    EQUAL(stored[i].byte_count.host(), 8192);
  }
  EQUAL(stored[3].byte_count.host(), 0);
}

void fixed_refusals() {
  FixedView v;
  std::array<Piece, 3> pages{{{0, 4096, Lkey{1}}, {0, 4096, Lkey{1}}, {0, 5, Lkey{1}}}};
  CU_ASSERT_TRUE(is(fixed_view(pages, 11, v), Refusal::wrong_size, 11, 12));
  CU_ASSERT_TRUE(fixed_view(pages, 12, v).ok());
  EQUAL(v.length, 8197);
  EQUAL(v.count, 3);
  pages[1].length = 4095;
  CU_ASSERT_TRUE(is(fixed_view(pages, 12, v), Refusal::wrong_size, 4095, 4096));
  CU_ASSERT_TRUE(is(fixed_view({}, 12, v), Refusal::empty, 0, 0));
  Queue q;
  queue::WqeCursor c{q.sq};
  prm::UmrLimits without = all;
  without.change_entity = false;
  const ListRequest r{.key = Lkey{0x500}, .max_entries = 8, .log_entity = 13};
  CU_ASSERT_TRUE(umr_fixed(c, all, r, v, {}).ok());
  CU_ASSERT_TRUE(is(umr_fixed(c, without, r, v, {}), Refusal::keeps_entity, 0, 0));
}

void patch_refusals() {
  Queue q;
  queue::WqeCursor c{q.sq};
  const std::vector<Piece> pieces(60, Piece{1, 1, Lkey{1}});
  auto refused = [&](uint32_t first, uint32_t count, uint32_t entries, const prm::UmrLimits& l) {
    const Patch p{.key = Lkey{1}, .max_entries = entries, .first = first};
    return patch(c, l, p, View::of(std::span{pieces}.first(count)), {});
  };
  CU_ASSERT_TRUE(is(refused(2, 4, 64, all), Refusal::off_granule, 2, 4));
  CU_ASSERT_TRUE(is(refused(4, 3, 64, all), Refusal::off_granule, 3, 4));
  CU_ASSERT_TRUE(refused(4, 3, 7, all).ok());  // the key's last ones
  CU_ASSERT_TRUE(is(refused(60, 8, 64, all), Refusal::over_key, 68, 64));
  CU_ASSERT_TRUE(is(refused(0, 56, 64, all), Refusal::too_many_inline, 56, 52));
  prm::UmrLimits near = all;
  near.extended_offset = false;
  CU_ASSERT_TRUE(refused(65'532, 4, 100'000, near).ok());
  CU_ASSERT_TRUE(is(refused(65'536, 4, 100'000, near), Refusal::offset_too_far, 65'536, 65'535));
  CU_ASSERT_TRUE(refused(65'536, 4, 100'000, all).ok());
}

void stored_patch_refusals() {
  Queue q;
  queue::WqeCursor c{q.sq};
  ListMemory memory{region(0, 8192)};
  StoredList list = memory.allocate(8);
  const Patch p{.key = Lkey{1}, .max_entries = 6};
  CU_ASSERT_TRUE(patch_by_pointer(c, all, p, list, {}).ok());
  list.octowords = 6;  // the key's last ones, and yet no whole granule
  CU_ASSERT_TRUE(is(patch_by_pointer(c, all, p, list, {}), Refusal::off_granule, 6, 4));
  list.octowords = 12;
  CU_ASSERT_TRUE(is(patch_by_pointer(c, all, p, list, {}), Refusal::over_key, 12, 6));
}

void chooses_by_size() {
  Queue q;
  queue::WqeCursor c{q.sq};
  ListMemory memory{region(0, 8192)};
  const std::vector<Piece> pieces(100, Piece{1, 1, Lkey{1}});
  const ListRequest r{.key = Lkey{0x500}, .max_entries = 200};
  UmrContext context{.limits = all, .memory = &memory};
  auto bound = [&](uint32_t n) {
    return umr_view(c, context, r, View::of(std::span{pieces}.first(n)), {});
  };
  CU_ASSERT_TRUE(bound(52).ok());
  EQUAL(memory.allocated(), 0);
  CU_ASSERT_TRUE(bound(53).ok());
  EQUAL(memory.allocated(), 1);
  context.form = Form::by_pointer;
  CU_ASSERT_TRUE(bound(1).ok());
  EQUAL(memory.allocated(), 2);
  context.form = Form::inline_list;
  CU_ASSERT_TRUE(is(bound(53), Refusal::too_many_inline, 53, 52));
  context = {.limits = all};
  CU_ASSERT_TRUE(is(bound(53), Refusal::no_list_memory, 56, 0));
  context.limits.pointer_lists = false;
  CU_ASSERT_TRUE(is(bound(53), Refusal::no_pointer, 0, 0));
  context.levels = 2;
  CU_ASSERT_TRUE(is(bound(1), Refusal::too_deep, 2, 1));
}

void sentences() {
  std::array<char, 200> said{};
  EQUAL(describe({Refusal::over_key, 53, 52}, said), std::strlen(said.data()));
  EQUAL(said.data(),
        "the view has more pieces than the key has entries: 53 entries, the limit is 52");
  std::array<char, 11> cut{};
  EQUAL(describe({Refusal::no_pointer, 0, 0}, cut), 10);
  EQUAL(cut.data(), "the device");
  EQUAL(describe({}, {}), 0);
}

const kilim::test::Case cases[] = {
    {"list memory is a ring of whole units", memory_is_a_ring},
    {"a strided layout is refused with its numbers", strided_refusals},
    {"entries of fixed size have that size", fixed_refusals},
    {"entries of fixed size say their size", fixed_entries_say_their_size},
    {"blocks on demand are listed one by one", strided_on_demand},
    {"a patch is whole granules within the key", patch_refusals},
    {"a patch that lies in memory is whole granules too", stored_patch_refusals},
    {"the form is chosen by size", chooses_by_size},
    {"a refusal is a sentence with numbers", sentences},
};

}  // namespace
}  // namespace forms_ut

KILIM_TEST_SUITE(forms, forms_ut::cases)
