// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/port/mkey_queue.hh"

#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/umr/list_writer.hh"

namespace kilim::inline v1::port {

Result<std::unique_ptr<MkeyQueue>> MkeyQueue::create(device::Device& device,
                                                     const MkeyQueueConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (!device.caps().umr) return Error{EOPNOTSUPP, "the device binds no indirect keys (no UMR)"};
  std::unique_ptr<MkeyQueue> q(new MkeyQueue(device));
  if (Status s = q->make_queue(config); !s) return s.error();
  if (Status s = q->make_keys(config); !s) return s.error();
  return q;
}

// The completion queue has an entry for each block, because in the error state each WQE is flushed
// with a CQE, also those that asked for none.
Status MkeyQueue::make_queue(const MkeyQueueConfig& config) {
  auto cq = device::create_cq(device_, config.send_wqebbs);
  if (!cq) return cq.error();
  owned_cq_ = *std::move(cq);
  device::RcRequest request;
  request.queues = {.send_cq = owned_cq_->handle,
                    .recv_cq = owned_cq_->handle,
                    .send_wqebbs = config.send_wqebbs};
  request.umr = true;
  request.access = config.access;
  auto qp = device::create_rc_loopback(device_, request);
  if (!qp) return qp.error();
  qp_ = *std::move(qp);
  wr_ids_.resize(qp_->sq.wqebb_count);
  sq_ = std::make_unique<queue::Sq>(qp_->sq, wr_ids_);
  if constexpr (queue::watched) {
    lint_ = std::make_unique<diag::DoorbellLint>(config.lint_stops, prm::lint::QueueKind::connected,
                                                 config.traffic);
    (void)sq_->watch(lint_.get());
  }
  cq_ = std::make_unique<queue::Cq>(owned_cq_->geometry);
  return Done{};
}

Status MkeyQueue::make_keys(const MkeyQueueConfig& config) {
  auto pool = mkey::MkeyPool::create(device_.keys(), config.keys, config.key, config.max_keys);
  if (!pool) return pool.error();
  pool_ = *std::move(pool);
  if (config.epochs == nullptr) {
    auto epochs = mkey::Epochs::create(nullptr, 1);
    if (!epochs) return epochs.error();
    own_epochs_ = *std::move(epochs);
  }
  const device::Caps& caps = device_.caps();
  const mkey::MkeyBinderConfig binder_config{
      .fences = umr::FencePlanner{caps.umr_fence},
      .invalidate = config.invalidate,
      .keep_atomic = !caps.umr_atomic,
      .lcore = config.lcore,
      .max_indirection = caps.max_indirection,
      .writer = umr::select_list_writer(burst::widest_simd())};
  mkey::Epochs& epochs = config.epochs == nullptr ? *own_epochs_ : *config.epochs;
  auto binder = mkey::MkeyBinder::create(*sq_, *pool_, epochs, binder_config);
  if (!binder) return binder.error();
  binder_ = *std::move(binder);
  return Done{};
}

MkeyQueue::~MkeyQueue() {
  qp_.destroy();  // no work is under way any more
  if (binder_ != nullptr) binder_->release_owner();
}

bool MkeyQueue::wait(std::chrono::milliseconds limit) noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + limit;
  while (!sq_->idle() && !binder_->failed() && Clock::now() < deadline) {
    device_.progress();
    queue::Completion c[16];
    const uint32_t n = cq_->poll(c);
    for (uint32_t i = 0; i < n; i++) (void)binder_->handle_completion(c[i]);
  }
  binder_->poll();
  return sq_->idle() && !binder_->failed();
}

// Posts the invalidations of poisoned keys, as many at a time as the queue has room for.
Status MkeyQueue::restart(const Status& drained) noexcept {
  binder_->recover();
  sq_->reset();
  if (!drained) return drained;
  while (binder_->flush())
    if (!wait()) return Error{EIO, "the keys cannot be rebuilt"};
  release_owner();
  return Done{};
}

void MkeyQueue::release_owner() noexcept {
  sq_->release_owner();
  cq_->release_owner();
  binder_->release_owner();
}

}  // namespace kilim::inline v1::port
