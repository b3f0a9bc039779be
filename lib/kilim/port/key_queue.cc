// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/port/key_queue.hh"

#include <cerrno>

namespace kilim::port {

Result<std::unique_ptr<KeyQueue>> KeyQueue::create(device::Device& device,
                                                   const KeyQueueConfig& config) {
  if (!device.caps().umr) return Error{EOPNOTSUPP, "the device weaves no indirect keys (no UMR)"};
  std::unique_ptr<KeyQueue> q(new KeyQueue(device));
  if (Status s = q->make_queue(config); !s) return s.error();
  if (Status s = q->make_keys(config); !s) return s.error();
  return q;
}

// In the error state each WQE has a completion, also those that asked for none.
Status KeyQueue::make_queue(const KeyQueueConfig& config) {
  auto cq = device::make_cq(device_, config.send_wqebbs);
  if (!cq) return cq.error();
  owned_cq_ = *std::move(cq);
  device::RcRequest request;
  request.queues = {.send_cq = owned_cq_->handle,
                    .recv_cq = owned_cq_->handle,
                    .send_wqebbs = config.send_wqebbs};
  request.umr = true;
  request.access = config.access;
  auto qp = device::make_rc_loopback(device_, request);
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

Status KeyQueue::make_keys(const KeyQueueConfig& config) {
  auto pool = umr::KeyPool::create(device_.keys(), config.keys, config.key, config.max_keys);
  if (!pool) return pool.error();
  pool_ = *std::move(pool);
  if (config.epochs == nullptr) {
    auto epochs = umr::Epochs::create(nullptr, 1);
    if (!epochs) return epochs.error();
    own_epochs_ = *std::move(epochs);
  }
  const device::Caps& caps = device_.caps();
  const umr::LoomConfig loom_config{.fences = umr::FencePlanner{caps.umr_fence},
                                    .ending = config.ending,
                                    .keep_atomic = !caps.umr_atomic,
                                    .lcore = config.lcore,
                                    .max_indirection = caps.max_indirection};
  umr::Epochs& epochs = config.epochs == nullptr ? *own_epochs_ : *config.epochs;
  auto loom = umr::Loom::create(*sq_, *pool_, epochs, loom_config);
  if (!loom) return loom.error();
  loom_ = *std::move(loom);
  return Done{};
}

KeyQueue::~KeyQueue() {
  qp_.destroy();  // nothing is woven any more
  if (loom_ != nullptr) loom_->release_owner();
}

bool KeyQueue::wait(std::chrono::milliseconds limit) noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + limit;
  while (!sq_->idle() && !loom_->failed() && Clock::now() < deadline) {
    device_.progress();
    queue::Completion c[16];
    const uint32_t n = cq_->poll(c);
    for (uint32_t i = 0; i < n; i++) (void)loom_->completed(c[i]);
  }
  loom_->turn();
  return sq_->idle() && !loom_->failed();
}

// With the queue empty as many rebuilds as fit are posted at a time.
Status KeyQueue::restart(const Status& drained) noexcept {
  loom_->restart();
  sq_->reset();
  if (!drained) return drained;
  while (loom_->flush())
    if (!wait()) return Error{EIO, "the keys cannot be rebuilt"};
  release_owner();
  return Done{};
}

void KeyQueue::release_owner() noexcept {
  sq_->release_owner();
  cq_->release_owner();
  loom_->release_owner();
}

}  // namespace kilim::port
