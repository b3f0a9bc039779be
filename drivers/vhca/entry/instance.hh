// SPDX-License-Identifier: BSD-3-Clause
// The adapter of one virtual device in this process, with its journal and what runs it. Made when
// the process first opens the device (or attaches), kept until the process ends: clients may still
// poll while static objects are destroyed. Calls from any thread unless said otherwise.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/core/journal.hh"
#include "vhca/core/profile.hh"
#include "vhca/entry/config.hh"
#include "vhca/entry/progress_thread.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::entry {

class Instance {
 public:
  // EINVAL: a wire, linter or order that is not known; otherwise what kept the journal, a wire or
  // the thread from being made.
  // `tells`: why a wire cannot be had is said on stderr too.
  static Result<std::unique_ptr<Instance>> make(const DeviceSpec& config, const Profile& profile,
                                                bool tells = true);

  [[nodiscard]] hca::Hca& hca() noexcept { return *hca_; }
  // Runs the adapter if nobody else does at this moment.
  std::size_t poll(std::size_t budget) noexcept;
  // The same from a client's empty completion queue.
  std::size_t poll_for_client() noexcept;
  // Behind a poll_for_client() that did something: the queue is empty no more.
  void client_found() noexcept {
    if (thread_ && !inherited_) thread_->client_found();
  }
  // What to wait for behind a poll() that did nothing; false: there is work.
  bool wait_for(AdapterWait& wait) noexcept;
  // Of the adapter's thread; all zero: it has none.
  [[nodiscard]] ProgressCounts progress_counts() const noexcept {
    return thread_ ? thread_->counts() : ProgressCounts{};
  }
  // A client has mapped a doorbell page.
  void mapped(void* page, std::size_t length) noexcept;
  // A client sends its descriptor to another process, whose stores to doorbell pages trap nobody.
  void shared() noexcept;
  // A client has asked for something that may have made work.
  void kick() noexcept {
    if (thread_) thread_->kick();
  }

  // The process ends: the journal writes its summary and only counts from then on. False: lines are
  // missing in it.
  bool close_journal() noexcept;
  // The process ends: what destroyed queues owe their peers goes out, if the wire takes it soon.
  void settle() noexcept;

  // The adapter's lock is held from before_fork() on, so that the child finds whole tables.
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

 private:
  Instance() = default;

  std::unique_ptr<Journal> journal_;
  std::unique_ptr<hca::Hca> hca_;
  std::unique_ptr<ProgressThread> thread_;  // none: progress is the poller's
  std::vector<int> wires_;                  // of the last wait_for(); with the adapter's lock
  bool inherited_ = false;                  // the parent's, in a forked child: never run here
};

}  // namespace kilim::vhca::entry
