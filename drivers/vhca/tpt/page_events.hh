// SPDX-License-Identifier: BSD-3-Clause
// How the adapters of a process hear that client memory goes or moves: userfaultfd events read by a
// small thread, whatever the progress mode, and calls of entry/ where userfaultfd sees nothing. A
// client's munmap(), madvise() or mremap() waits until its event is read, and that happens under
// the page lock. So nobody who holds it allocates, frees, unmaps, logs, or takes another lock.
// Any thread. The adapter's lock, where both are held, is taken first.
#pragma once

#include <cstdint>

#include <pthread.h>

#include "vhca/tpt/page_table.hh"

namespace kilim::vhca::tpt {

// The one lock of all page tables of this process.
class PageLock {
 public:
  PageLock() noexcept { pthread_mutex_lock(&mutex); }
  ~PageLock() { pthread_mutex_unlock(&mutex); }
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;
  // In a child after fork: the holder does not exist here.
  static void reset_after_fork() noexcept { pthread_mutex_init(&mutex, nullptr); }

 private:
  static pthread_mutex_t mutex;
};

// Whoever wants to know what becomes of a range of client memory.
class WatchedRange {
 public:
  WatchedRange() = default;
  virtual ~WatchedRange() = default;
  WatchedRange(const WatchedRange&) = delete;
  WatchedRange& operator=(const WatchedRange&) = delete;

  // Under the page lock, on any thread: these pages of the range are gone, moved or to be read
  // anew.
  virtual void invalidated(const PageRange&) noexcept = 0;

  PageRange watched;
  bool pinned = false;           // its pages stay what they are when the process forks
  WatchedRange* next = nullptr;  // of page_events' list
  WatchedRange* prev = nullptr;
};

namespace page_events {

// Control path. Starts the thread with the first one; where userfaultfd is refused, the process is
// told so once.
void add(WatchedRange&);
void remove(WatchedRange&) noexcept;

// From now on what becomes of these pages is reported, and of the mappings around them: a mapping
// is never split, since mremap() refuses what is in parts. What is mapped anew is not. False: some
// of it cannot be watched (files, memory that the client watches itself). Without the page lock.
bool watch(const PageRange&) noexcept;

// A call of the client that userfaultfd may not have seen: an unmapping, a move, a forgetting.
void invalidate(const PageRange&) noexcept;
// Whether anybody is on the list: one load.
bool anybody() noexcept;

// Around fork, with every adapter's lock held: all private memory becomes copy-on-write.
void before_fork() noexcept;
void after_fork_in_child() noexcept;

}  // namespace page_events

}  // namespace kilim::vhca::tpt
