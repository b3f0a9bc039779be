// SPDX-License-Identifier: BSD-3-Clause
// Makes a sleeping thread see a doorbell, which is a plain store: while it sleeps, the client's
// mappings of the doorbell pages are write-protected through userfaultfd; a store traps and the
// descriptor becomes readable. Owner: one adapter's progress thread; add() from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pthread.h>

#include "vhca/core/own_fd.hh"

namespace kilim::vhca::entry {

class WriteProtect {
 public:
  WriteProtect() = default;
  WriteProtect(const WriteProtect&) = delete;
  WriteProtect& operator=(const WriteProtect&) = delete;

  // Asks the kernel for a userfaultfd that can do it; null, or a sentence with static storage that
  // says what is missing.
  const char* open() noexcept;
  // Readable when a protected page was stored to; -1: not available.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  // False: the number leads to a file of the client's by now. True where there never was one.
  [[nodiscard]] bool has_descriptor() const noexcept { return !fd_ || fd_.ours(); }
  // Nothing is protected from then on. The thread that sleeps.
  void lose_descriptor() noexcept;

  // A client's mapping of a doorbell page. False: it cannot be protected.
  bool add(void* page, std::size_t length) noexcept;
  // protect() and release() treat every mapping that is still there. release() lets waiting stores
  // go on, but may miss one that the kernel is just putting into its list: that one waits although
  // its page is open. The descriptor stays readable then, so the thread must call release() behind
  // every sleep in which it became readable.
  struct Released {
    uint32_t traps = 0;  // stores that waited
    uint32_t system_calls = 0;
    bool lost = false;  // has_descriptor() is false
  };
  // How many system calls it took.
  uint32_t protect() noexcept;
  Released release() noexcept;

  // Around fork: the mappings' list stands still; the child starts without a descriptor.
  void before_fork() noexcept { pthread_mutex_lock(&lock_); }
  void after_fork_in_parent() noexcept { pthread_mutex_unlock(&lock_); }
  void after_fork_in_child() noexcept;

 private:
  // As userfaultfd's ioctls take it, in bytes.
  struct Range {
    unsigned long long start;
    unsigned long long length;
  };
  uint32_t apply(unsigned long long mode) noexcept;

  OwnFd fd_;  // changes under the lock
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::vector<Range> ranges_;
};

}  // namespace kilim::vhca::entry
