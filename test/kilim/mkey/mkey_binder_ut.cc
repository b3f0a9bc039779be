// SPDX-License-Identifier: BSD-3-Clause
// The life of keys on one queue: bindings, swaps, tags, and what an error leaves.
#include <cstdlib>
#include <set>

#include "case_tables.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "mkey_fixture.hh"

namespace mkey_binder_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

void bind_and_move(BinderFixture& r) {
  Binding b = r.binder->claim();
  EQUAL(b.state(), MkeyState::free);
  const Lkey before = b.key().lkey;
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE(r.binder->bind(c, b, {.wr_id = 9}, view()).ok());
  EQUAL(b.state(), MkeyState::posted);
  EQUAL(b.lkey_behind(c).value(), before.value() + 1);
  r.binder->commit(c);
  CU_ASSERT_FALSE(b.valid());
  const std::vector<uint64_t> ids = r.complete();
  CU_ASSERT_TRUE(ids.size() == 1 && ids[0] == 9);
  CU_ASSERT_TRUE(b.valid());
  EQUAL(b.lkey().value(), before.value() + 1);
  Binding moved = std::move(b);
  CU_ASSERT_TRUE(moved.valid());
  CU_ASSERT_TRUE(!b);
  EQUAL(r.binder->invalidations_due(), 0);
}

void life() {
  BinderFixture r{4};
  bind_and_move(r);
  EQUAL(r.binder->invalidations_due(), 1);
  EQUAL(r.sq.posted(), 3);  // nothing behind the owner's back
  CU_ASSERT_TRUE(r.binder->flush());
  EQUAL(r.sq.posted(), 5);
  r.complete();
  EQUAL(r.binder->deferred(), 1);
  r.binder->poll();
  EQUAL(r.binder->deferred(), 0);
  EQUAL(r.binder->counters().invalidated.read(), 1);
  r.binder.reset();
  EQUAL(r.pool->available(), 4);
}

// The writer that the binder was given writes the same list.
void bound_to_pieces() {
  const std::vector<umr::Piece> many(8, umr::Piece{0x1000, 64, Lkey{0x90100}});
  std::vector<std::vector<std::byte>> rings;
  uint32_t called = 0;
  static uint32_t* calls;
  calls = &called;
  const umr::ListWriter counting = [](std::byte* to, const umr::Piece* p, uint32_t n) noexcept {
    ++*calls;
    return umr::write_list_base(to, p, n);
  };
  for (const umr::ListWriter writer : {umr::ListWriter{nullptr}, counting}) {
    BinderFixture r{2, {.writer = writer}};
    Binding b = r.binder->claim();
    queue::WqeCursor c{r.sq};
    const Outcome o = rings.empty() ? r.binder->bind(c, b, {}, umr::View::of(many))
                                    : r.binder->bind(c, b, {}, many);
    CU_ASSERT_TRUE_FATAL(o.ok());
    r.binder->commit(c);
    rings.emplace_back(r.memory.begin(), r.memory.end());
    const umr::Piece empty[] = {many[0], {}};
    EQUAL(r.binder->bind(c, b, {}, empty).why, Refusal::empty);
    r.complete();
    CU_ASSERT_TRUE(b.valid());
  }
  CU_ASSERT_TRUE(rings[0] == rings[1]);
  EQUAL(called, 2);
}

void dropped_and_rebound() {
  BinderFixture r{2};
  Binding b = bound(r);
  r.binder->invalidate(b);
  EQUAL(r.binder->invalidations_due(), 1);
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE(r.binder->bind(c, b, {}, view()).ok());
  r.binder->commit(c);
  EQUAL(r.posted().size(), 1);  // the new tag is as good as an invalidation
  r.complete();
  CU_ASSERT_TRUE(b.valid());
  r.binder->invalidate(b);
  CU_ASSERT_TRUE(r.binder->flush());
  r.complete();
  EQUAL(b.state(), MkeyState::free);
  EQUAL(r.binder->deferred(), 0);
}

void short_counts() {
  BinderFixture r{8, {}, 16};
  std::vector<Binding> held;
  queue::WqeCursor c{r.sq};
  Outcome o;
  while (o.ok()) {
    held.push_back(r.binder->claim());
    o = r.binder->bind(c, held.back(), {}, view());
  }
  EQUAL(held.size(), 6);  // five of three blocks fit into 16
  EQUAL(o.why, Refusal::no_room);
  EQUAL(o.asked, 3);
  EQUAL(o.limit, 1);
  r.binder->commit(c);
  r.complete();
  for (std::size_t i = 0; i < 5; i++) CU_ASSERT_TRUE(held[i].valid());
  EQUAL(held[5].state(), MkeyState::free);
  held.push_back(r.binder->claim());
  held.push_back(r.binder->claim());
  CU_ASSERT_FALSE(r.binder->claim());
  held.clear();  // five invalidations of two blocks, and three keys that were never bound
  EQUAL(r.binder->invalidations_due(), 5);
  while (r.binder->flush()) r.complete();
  r.binder->poll();
  r.binder.reset();
  EQUAL(r.pool->available(), 8);
}

void swaps() {
  BinderFixture r{8};
  Binding a = bound(r);
  Binding b = bound(r);
  const Lkey old_a = a.lkey();
  const Lkey old_b = b.lkey();
  const uint64_t doorbells = r.sq.posted();
  const SwapItem items[] = {{&a, view(3), {}}, {&b, view(1), {}}};
  CU_ASSERT_TRUE(r.binder->swap(items, 77).ok());
  EQUAL(r.sq.posted() - doorbells, 6);
  EQUAL(a.state(), MkeyState::posted);
  EQUAL(b.state(), MkeyState::posted);
  // Only the last asks for a completion.
  const std::vector<uint32_t> at = r.posted();
  EQUAL_FATAL(at.size(), 2);
  CU_ASSERT_FALSE((r.wqe(at[0]).fm_ce_se & prm::ctrl::cq_update) != 0);
  const std::vector<uint64_t> ids = r.complete();
  CU_ASSERT_TRUE(ids.size() == 1 && ids[0] == 77);
  CU_ASSERT_TRUE(a.valid());
  CU_ASSERT_TRUE(b.valid());
  CU_ASSERT_NOT_EQUAL(a.lkey().value(), old_a.value());
  EQUAL(a.lkey().value() >> 8, old_a.value() >> 8);
  CU_ASSERT_NOT_EQUAL(b.lkey().value(), old_b.value());
}

void handles_differ(BinderFixture& r, Binding& a, std::span<const SwapItem> items) {
  std::set<uint32_t> handles{a.lkey().value()};
  for (int i = 0; i < 300; i++) {
    CU_ASSERT_TRUE_FATAL(r.binder->swap(items, 0).ok());
    r.complete();
    r.binder->poll();
    CU_ASSERT_TRUE(handles.insert(a.lkey().value()).second);
  }
  EQUAL(r.binder->counters().parked.read(), 1);
}

void swap_until_keys_are_used_up(rte_rcu_qsbr* readers) {
  BinderFixture r{2, {}, BinderFixture::blocks, readers};
  Binding a = bound(r);
  const SwapItem items[] = {{&a, view(), {}}};
  handles_differ(r, a, items);
  Outcome o;
  int more = 0;
  for (; more < 300 && o.ok(); more++) {
    o = r.binder->swap(items, 0);
    r.complete();
    r.binder->poll();
  }
  // The reader never passed: both keys are used up.
  EQUAL(o.why, Refusal::no_key);
  CU_ASSERT_TRUE(more < 300);
  CU_ASSERT_TRUE(a.valid());
  for (int i = 0; i < 4; i++) {
    rte_rcu_qsbr_quiescent(readers, 0);
    r.binder->poll();
  }
  CU_ASSERT_TRUE(r.binder->swap(items, 0).ok());
  r.complete();
  for (int i = 0; i < 2000; i++) {
    CU_ASSERT_TRUE_FATAL(r.binder->swap(items, 0).ok());
    r.complete();
    rte_rcu_qsbr_quiescent(readers, 0);
    r.binder->poll();
  }
}

// Handles of 256 swaps in one epoch: all different, as the key is changed for another in time.
void tags_do_not_repeat() {
  rte_rcu_qsbr* readers = nullptr;
  const std::size_t bytes = rte_rcu_qsbr_get_memsize(1);
  const std::size_t lines = (bytes + 63) / 64 * 64;
  readers = static_cast<rte_rcu_qsbr*>(std::aligned_alloc(64, lines));
  EQUAL_FATAL(rte_rcu_qsbr_init(readers, 1), 0);
  rte_rcu_qsbr_thread_register(readers, 0);
  rte_rcu_qsbr_thread_online(readers, 0);
  swap_until_keys_are_used_up(readers);
  std::free(readers);
}

void patches() {
  BinderFixture r{4};
  Binding a = bound(r);
  const Lkey before = a.lkey();
  const auto change = [](queue::WqeCursor& c, const Mkey& key, const UmrWr& wr) noexcept {
    return change_key(c, {.key = key.lkey, .fields = prm::umr::mask_len, .length = 7}, wr);
  };
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE(r.binder->change_with(c, a, {.wr_id = 3}, change).ok());
  CU_ASSERT_FALSE(a.valid());
  r.binder->commit(c);
  const std::vector<uint64_t> ids = r.complete();
  CU_ASSERT_TRUE(ids.size() == 1 && ids[0] == 3);
  CU_ASSERT_TRUE(a.valid());
  EQUAL(a.lkey(), before);
}

const kilim::test::Case cases[] = {
    {"a key goes from free to valid, and its binding's end queues the invalidation", life},
    {"a dropped key that is bound again needs no invalidation", dropped_and_rebound},
    {"a key is bound to pieces as to a view of them, by the binder's writer", bound_to_pieces},
    {"a full queue takes fewer, a dry pool gives none", short_counts},
    {"a swap has one completion and shows its handles behind it", swaps},
    {"no tag repeats within an epoch", tags_do_not_repeat},
    {"a change of a bound key keeps its handle", patches},
};

}  // namespace
}  // namespace mkey_binder_ut

KILIM_TEST_MAIN(mkey_binder) {
  return kilim::test::run_tables(
      "mkey/mkey_binder", {mkey_binder_ut::cases, kilim::test::mkey_misuse_cases()}, argc, argv);
}
