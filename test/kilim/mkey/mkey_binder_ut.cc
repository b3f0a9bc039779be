// SPDX-License-Identifier: BSD-3-Clause
// The life of keys on one queue: bindings, swaps, tags, and what an error leaves.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

#include "kilim/queue/rc_wqe.hh"
#include "mkey_fixture.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::mkey;
using namespace kilim::umr;
using test::BinderFixture;
using test::bound;
using test::pieces;
using test::view;

void life() {
  BinderFixture r{4};
  {
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
    CU_ASSERT_TRUE(moved.valid() && !b);
    EQUAL(r.binder->invalidations_due(), 0);
  }
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
  CU_ASSERT_TRUE(o.why == Refusal::no_room && o.asked == 3 && o.limit == 1);
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

// It tells of a key: nothing of the queue is done by it, and nothing has failed.
void wrong_signature() {
  BinderFixture r{8};
  Binding a = bound(r);
  {
    queue::WqeCursor c{r.sq};
    for (int i = 0; i < 3; i++)
      (void)queue::send(c, Piece{0, 10, a.lkey_behind(c)}, {.flags = queue::WrFlags::signalled});
    r.binder->commit(c);
  }
  const uint32_t retired = r.sq.retired();
  queue::Completion wrong;
  wrong.opcode = prm::CqeOpcode::sig_err;
  wrong.wqe_counter = 0x2000;
  EQUAL(r.binder->handle_completion(wrong), 0);
  EQUAL(r.sq.retired(), retired);
  r.complete();
  CU_ASSERT_TRUE(r.sq.idle() && !r.binder->failed());
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
  CU_ASSERT_TRUE(a.state() == MkeyState::posted && b.state() == MkeyState::posted);
  // Only the last asks for a completion.
  const std::vector<uint32_t> at = r.posted();
  EQUAL_FATAL(at.size(), 2);
  CU_ASSERT_FALSE((r.wqe(at[0]).fm_ce_se & prm::ctrl::cq_update) != 0);
  const std::vector<uint64_t> ids = r.complete();
  CU_ASSERT_TRUE(ids.size() == 1 && ids[0] == 77);
  CU_ASSERT_TRUE(a.valid() && b.valid());
  CU_ASSERT_NOT_EQUAL(a.lkey().value(), old_a.value());
  EQUAL(a.lkey().value() >> 8, old_a.value() >> 8);
  CU_ASSERT_NOT_EQUAL(b.lkey().value(), old_b.value());
}

void refused_swap() {
  for (uint32_t bad = 0; bad < 3; bad++) {
    BinderFixture r{8};
    Binding before = r.binder->claim();
    {
      queue::WqeCursor c{r.sq};
      (void)r.binder->bind(c, before, {}, view());
      c.commit();  // without a completion of its own
    }
    std::array<Binding, 3> b{bound(r), bound(r), bound(r)};
    Binding waiting = r.binder->claim();
    {
      queue::WqeCursor c{r.sq};
      (void)r.binder->bind(c, waiting, {}, view());
      c.commit();
    }
    const SwapItem items[] = {{&b[0], view(), {}}, {&b[1], view(), {}}, {&b[2], view(), {}}};
    CU_ASSERT_TRUE(r.binder->swap(items, 5).ok());
    r.complete(bad + 1);  // `waiting` first
    CU_ASSERT_TRUE(r.binder->failed());
    CU_ASSERT_TRUE(before.valid() && waiting.valid());
    for (const Binding& x : b) EQUAL(x.state(), MkeyState::poisoned);
    EQUAL(r.binder->counters().poisoned.read(), 3);
    queue::WqeCursor c{r.sq};
    EQUAL(r.binder->bind(c, before, {}, view()).why, Refusal::queue_failed);
    EQUAL(r.binder->swap(items, 6).why, Refusal::queue_failed);
    CU_ASSERT_FALSE(r.binder->flush());
    r.recover();
    EQUAL(r.binder->invalidations_due(), 3);
    CU_ASSERT_TRUE(r.binder->flush());
    r.complete();
    for (const Binding& x : b) EQUAL(x.state(), MkeyState::free);
    CU_ASSERT_TRUE(r.binder->swap(items, 7).ok());
    r.complete();
    for (const Binding& x : b) CU_ASSERT_TRUE(x.valid());
  }
}

void poisoned_and_ended() {
  BinderFixture r{4};
  {
    Binding a = bound(r);
    Binding b = bound(r);
    queue::WqeCursor c{r.sq};
    (void)r.binder->bind(c, a, {}, view());
    (void)r.binder->bind(c, b, {}, view());
    r.binder->commit(c);
    r.complete(0);
    r.recover();
    // Bound again at once: the new tag is as good as the rebuild, which the other one gets.
    queue::WqeCursor d{r.sq};
    CU_ASSERT_TRUE(r.binder->bind(d, a, {}, view()).ok());
    r.binder->commit(d);
    EQUAL(r.posted().size(), 2);
    r.complete();
    CU_ASSERT_TRUE(a.valid());
    EQUAL(b.state(), MkeyState::free);
  }
  while (r.binder->flush()) r.complete();
  r.binder->poll();
  r.binder.reset();
  EQUAL(r.pool->available(), 4);
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
  {
    BinderFixture r{2, {}, BinderFixture::blocks, readers};
    Binding a = bound(r);
    std::set<uint32_t> handles{a.lkey().value()};
    const SwapItem items[] = {{&a, view(), {}}};
    for (int i = 0; i < 300; i++) {
      CU_ASSERT_TRUE_FATAL(r.binder->swap(items, 0).ok());
      r.complete();
      r.binder->poll();
      CU_ASSERT_TRUE(handles.insert(a.lkey().value()).second);
    }
    EQUAL(r.binder->counters().parked.read(), 1);
    Outcome o;
    int more = 0;
    for (; more < 300 && o.ok(); more++) {
      o = r.binder->swap(items, 0);
      r.complete();
      r.binder->poll();
    }
    // The reader never passed: both keys are used up.
    CU_ASSERT_TRUE(o.why == Refusal::no_key && more < 300);
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
  std::free(readers);
}

#ifndef NDEBUG
// Whether `act` ends the process by an assertion.
template <typename Act>
bool asserts(Act act) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    act();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
#endif

void misuse() {
#ifndef NDEBUG
  BinderFixture r{8};
  BinderFixture other{8};
  Binding a = bound(r);
  Binding b = bound(r);
  queue::WqeCursor foreign{other.sq};
  CU_ASSERT_TRUE(asserts([&] { (void)a.lkey_behind(foreign); }));
  CU_ASSERT_FALSE(asserts([&] { (void)a.lkey(); }));
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE(r.binder->bind(c, a, {}, view()).ok());
  CU_ASSERT_TRUE(asserts([&] { (void)a.lkey(); }));
  CU_ASSERT_TRUE(asserts([&] { (void)a.rkey(); }));
  CU_ASSERT_FALSE(asserts([&] { (void)a.lkey_behind(c); }));
  r.binder->commit(c);
  const SwapItem items[] = {{&b, view(), {}}};
  CU_ASSERT_TRUE(r.binder->swap(items, 0).ok());
  CU_ASSERT_TRUE(asserts([&] {
    const queue::WqeCursor d{r.sq};
    (void)b.lkey_behind(d);
  }));
  r.complete();
  CU_ASSERT_FALSE(asserts([&] { (void)b.lkey(); }));
#endif
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
  CU_ASSERT_TRUE(a.valid() && a.lkey() == before);
}

const kilim::test::Case cases[] = {
    {"a key goes from free to valid, and its binding's end queues the invalidation", life},
    {"a dropped key that is bound again needs no invalidation", dropped_and_rebound},
    {"a full queue takes fewer, a dry pool gives none", short_counts},
    {"a wrong signature completes and fails nothing", wrong_signature},
    {"a swap has one completion and shows its handles behind it", swaps},
    {"a swap that fails anywhere leaves all its keys poisoned, and they are rebuilt", refused_swap},
    {"a poisoned key is rebuilt, or bound under a new tag", poisoned_and_ended},
    {"no tag repeats within an epoch", tags_do_not_repeat},
    {"debug builds assert that a handle is used only where it may be", misuse},
    {"a change of a bound key keeps its handle", patches},
};

}  // namespace

KILIM_UT_MAIN("mkey/mkey_binder", cases)
