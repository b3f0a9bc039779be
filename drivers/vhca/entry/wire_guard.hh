// SPDX-License-Identifier: BSD-3-Clause
// This class decides whether a frame wakes the adapter's thread while clients poll. A client whose
// polls find nothing looks at the wires in each of them, so a frame does not wake the thread, which
// would only push a client off its processor. When a poll has found what the client waited for, the
// client may watch memory next, so the next frame wakes the thread; where that was in vain several
// times in a row, it is tried less often (GuardPolicy). Owner: the instance's
// thread. Calls name who may make them; never blocks, allocates for the first wires alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kilim/detail/base/fd.hh"
#include "vhca/entry/guard_policy.hh"

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::entry {

class WireGuard {
 public:
  explicit WireGuard(hca::Hca& hca) noexcept : hca_(hca) {}
  WireGuard(const WireGuard&) = delete;
  WireGuard& operator=(const WireGuard&) = delete;

  // False: no descriptor is left. Then the thread sleeps with the wires themselves.
  bool open() noexcept;
  // For poll(2): readable when a frame has come that is the thread's; -1: open() has failed.
  [[nodiscard]] int fd() const noexcept { return events_.get(); }

  // The thread, about to sleep beside clients. False: a client is in the adapter, nothing was
  // changed. `deadline_ns`: of the next timer.
  bool prepare(uint64_t& deadline_ns) noexcept;
  // The thread: no client polls at this moment, so the next prepare() lets frames wake it.
  void rouse() noexcept { arm_next_.store(true, std::memory_order_relaxed); }
  // Frames do not wake the thread at present: a client polls and looks at the wires.
  [[nodiscard]] bool hushed() const noexcept { return state_ == State::hushed; }
  // The processor on which a client has last taken the wires; below 0: none has.
  [[nodiscard]] int client_cpu() const noexcept {
    return client_cpu_.load(std::memory_order_relaxed);
  }
  // The thread, behind a sleep that a frame has ended: wires wake who asked them last.
  void woken() noexcept;
  // The thread with the adapter's lock: its turn has found something, which a client may see.
  void thread_found() noexcept;
  // The thread with the adapter's lock: it sleeps with the wires themselves from now on.
  void leave() noexcept;

  // A client with the adapter's lock, before the turn of a poll that was in vain.
  void client_polls() noexcept {
    if (state_.load(std::memory_order_relaxed) == State::armed) hush();
  }
  // A client without the lock: a poll that was in vain has found something behind its turn.
  void client_found() noexcept {
    if (state_.load(std::memory_order_relaxed) == State::hushed) arm_for_client();
  }
  void after_fork_in_child() noexcept;

 private:
  enum class State : uint8_t { off, armed, hushed };
  void hush() noexcept;
  void arm_for_client() noexcept;
  void ask_wires(uint64_t& deadline_ns) noexcept;
  void arm() noexcept;
  bool change(int what, int fd, uint32_t events) noexcept;

  hca::Hca& hca_;
  Fd events_;  // an epoll(7) of the wires; its registrations change with the adapter's lock held
  std::atomic<State> state_{State::off};
  std::atomic<bool> arm_next_{false};  // prepare() arms although clients polled in vain
  std::atomic<int> client_cpu_{-1};
  GuardPolicy policy_;                // with the adapter's lock
  std::vector<int> asked_, watched_;  // the wires' answers, and what is registered
};

}  // namespace kilim::vhca::entry
