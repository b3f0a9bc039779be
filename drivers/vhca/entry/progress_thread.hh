// SPDX-License-Identifier: BSD-3-Clause
// The thread that runs an adapter whose client does not: spins at most 50 us after the last work,
// then sleeps until a doorbell traps, a wire has a frame, a timer is due or kick(). While clients
// poll their completion queues they run the adapter themselves (poll_hook.hh), and it only looks in
// now and then. Owner: the instance; lives until the process ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <poll.h>

#include "kilim/base/fd.hh"
#include "vhca/entry/write_protect.hh"

namespace kilim::vhca {

class Hca;

class ProgressThread {
 public:
  explicit ProgressThread(Hca& hca) noexcept : hca_(hca) {}
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // False: no thread could be made.
  bool start() noexcept;
  // A client's mapping of a doorbell page: watched from now on.
  void watch(void* page, std::size_t length) noexcept;
  // After anything but a doorbell that may have made work. Any thread; a load when it is awake.
  void kick() noexcept;
  // A client's poll found its queue empty and ran the adapter.
  void client_polled() noexcept {
    client_polls_.store(client_polls_.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
  }

  void before_fork() noexcept { protect_.before_fork(); }
  void after_fork_in_parent() noexcept { protect_.after_fork_in_parent(); }
  // The thread does not exist here; the object is left alone from now on.
  void after_fork_in_child() noexcept;

 private:
  static void* main(void* self) noexcept;
  void run() noexcept;
  std::size_t work() noexcept;
  bool clients_poll() noexcept;
  void sleep() noexcept;
  void sleep_trapped() noexcept;
  bool wait(int timeout_ms_max, bool with_wires) noexcept;

  Hca& hca_;
  WriteProtect protect_;
  Fd wake_;  // eventfd
  std::atomic<bool> asleep_{false};
  std::atomic<bool> timed_{false};  // some page cannot be watched
  std::atomic<uint64_t> client_polls_{0};
  uint64_t client_polls_seen_ = 0;
  int fruitless_wakes_ = 0;
  uint64_t idle_since_ = 0;
  std::vector<int> wires_;
  std::vector<pollfd> waited_;
};

}  // namespace kilim::vhca
