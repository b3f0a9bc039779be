// SPDX-License-Identifier: BSD-3-Clause
// The thread that runs an adapter whose client does not: looks at most `spin_turns` times after the
// last work, then sleeps until a doorbell traps, a wire has a frame, a timer is due or kick().
// While clients poll their completion queues they run the adapter themselves (client_polls.hh), and
// it only looks in now and then. Clients that read their queues themselves compete with it for
// processors: what it does for one doorbell is bounded in turns and system calls, whoever runs
// when, and counted. Owner: the instance; lives until the process ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <poll.h>

#include "vhca/core/own_fd.hh"
#include "vhca/entry/client_polls.hh"
#include "vhca/entry/spin_budget.hh"
#include "vhca/entry/thread_place.hh"
#include "vhca/entry/wire_guard.hh"
#include "vhca/entry/write_protect.hh"

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::entry {

// What the thread has done since it began.
struct ProgressCounts {
  uint64_t turns = 0;         // of the engine
  uint64_t sleeps = 0;        // waits for something to happen
  uint64_t traps = 0;         // sleeps that a doorbell's store ended
  uint64_t blind = 0;         // sleeps that no frame could end, although there are wires
  uint64_t system_calls = 0;  // of the thread itself; a turn asks each wire once besides
  uint64_t frames = 0;        // sleeps that a frame has ended
};

class ProgressThread {
 public:
  // Turns that find nothing, after which it sleeps.
  static constexpr uint32_t spin_turns = SpinBudget::most;
  // Looks for a store that was let go on and has not come, after which doorbells trap again.
  static constexpr uint32_t store_looks = 6;

  explicit ProgressThread(hca::Hca& hca) noexcept : hca_(hca), guard_(hca) {}
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // False: no thread could be made.
  bool start() noexcept;
  // A client's mapping of a doorbell page: watched from now on.
  void watch(void* page, std::size_t length) noexcept;
  // Doorbells may come that do not trap: they are looked for every millisecond from now on.
  void look_often() noexcept;
  // After anything but a doorbell that may have made work. Any thread; a load when it is awake.
  void kick() noexcept;
  // Any thread.
  [[nodiscard]] ProgressCounts counts() const noexcept;
  // A client's poll found its queue empty and ran the adapter.
  void client_polled() noexcept { polls_.polled(); }
  // Called with the adapter's lock, before the turn; and without it, when the turn has brought
  // what the client asked for.
  void client_turns() noexcept { guard_.client_polls(); }
  void client_found() noexcept { guard_.client_found(); }

  void before_fork() noexcept { protect_.before_fork(); }
  void after_fork_in_parent() noexcept { protect_.after_fork_in_parent(); }
  // The thread does not exist here; the object is left alone from now on.
  void after_fork_in_child() noexcept;

 private:
  static void* main(void* self) noexcept;
  void run() noexcept;
  std::size_t work() noexcept;
  void sleep() noexcept;
  void sleep_beside_polls() noexcept;
  void sleep_trapped() noexcept;
  void let_stores_go() noexcept;
  // What ended a sleep.
  struct Woken {
    bool called = false;  // a trap or a kick
    bool frame = false;
    bool store = false;  // a trap: the store waits until let_stores_go()
  };
  Woken wait(uint64_t ns_max, bool with_wires) noexcept;
  Woken wait_beside_polls() noexcept;
  void begin_waited() noexcept;
  Woken sleep_until(uint64_t ns_max, uint64_t deadline) noexcept;
  void poll(uint64_t ns_max) noexcept;
  void lose_descriptors() noexcept;
  void keep_reserve() noexcept;
  static void add(std::atomic<uint64_t>& count, uint64_t n = 1) noexcept {
    count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  hca::Hca& hca_;
  WriteProtect protect_;
  WakePipe wake_;
  bool wake_lost_ = false;  // the client has closed it
  std::atomic<bool> asleep_{false};
  std::atomic<bool> timed_{false};  // some stores cannot be watched
  ClientPolls polls_;
  WireGuard guard_;
  ThreadPlace place_;
  int fruitless_wakes_ = 0;  // by a frame, in a row, that made no work: then wires are left out
  SpinBudgets spin_;
  uint64_t doorbells_seen_ = 0;    // when a turn last found something
  uint32_t store_looks_left_ = 0;  // not 0: pages are open until the store that trapped is seen
  uint64_t doorbells_before_ = 0;  // when it was let go on
  std::atomic<uint64_t> turns_{0}, sleeps_{0}, traps_{0}, blind_{0}, system_calls_{0}, frames_{0};
  std::vector<int> wires_;      // descriptors of the last wait_set()
  std::vector<pollfd> waited_;  // room for poll(2), kept
};

}  // namespace kilim::vhca::entry
