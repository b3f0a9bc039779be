// SPDX-License-Identifier: BSD-3-Clause
// Part of worker_ut. A worker sleeps until something comes: nothing that comes is missed, and what
// ended each sleep is counted. No case measures time.
#include <atomic>
#include <thread>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_timer.h>
#include <sys/eventfd.h>

#include "eal.hh"
#include "kilim/detail/worker/worker.hh"
#include "worker_cases.hh"

namespace sleep_cases_ut {
namespace {

using namespace kilim::worker;
using kilim::Fd;

constexpr uint32_t idle_rounds = 5;  // before a worker sleeps

// A queue of work with a completion channel: an event comes with the first work behind arm().
struct Channel {
  Fd fd{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::atomic<uint32_t> waiting{0};
  std::atomic<uint32_t> done{0};
  std::atomic<bool> armed{false};
  std::atomic<uint32_t> arms{0};
  std::atomic<uint32_t> left{0};
  int come_at_arm = -1;    // with this arm() work comes right behind it; -1: never
  int come_at_watch = -1;  // with this watch() it comes right before the sleep
  std::atomic<int> watches{0};

  // Any thread.
  void bring() {
    waiting.fetch_add(1);
    if (armed.exchange(false)) (void)!eventfd_write(fd.get(), 1);
  }
  static uint32_t run(void* self, uint32_t) noexcept {
    auto& c = *static_cast<Channel*>(self);
    const uint32_t n = c.waiting.exchange(0);
    c.done.fetch_add(n);
    return n;
  }
  static void arm(void* self) noexcept {
    auto& c = *static_cast<Channel*>(self);
    eventfd_t n;
    (void)!eventfd_read(c.fd.get(), &n);
    c.armed.store(true);
    if (static_cast<int>(c.arms.fetch_add(1)) == c.come_at_arm) c.bring();
  }
  static bool watch(void* self, WaitSet& set) noexcept {
    auto& c = *static_cast<Channel*>(self);
    set.add(c.fd.get());
    if (c.watches.fetch_add(1) == c.come_at_watch) c.bring();
    return true;
  }
  static void leave(void* self) noexcept { static_cast<Channel*>(self)->left.fetch_add(1); }
  static constexpr Waiting how{arm, watch, leave};
  Poller poller() { return {run, this, "channel", &how}; }
};

struct Sleeper {
  Channel channel;
  std::unique_ptr<Worker> worker;
  std::thread loop;

  explicit Sleeper(WorkerConfig config, int at_arm = -1, int at_watch = -1) {
    CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
    channel.come_at_arm = at_arm;
    channel.come_at_watch = at_watch;
    config.lcore = 7;
    config.idle = Idle::sleep;
    config.idle_rounds = idle_rounds;
    auto made = Worker::create(config);
    CU_ASSERT_TRUE_FATAL(made.ok());
    worker = *std::move(made);
    CU_ASSERT_TRUE_FATAL(worker->add(channel.poller()).ok());
    loop = std::thread([w = worker.get()] { w->run(); });
  }
  ~Sleeper() { end(); }
  void end() {
    worker->stop();
    if (loop.joinable()) loop.join();
  }
  // Until the worker sleeps for the n-th time, or is just about to.
  void await_sleep(int n) const {
    while (channel.watches.load() < n) std::this_thread::yield();
  }
  void await(uint32_t done) const {
    while (channel.done.load() < done) std::this_thread::yield();
  }
};

// One event, one waking: of rounds there are the one with the work, the idle ones until the worker
// may sleep, and the one behind arm().
void woken_by_the_channel() {
  constexpr uint32_t times = 50;
  Sleeper s({});
  for (uint32_t i = 1; i <= times; i++) {
    s.await_sleep(static_cast<int>(i));
    s.channel.bring();
    s.await(i);
  }
  s.await_sleep(times + 1);
  s.end();
  const WorkerStats stats = s.worker->stats();
  EQUAL(stats.by_poller, times);
  EQUAL(stats.by_wake, 1u);  // the stop
  EQUAL(stats.sleeps, times + 1);
  EQUAL(stats.by_time + stats.naps, 0u);
  EQUAL(stats.rounds, (idle_rounds + 1) + times * (idle_rounds + 2));
  EQUAL(s.channel.left.load(), 1u);
}

// Work that comes behind arm() is found by the round that follows; no sleep, no event needed.
void what_comes_behind_arming() {
  Sleeper s({}, 0);
  s.await(1);
  s.await_sleep(1);
  s.end();
  EQUAL(s.channel.done.load(), 1u);
  EQUAL(s.worker->stats().by_poller, 0u);
  EQUAL(s.worker->stats().by_wake, 1u);
}

// Work that comes later ends the sleep at once.
void what_comes_before_the_sleep() {
  Sleeper s({}, -1, 0);
  s.await(1);
  s.await_sleep(2);
  s.end();
  EQUAL(s.channel.done.load(), 1u);
  EQUAL(s.worker->stats().by_poller, 1u);
}

// Another thread brings work at every moment; all of it is done although nothing but events wakes.
void no_wake_up_is_lost() {
  Sleeper s({});
  for (uint32_t i = 1; i <= 3000; i++) {
    s.channel.bring();
    if (i % 3 == 0) s.await(i);  // it may be on its way to sleep now
  }
  s.await(3000);
  s.end();
  EQUAL(s.worker->stats().by_time, 0u);
}

void messages_changes_and_stops_wake() {
  Sleeper s({});
  std::atomic<int> ran{0};
  const Message m{[](void* c) noexcept { static_cast<std::atomic<int>*>(c)->fetch_add(1); }, &ran};
  for (int i = 1; i < 20; i++) {
    s.await_sleep(i);
    CU_ASSERT_TRUE(s.worker->post(m));
    while (ran.load() < i) std::this_thread::yield();
  }
  s.await_sleep(20);
  CU_ASSERT_TRUE(s.worker->remove(s.channel.poller()).ok());
  EQUAL(s.channel.left.load(), 1u);
  s.end();
  const WorkerStats stats = s.worker->stats();
  EQUAL(stats.by_wake, stats.sleeps);
  EQUAL(stats.by_time, 0u);
}

// It sleeps for a moment at a time beside a poller that nobody can wait for.
void naps() {
  Sleeper s({.sleep_us = 1000});
  Channel other;
  Poller p = other.poller();
  p.waiting = nullptr;
  CU_ASSERT_TRUE(s.worker->add(p).ok());
  while (s.worker->stats().by_time < 10) std::this_thread::yield();
  CU_ASSERT_TRUE(s.worker->stats().naps >= 10u);
  other.waiting.store(1);
  while (other.done.load() == 0) std::this_thread::yield();
  CU_ASSERT_TRUE(s.worker->remove(p).ok());
}

// The control lcore does not wait for who sleeps.
void a_sleeper_holds_nothing() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto q = Quiescence::create(8);
  CU_ASSERT_TRUE_FATAL(q.ok());
  Sleeper s({.quiescence = &*q});
  s.await_sleep(1);
  const uint64_t token = q->start();
  for (int i = 0; i < 1'000'000 && !q->passed(token); i++) std::this_thread::yield();
  CU_ASSERT_TRUE(q->passed(token));
  EQUAL(s.worker->stats().rounds, idle_rounds + 1);
  s.channel.bring();
  s.await(1);
  s.end();
}

struct Ticks {
  std::atomic<uint32_t> count{0};
  Worker* worker = nullptr;
  uint32_t until = 0;
  static void run(void* self) noexcept {
    auto& t = *static_cast<Ticks*>(self);
    if (t.count.fetch_add(1) + 1 == t.until) t.worker->stop();
  }
};

// A tick comes to sleepers and to those with work alike.
void ticks() {
  Ticks t;
  Sleeper s({.tick = {Ticks::run, &t, 2000}});
  while (t.count.load() < 5) std::this_thread::yield();
  s.end();
  EQUAL(s.worker->stats().ticks, t.count.load());
  CU_ASSERT_TRUE(s.worker->stats().by_time >= 4u);
  CU_ASSERT_TRUE(s.worker->stats().rounds < 100u);  // it slept in between

  Ticks busy{.until = 5};
  auto made = Worker::create({.lcore = 8, .idle = Idle::spin, .tick = {Ticks::run, &busy, 500}});
  CU_ASSERT_TRUE_FATAL(made.ok());
  busy.worker = made->get();
  busy.worker->run();
  EQUAL(busy.count.load(), 5u);
}

// Timers of the lcore, EAL's main one here: also of one that sleeps.
void timers() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  EQUAL_FATAL(rte_timer_subsystem_init(), 0);
  for (const Idle idle : {Idle::yield, Idle::sleep}) {
    auto made =
        Worker::create({.lcore = 0, .idle = idle, .idle_rounds = idle_rounds, .timers_us = 100});
    CU_ASSERT_TRUE_FATAL(made.ok());
    Channel channel;
    CU_ASSERT_TRUE((*made)->add(channel.poller()).ok());
    Ticks t{.worker = made->get(), .until = 3};
    rte_timer timer;
    rte_timer_init(&timer);
    auto fired = [](rte_timer*, void* c) { Ticks::run(c); };
    const uint64_t period = rte_get_timer_hz() / 500;
    EQUAL_FATAL(rte_timer_reset(&timer, period, PERIODICAL, rte_lcore_id(), fired, &t), 0);
    (*made)->run();
    EQUAL(t.count.load(), 3u);
    rte_timer_stop_sync(&timer);
    if (idle == Idle::sleep) CU_ASSERT_TRUE((*made)->stats().rounds < 100u);
  }
  rte_timer_subsystem_finalize();
}

constexpr kilim::test::Case of_sleep[] = {
    {"a sleeping worker is woken by the channel alone", woken_by_the_channel},
    {"what comes behind arming is found before the sleep", what_comes_behind_arming},
    {"what comes right before the sleep ends it", what_comes_before_the_sleep},
    {"no wake-up is lost at any moment", no_wake_up_is_lost},
    {"messages, changes and stops end a sleep", messages_changes_and_stops_wake},
    {"beside a poller without descriptor a worker naps", naps},
    {"who sleeps holds nothing", a_sleeper_holds_nothing},
    {"a tick comes to sleepers and to the busy", ticks},
    {"timers of the lcore run, in its sleep too", timers},
};

}  // namespace
}  // namespace sleep_cases_ut

std::span<const kilim::test::Case> kilim::test::sleep_cases() {
  return sleep_cases_ut::of_sleep;
}
