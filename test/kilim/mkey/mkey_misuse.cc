// SPDX-License-Identifier: BSD-3-Clause
// Part of mkey_binder_ut. What is refused of a binder, what a failed queue leaves, and what debug
// builds assert.
#include <array>
#include <csignal>
#include <cstdio>

#include <sys/wait.h>
#include <unistd.h>

#include "kilim/detail/queue/rc_wqe.hh"
#include "mkey_fixture.hh"

namespace mkey_misuse_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

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
  CU_ASSERT_TRUE(r.sq.idle());
  CU_ASSERT_TRUE(!r.binder->failed());
}

void recovers_and_swaps(BinderFixture& r, Binding& before, std::span<const Binding> b,
                        std::span<const SwapItem> items) {
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
    CU_ASSERT_TRUE(before.valid());
    CU_ASSERT_TRUE(waiting.valid());
    for (const Binding& x : b) EQUAL(x.state(), MkeyState::poisoned);
    EQUAL(r.binder->counters().poisoned.read(), 3);
    recovers_and_swaps(r, before, b, items);
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

constexpr kilim::test::Case of_misuse[] = {
    {"a wrong signature completes and fails nothing", wrong_signature},
    {"a swap that fails anywhere leaves all its keys poisoned, and they are rebuilt", refused_swap},
    {"a poisoned key is rebuilt, or bound under a new tag", poisoned_and_ended},
    {"debug builds assert that a handle is used only where it may be", misuse},
};

}  // namespace
}  // namespace mkey_misuse_ut

std::span<const kilim::test::Case> kilim::test::mkey_misuse_cases() {
  return mkey_misuse_ut::of_misuse;
}
