// SPDX-License-Identifier: BSD-3-Clause
// Swaps of several keys with layouts of every form, random ones on devices of several profiles:
// lists inline and by pointer, in one WQE and in several, strided, of fixed size, of keys that are
// swapped too. All data right by the new handles, none by the old ones; nothing posted where one
// is refused, and all poisoned where the device refuses one.
#include "swap_fixture.hh"

namespace swap_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using mkey::Binding;
using mkey::MkeyState;

// One swap of up to four keys; true: everything was as it must be.
bool swap_once(SwapRig& r, std::span<Shower> keys, bool is_fixed) {
  mkey::MkeyBinder& binder = is_fixed ? *r.fixed : *r.plain;
  std::array<mkey::SwapItem, 4> items;
  std::vector<BoundKey> inner;
  const auto n = static_cast<uint32_t>(1 + r.rig.below(keys.size()));
  for (uint32_t i = 0; i < n; i++) {
    Shower& s = keys[i];
    choose(r, s, is_fixed, inner);
    s.old = s.binding.lkey();
    items[i] = {&s.binding, s.layout(), whole};
    items[i].how.reads_keys = s.kind == Shower::Kind::nested;
    // A key of keys is a level more than those that it names.
    if (s.kind == Shower::Kind::nested || bytes_of(s.shown()) == 0) continue;
    BoundKey w{mr::IndirectMkey{}};
    w.lkey = s.old;
    w.shown = s.shown();
    inner.push_back(std::move(w));
  }
  umr::UmrContext context = r.bench.context();
  context.levels = r.rig.limits.max_indirection > 1 ? 2 : 1;
  const uint32_t posted = r.rig.loop->sq->posted();
  const uint64_t taken = r.rig.lists->allocated();
  const Outcome o = binder.swap({items.data(), n}, context, 1);
  if (!o.ok()) {  // too much for the ring or the list memory: as if it had not been asked for
    return r.rig.loop->sq->posted() == posted && r.finish();
  }
  r.bench.tally.shown++;
  if (r.rig.lists->allocated() != taken) r.by_pointer++;
  for (uint32_t i = 0; i < n; i++) r.kinds[static_cast<uint32_t>(keys[i].kind)]++;
  if (!r.finish()) return false;
  for (uint32_t i = 0; i < n; i++)
    if (!keys[i].binding.valid() || keys[i].binding.lkey() == keys[i].old || !shows(r, keys[i]))
      return false;
  return true;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t swaps = 150;
#else
constexpr uint32_t swaps = 1000;
#endif

void random_swaps(const char* name, const char* profile) {
  SwapRig r{name, profile};
  CU_ASSERT_TRUE_FATAL(r.ok());
  {
    std::array<Shower, 4> plain;
    std::array<Shower, 4> fixed;
    give_keys(r, plain, false);
    give_keys(r, fixed, true);
    uint32_t good = 0;
    for (; good < swaps; good++) {
      const bool is_fixed = r.rig.below(4) == 0;
      if (!swap_once(r, is_fixed ? fixed : plain, is_fixed)) break;
    }
    if (good != swaps) std::printf("\n    swap %u of %s\n", good, profile);
    EQUAL(good, swaps);
    CU_ASSERT_TRUE(r.bench.tally.shown > swaps / 2);
    const prm::UmrLimits& l = r.rig.limits;
    EQUAL(r.by_pointer > swaps / 10, l.pointer_lists);
    using Kind = Shower::Kind;
    const auto often = [&r](Kind k) { return r.kinds[static_cast<uint32_t>(k)] > swaps / 10; };
    CU_ASSERT_TRUE(often(Kind::list));
    CU_ASSERT_TRUE(often(Kind::fixed));
    EQUAL(often(Kind::strided), l.repeated_block);
    EQUAL(often(Kind::nested), l.max_indirection > 1);
  }
  EQUAL(r.rig.device->journal().count(vhca::Journal::Kind::error), 0);
  EQUAL(r.rig.device->journal().count(vhca::Journal::Kind::lint), 0);
}

// A list of two WQEs, of one byte an entry.
ListLayout long_list(FormRig& rig) {
  ListLayout l;
  for (uint32_t i = 0; i < 66'000; i++) {
    const uint64_t at = rig.below(FormRig::arena_bytes);
    l.pieces.push_back({rig.address(at), 1, rig.arena_key(at, 1)});
    l.shown.push_back({rig.memory(at), 1});
  }
  return l;
}

// `form`: its list goes inline, by pointer, or in two WQEs.
mkey::SwapItem item_of(SwapRig& r, Shower& s, uint32_t form, bool bad) {
  s.kind = Shower::Kind::list;
  s.list = form == 2 && bad ? long_list(r.rig) : random_list(r.rig, 40, most_bytes);
  while (form == 1 && s.list.pieces.size() < 60) s.list.pieces.push_back(s.list.pieces[0]);
  if (bad) s.list.pieces.back().length = 0x8000'0001;
  s.old = s.binding.lkey();
  uint64_t bytes = 0;
  for (const umr::Piece& p : s.list.pieces) bytes += p.length;
  const auto count = static_cast<uint32_t>(s.list.pieces.size());
  return {&s.binding, umr::View{s.list.pieces.data(), count, bytes}, whole};
}

// Of three keys one is given an entry that no device takes: inline, by pointer, or in the second
// part of a long list.
void refused_by_the_device() {
  SwapRig r{"swap4", "long-lists", long_entries};
  CU_ASSERT_TRUE_FATAL(r.ok());
  r.failing = &*r.plain;
  std::array<Shower, 3> keys;
  give_keys(r, keys, false);
  for (uint32_t round = 0; round < 9; round++) {
    const uint32_t bad = round % 3;
    const uint32_t form = round / 3;
    std::array<mkey::SwapItem, 3> items;
    for (uint32_t i = 0; i < 3; i++) {
      items[i] = item_of(r, keys[i], form, i == bad);
    }
    const uint64_t poisoned = r.plain->counters().poisoned.read();
    CU_ASSERT_TRUE_FATAL(r.plain->swap(items, r.bench.context(), 1).ok());
    CU_ASSERT_FALSE(r.finish());
    EQUAL(r.plain->counters().poisoned.read() - poisoned, 3);
    for (Shower& s : keys) EQUAL(s.binding.state(), MkeyState::free);
    for (const Shower& s : keys) CU_ASSERT_TRUE(r.rig.refused(s.old, 0, 1));
    for (Shower& s : keys) {
      s.binding.end();
      (void)r.plain->flush();
      CU_ASSERT_TRUE_FATAL(r.finish());
    }
    give_keys(r, keys, false);
    for (const Shower& s : keys) CU_ASSERT_TRUE(shows(r, s));
  }
}

// None of it is held back for the swap that was refused.
void list_memory_is_free(SwapRig& r) {
  const umr::StoredList room =
      r.rig.lists->allocate(static_cast<uint32_t>(r.rig.lists->capacity_octowords()));
  CU_ASSERT_PTR_NOT_NULL(room.memory);
  r.rig.lists->release(r.rig.lists->allocated());
}

void refused_as_a_whole(SwapRig& r, std::span<const Shower> keys,
                        std::span<const mkey::SwapItem> items, Refusal why) {
  const std::array<Lkey, 3> before{keys[0].binding.lkey(), keys[1].binding.lkey(),
                                   keys[2].binding.lkey()};
  const uint32_t posted = r.rig.loop->sq->posted();
  const uint64_t taken = r.rig.lists->allocated();
  const Outcome o = r.plain->swap(items, r.bench.context(), 1);
  EQUAL(o.why, why);
  EQUAL(r.rig.loop->sq->posted(), posted);
  CU_ASSERT_TRUE(r.rig.lists->allocated() >= taken);
  list_memory_is_free(r);
  for (uint32_t i = 0; i < 3; i++) {
    CU_ASSERT_TRUE(keys[i].binding.valid());
    EQUAL(keys[i].binding.lkey(), before[i]);
    CU_ASSERT_TRUE(shows(r, keys[i]));
  }
}

// Whatever item is refused, the others and the list memory are as before.
void refused_by_the_binder() {
  SwapRig r{"swap5", "cx6dx", 128};
  CU_ASSERT_TRUE_FATAL(r.ok());
  std::array<Shower, 3> keys;
  give_keys(r, keys, false);
  const ListLayout fine = random_list(r.rig, 100, most_bytes);
  const ListLayout page = random_fixed(r.rig, 1, page_log);
  const std::vector<umr::Piece> many(129, fine.pieces[0]);
  const umr::Piece self{0, 1, keys[1].binding.lkey()};
  const umr::StridedEntry empty{fine.pieces[0].address, 0, 0, fine.pieces[0].key};
  const std::pair<umr::Layout, Refusal> wrong[] = {
      {umr::View{}, Refusal::empty},
      {umr::View::of(many), Refusal::over_key},
      {umr::View{&self, 1, 1}, Refusal::itself},
      {umr::StridedView{&empty, 1, 1}, Refusal::empty},
      {umr::FixedView{page.pieces.data(), 1, page_log, 1}, Refusal::wrong_kind}};
  std::vector<umr::Piece> pieces(128, fine.pieces[0]);
  const umr::View by_pointer{pieces.data(), 128, 128ull * pieces[0].length};
  for (const auto& [layout, why] : wrong) {
    const mkey::SwapItem items[] = {{&keys[0].binding, by_pointer, whole},
                                    {&keys[1].binding, layout, whole},
                                    {&keys[2].binding, by_pointer, whole}};
    refused_as_a_whole(r, keys, items, why);
  }
}

// The entries of an outer key name the inner one as it was, and show what it shows now.
void swapped_together() {
  SwapRig r{"swap6", "cx6dx", 128};
  CU_ASSERT_TRUE_FATAL(r.ok());
  std::array<Shower, 2> keys;
  give_keys(r, keys, false);
  for (const uint32_t pieces : {1u, 52u, 100u}) {
    ListLayout inner = random_list(r.rig, 1, 4096);
    const Lkey old = keys[0].binding.lkey();
    ListLayout outer;
    for (uint32_t i = 0; i < pieces; i++) {
      const uint64_t at = r.rig.below(inner.shown[0].size());
      outer.pieces.push_back({at, 1, old});
      outer.shown.push_back(inner.shown[0].subspan(at, 1));
    }
    mkey::Bind reads = whole;
    reads.reads_keys = true;
    const mkey::SwapItem items[] = {{&keys[0].binding, umr::View::of(inner.pieces), whole},
                                    {&keys[1].binding, umr::View::of(outer.pieces), reads}};
    umr::UmrContext context = r.bench.context();
    context.levels = 2;
    CU_ASSERT_TRUE_FATAL(r.plain->swap(items, context, 1).ok());
    CU_ASSERT_TRUE_FATAL(r.finish());
    for (int i = 0; i < 20; i++)
      CU_ASSERT_TRUE(r.rig.use_somehow(keys[1].binding.lkey(), 0, outer.shown));
    r.settle();
    CU_ASSERT_TRUE(r.rig.refused(old, 0, 1));
    r.recover();
  }
}

void every_form() {
  random_swaps("swap0", "cx6dx");
}
void without_pointers() {
  random_swaps("swap1", "plain-lists");
}
void long_keys() {
  random_swaps("swap2", "long-lists");
}
void no_fence() {
  random_swaps("swap3", "no-fence");
}

const kilim::test::Case cases[] = {
    {"swaps of every form show what they shall", every_form},
    {"swaps on a device without pointer lists", without_pointers},
    {"swaps on a device of long lists", long_keys},
    {"swaps on a device that needs no fence", no_fence},
    {"a swap that the device refuses, in any form, poisons all its keys", refused_by_the_device},
    {"a swap of which one item is refused leaves everything as it was", refused_by_the_binder},
    {"keys and keys of them are swapped together", swapped_together},
};

}  // namespace
}  // namespace swap_ut

KILIM_TEST_SUITE(swap, swap_ut::cases)
