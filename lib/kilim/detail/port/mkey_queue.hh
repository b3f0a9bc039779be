// SPDX-License-Identifier: BSD-3-Clause
// MkeyQueue: a reliable connection to itself on which a worker binds mkeys and may read and write
// through them. Owns the device's queue objects, the mkey pool and the binder.
// Made and recovered by the control lcore; used by one worker. The device outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/owned.hh"
#include "kilim/detail/device/recovery.hh"
#include "kilim/detail/diag/doorbell_lint.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/sq.hh"

namespace kilim::inline v1::port {

struct MkeyQueueConfig {
  uint32_t keys = 64;
  uint32_t max_keys = 0;                  // limit of grow(); 0: it adds no keys
  mr::MkeyRequest key{.max_entries = 4};  // kind and size of each key
  uint32_t send_wqebbs = 256;             // 64-byte blocks, at most 32768
  uint32_t access = 0;                    // mr::Access bits of the queue pair
  mkey::Epochs* epochs = nullptr;         // null: only this worker ever has the handles
  mkey::InvalidatePolicy invalidate = mkey::InvalidatePolicy::at_once;
  uint16_t lcore = 0;
  // Debug builds check each doorbell. Queues that use each other's keys share this record of
  // changes under way, which outlives them.
  diag::MkeyTraffic* traffic = nullptr;
  bool lint_stops = true;  // a finding ends the process
};

class MkeyQueue {
 public:
  // Control lcore. EOPNOTSUPP: the device has no UMR; or an error of the device, or of
  // MkeyPool::create(), Epochs::create() or MkeyBinder::create().
  static Result<std::unique_ptr<MkeyQueue>> create(device::Device& device,
                                                   const MkeyQueueConfig& config);
  MkeyQueue(const MkeyQueue&) = delete;
  MkeyQueue& operator=(const MkeyQueue&) = delete;
  // Destroys the queue and the keys; all bindings have ended.
  ~MkeyQueue();

  [[nodiscard]] queue::Sq& sq() noexcept { return *sq_; }
  [[nodiscard]] queue::Cq& cq() noexcept { return *cq_; }
  [[nodiscard]] mkey::MkeyBinder& binder() noexcept { return *binder_; }
  [[nodiscard]] uint32_t keys() const noexcept { return pool_->size(); }
  // Makes further keys, while the worker is away. ENOSPC: max_keys is reached.
  Status grow(uint32_t more) { return pool_->grow(more); }
  // For an audit of the keys (diag/audit.hh), while the worker is away.
  [[nodiscard]] mkey::MkeyPool& pool() noexcept { return *pool_; }
  // Null in builds without asserts.
  [[nodiscard]] const diag::DoorbellLint* lint() const noexcept { return lint_.get(); }

  // Blocks until everything posted has completed. False: an error, or the time is over.
  bool wait(std::chrono::milliseconds limit = std::chrono::milliseconds{1000}) noexcept;
  // After an error, while the worker is away: drains and resets the queue and invalidates keys
  // whose WQE failed. device::recover() describes the sink; its completed() calls
  // MkeyBinder::handle_completion().
  template <typename Sink>
  Status recover(Sink& sink) noexcept {
    release_owner();
    const Status s = device::recover(device::Recovery<>{device_, qp_->handle, *sq_, *cq_}, sink);
    return restart(s);
  }
  // Lets another worker, or the control lcore, use the queue from now on.
  void release_owner() noexcept;

 private:
  explicit MkeyQueue(device::Device& device) noexcept : device_(device) {}
  Status make_queue(const MkeyQueueConfig& config);
  Status make_keys(const MkeyQueueConfig& config);
  Status restart(const Status& drained) noexcept;

  device::Device& device_;
  device::OwnedCq owned_cq_;
  device::OwnedQp qp_;
  std::vector<uint64_t> wr_ids_;
  std::unique_ptr<diag::DoorbellLint> lint_;
  std::unique_ptr<queue::Sq> sq_;
  std::unique_ptr<queue::Cq> cq_;
  std::unique_ptr<mkey::MkeyPool> pool_;
  std::unique_ptr<mkey::Epochs> own_epochs_;
  std::unique_ptr<mkey::MkeyBinder> binder_;
};

}  // namespace kilim::inline v1::port
