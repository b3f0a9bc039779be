// SPDX-License-Identifier: BSD-3-Clause
// Worker: the poll loop of one EAL lcore: runs its pollers, collects its mailbox, reports
// quiescence, keeps time, and yields or sleeps when idle. Set up, changed and stopped by the
// control lcore; run() is called on the worker's lcore. Not movable, as others keep its address.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/base/roster.hh"
#include "kilim/detail/worker/mailbox.hh"
#include "kilim/detail/worker/poller.hh"
#include "kilim/detail/worker/quiescence.hh"

namespace kilim::inline v1::worker {

// What a worker does after `idle_rounds` rounds in a row in which no poller had work; until then,
// and always with spin and pause, the next round follows. spin: at once, for the lowest latency;
// pause: behind a pause instruction, which leaves a core's other thread more of it; yield: another
// thread may run first, for machines with fewer cores than threads; sleep: in poll(2) until a
// poller's descriptor, a message or a time wakes it (Poller::waiting).
enum class Idle : uint8_t { spin, pause, yield, sleep };

// A function that is called every period_us on the worker's thread, between two rounds; also of a
// sleeping worker. Periods that went by while a round took longer are left out.
struct Tick {
  void (*run)(void* context) noexcept = nullptr;
  void* context = nullptr;
  uint32_t period_us = 0;
};

struct WorkerConfig {
  uint32_t lcore = 0;    // of EAL; also its number at the quiescence
  uint32_t budget = 64;  // units of work for each poller in one round
  Idle idle = Idle::yield;
  uint32_t idle_rounds = 2000;       // idle rounds before `idle` applies
  uint32_t sleep_us = 50;            // with Idle::sleep and a poller that cannot be waited for
  Quiescence* quiescence = nullptr;  // outlives the worker; null: nobody asks
  Tick tick;                         // run null: none
  // Not 0: rte_timer_manage() runs this often, for the timers of the lcore (rte_timer.h; the
  // program has called rte_timer_subsystem_init(), and run() is on an EAL thread). Who starts a
  // timer for a sleeping lcore from another one calls wake().
  uint32_t timers_us = 0;
};

// Counts since create().
struct WorkerStats {
  uint64_t rounds = 0;
  uint64_t busy_rounds = 0;  // rounds in which a poller had work
  uint64_t busy_cycles = 0;  // TSC cycles of those rounds
  uint64_t messages = 0;     // run from the mailbox
  uint64_t ticks = 0;
  uint64_t sleeps = 0;     // waits in poll(2): each one ended
  uint64_t by_poller = 0;  // by a descriptor of a poller, such as a completion channel,
  uint64_t by_wake = 0;    // by wake(): a message, a change, a stop; or both;
  uint64_t by_time = 0;  // or else because a poller's time, a tick or a timer was due, or a signal
  uint64_t naps = 0;     // sleeps of sleep_us, for pollers that cannot be waited for
};

class Worker {
 public:
  // Control lcore. EINVAL: the lcore's number is beyond the quiescence's reporters, or a tick
  // without a period; or the error of Mailbox::create() or of eventfd(2).
  static Result<std::unique_ptr<Worker>> create(const WorkerConfig& config);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Pollers run in the order of add(). Control lcore, at any time: while run() runs, the change is
  // the worker's between two rounds, and the call returns when it is done; behind remove() the
  // worker never enters that poller again (same function and context). Whoever calls round() in a
  // loop of his own adds and removes there. EEXIST: it is there; ENOENT: it is not; EDEADLK: called
  // on the thread that is inside run().
  Status add(const Poller& poller);
  Status remove(const Poller& poller);
  // Control lcore.
  [[nodiscard]] std::size_t pollers() const noexcept { return plan_.size(); }

  // Loops until stop(). Called on the worker's lcore.
  void run() noexcept;
  // Runs all pollers once; returns the sum of their work. For tests and callers with their own
  // loop.
  uint32_t round() noexcept;

  // Any thread, signal handlers included. stop() makes run() return after its present round.
  void stop() noexcept {
    stopping_.store(true, std::memory_order_release);
    wake();
  }
  void clear_stop() noexcept { stopping_.store(false, std::memory_order_release); }
  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

  // Any thread. False: the mailbox is full.
  bool post(Message m) noexcept {
    if (!mailbox_.post(m)) return false;
    wake();
    return true;
  }
  // Any thread, signal handlers included: ends a sleep, also one that is about to begin. A system
  // call with Idle::sleep, else nothing.
  void wake() noexcept;

  [[nodiscard]] uint32_t lcore() const noexcept { return config_.lcore; }
  [[nodiscard]] Idle idle() const noexcept { return config_.idle; }
  [[nodiscard]] WorkerStats stats() const noexcept;

 private:
  Worker(const WorkerConfig& config, Mailbox mailbox, Fd wake_fd);
  Status change(std::vector<Poller> next, const Poller* left);
  void claim_change() noexcept;
  void keep_time(uint64_t now) noexcept;
  void rest(uint32_t empty_rounds) noexcept;
  void sleep() noexcept;
  bool prepare_sleep() noexcept;
  void wait() noexcept;

  WorkerConfig config_;
  Mailbox mailbox_;
  Fd wake_fd_;                   // eventfd; with Idle::sleep
  std::vector<Poller> pollers_;  // of the worker while it runs, else of the control lcore
  std::vector<Poller> plan_;     // the control lcore's: the same when no change is under way
  std::atomic<std::vector<Poller>*> change_{nullptr};  // to be swapped with pollers_
  std::atomic<bool> running_{false};  // pollers_ are held: by run(), or by a change in its absence
  std::atomic<bool> stopping_{false};
  WaitSet set_;
  uint64_t tick_cycles_ = 0, timer_cycles_ = 0;                        // periods
  uint64_t next_tick_ = WaitSet::never, next_timer_ = WaitSet::never;  // TSC
  uint64_t next_time_ = WaitSet::never;                                // the smaller one
  bool slept_in_vain_ = false;  // the last sleep ended by time
  Counter rounds_, busy_rounds_, busy_cycles_, messages_, ticks_;
  Counter sleeps_, by_poller_, by_wake_, by_time_, naps_;
};

// Shows each worker of this process, for its lcore(), idle() and stats(). Any thread, also while
// they run; locks. A worker that is being destroyed waits.
void walk_workers(Visit<const Worker> see);

}  // namespace kilim::inline v1::worker
