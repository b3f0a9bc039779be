// SPDX-License-Identifier: BSD-3-Clause
// A reliable connection to itself with keys: where a worker weaves them, and where it may read and
// write through them. Owns the device's objects, the key pool and the loom over them.
// Made and recovered by the control lcore; used by one worker. The device outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/device/owned.hh"
#include "kilim/device/recovery.hh"
#include "kilim/diag/doorbell_lint.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/sq.hh"
#include "kilim/umr/loom_burst.hh"

namespace kilim::port {

struct KeyQueueConfig {
  uint32_t keys = 64;
  uint32_t max_keys = 0;                 // to which grow() may bring them; 0: none come
  mr::KeyRequest key{.max_entries = 4};  // what each key can hold
  uint32_t send_wqebbs = 256;            // 64-byte blocks, at most 32768
  uint32_t access = 0;                   // mr::Access bits of what is read and written on it
  umr::Epochs* epochs = nullptr;         // null: nobody but this worker ever learns the handles
  umr::Ending ending = umr::Ending::at_once;
  uint16_t lcore = 0;
  // Debug builds lint each doorbell. Shared by queues that use each other's keys, it is known there
  // too what is under way here. It outlives the queue.
  diag::KeyTraffic* traffic = nullptr;
  bool lint_stops = true;  // a finding ends the process
};

class KeyQueue {
 public:
  static Result<std::unique_ptr<KeyQueue>> create(device::Device& device,
                                                  const KeyQueueConfig& config);
  KeyQueue(const KeyQueue&) = delete;
  KeyQueue& operator=(const KeyQueue&) = delete;
  // All bindings have ended.
  ~KeyQueue();

  [[nodiscard]] queue::Sq& sq() noexcept { return *sq_; }
  [[nodiscard]] queue::Cq& cq() noexcept { return *cq_; }
  [[nodiscard]] umr::Loom& loom() noexcept { return *loom_; }
  [[nodiscard]] uint32_t keys() const noexcept { return pool_->size(); }
  // Further keys, with the worker away. ENOSPC: max_keys is reached.
  Status grow(uint32_t more) { return pool_->grow(more); }
  // For an audit of its keys, with the worker away.
  [[nodiscard]] umr::KeyPool& pool() noexcept { return *pool_; }
  // Null in builds without asserts.
  [[nodiscard]] const diag::DoorbellLint* lint() const noexcept { return lint_.get(); }

  // Whoever may wait: until everything posted is complete. False: an error, or the time is over.
  bool wait(std::chrono::milliseconds limit = std::chrono::milliseconds{1000}) noexcept;
  // After an error, with the worker away: the queue is drained (see device::recover() for the sink,
  // whose completed() gives the completion to the loom), reset, and its keys are rebuilt.
  template <typename Sink>
  Status recover(Sink& sink) noexcept {
    release_owner();
    const Status s = device::recover({device_, qp_->handle, *sq_, *cq_}, sink);
    return restart(s);
  }
  // The worker hands over to another one, or to the control lcore.
  void release_owner() noexcept;

 private:
  explicit KeyQueue(device::Device& device) noexcept : device_(device) {}
  Status make_queue(const KeyQueueConfig& config);
  Status make_keys(const KeyQueueConfig& config);
  Status restart(const Status& drained) noexcept;

  device::Device& device_;
  device::OwnedCq owned_cq_;
  device::OwnedQp qp_;
  std::vector<uint64_t> wr_ids_;
  std::unique_ptr<diag::DoorbellLint> lint_;
  std::unique_ptr<queue::Sq> sq_;
  std::unique_ptr<queue::Cq> cq_;
  std::unique_ptr<umr::KeyPool> pool_;
  std::unique_ptr<umr::Epochs> own_epochs_;
  std::unique_ptr<umr::Loom> loom_;
};

}  // namespace kilim::port
