// SPDX-License-Identifier: BSD-3-Clause
// A port's receive work queues: each is made, stopped, started and recovered by itself, while the
// others go on. Control lcore.
#include <cerrno>
#include <chrono>

#include "kilim/detail/base/error_text.hh"
#include "kilim/detail/port/port.hh"

namespace kilim::inline v1::port {
namespace {

constexpr uint64_t return_look_ns = 5'000'000;  // between two looks whether a queue is back

Error no_queue(uint32_t queue, std::size_t queues) noexcept {
  return error_with(EINVAL, "receive queue %u does not exist: the port has %zu, numbered from 0",
                    queue, queues);
}

// Queues are stopped, started and handed over one by one only while the port runs.
Status check_running(bool started, uint32_t queue, std::size_t queues) noexcept {
  if (!started) return Error{EINVAL, "the port is not started: set its queues up, then start it"};
  return queue < queues ? Status(Done{}) : no_queue(queue, queues);
}

}  // namespace

bool Port::left_by(worker::Quiescence* workers) noexcept {
  using Clock = std::chrono::steady_clock;
  if (workers == nullptr) return true;
  const uint64_t token = workers->start();
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(1);
  while (!workers->passed(token)) {
    if (Clock::now() > deadline) return false;
    device().progress();
  }
  return true;
}

Status Port::create_rwq(RxSlot& rx) {
  // A block that is received in part keeps its entries, while its receives are posted anew. Of an
  // even number libmlx5 makes twice as many.
  const bool blocks = rx.setup.compression != device::Compression::none;
  auto cq = device::create_cq(device(), {.entries = blocks ? 2 * sizes_.rxd - 1 : sizes_.rxd,
                                         .channel = rx.setup.events,
                                         .compression = rx.setup.compression,
                                         .real_time = rx.setup.real_time});
  if (!cq) return cq.error();
  rx.cq = *std::move(cq);
  auto rwq = device::create_rwq(
      device(),
      {.cq = rx.cq->handle,
       .recv_wrs = rx.setup.strides ? sizes_.rxd >> rx.setup.strides->log_count : sizes_.rxd,
       .max_recv_sge = rx.setup.segments(),
       .strip_vlan = rx.setup.strip_vlan,
       .strides = rx.setup.strides});
  if (!rwq) return rwq.error();
  rx.rwq = *std::move(rwq);
  attach_rx(rx, rx.rwq->rq, arena_, region_->region().lkey);
  rx.queue->errors = &last_errors_.received;
  return Done{};
}

// The doorbell record is cleared when the queue becomes READY (rdma-core providers/mlx5, verbs.c,
// mlx5_modify_wq()), so receives are posted afterwards. After an error the queue is in RESET.
Status Port::run_rx(RxSlot& rx, RxCaches caches) noexcept {
  burst::RxQueue& q = *rx.queue;
  if (Status s = device().set_rwq_state(rx.rwq->handle, device::RwqState::ready); !s) return s;
  q.cq.restore_record();
  use_caches(q, caches);
  caches.release_owner();
  const uint32_t posted = refill(q);
  q.rq.release_owner();
  q.cq.release_owner();
  caches.release_owner();
  use_caches(q, caches_of(rx.setup));
  if (posted != 0) return Done{};
  (void)halt_rx(rx, caches);
  return Error{ENOMEM, "no packet buffer is free for the receive queue"};
}

// In RESET the device writes neither buffers nor CQEs, so what is posted is the port's again.
// Frames that came and were not received are lost with their CQEs.
Status Port::halt_rx(RxSlot& rx, RxCaches caches) noexcept {
  burst::RxQueue& q = *rx.queue;
  q.rq.release_owner();
  q.cq.release_owner();
  const Status s = device().set_rwq_state(rx.rwq->handle, device::RwqState::reset);
  if (!s && !device().lost()) return s;
  rx.discarded->add(drop_frames(q));
  q.cq.restore_record();
  empty_rx(q, caches);
  q.rq.release_owner();
  q.cq.release_owner();
  return s;
}

Status Port::stop_rx(uint32_t queue, worker::Quiescence* workers) {
  if (Status s = check_running(started_, queue, rx_.size()); !s) return s;
  if (!with_rwqs())
    return Error{EOPNOTSUPP, "the only receive queue of this device's port stops with the port"};
  RxSlot& rx = rx_[queue];
  if (rx.stopped) return Done{};
  const auto failed = static_cast<bool>(rx.queue->failed);
  rx.queue->failed.set(true);
  if (!left_by(workers)) {
    rx.queue->failed.set(failed);
    return Error{ETIMEDOUT, "a worker has not left the receive queue in a second"};
  }
  OwnRxCaches caches(rx.setup);
  if (Status s = halt_rx(rx, caches.both()); !s) return s;  // revive() or stop() goes on
  rx.stopped.set(true);
  rx.revival = {};
  return Done{};
}

Status Port::start_rx(uint32_t queue) {
  if (Status s = check_running(started_, queue, rx_.size()); !s) return s;
  RxSlot& rx = rx_[queue];
  if (!rx.stopped) return Done{};
  OwnRxCaches caches(rx.setup);
  if (Status s = run_rx(rx, caches.both()); !s) return s;
  rx.stopped.set(false);
  rx.queue->failed.set(false);
  return Done{};
}

Status Port::hand_rx(uint32_t queue, pool::BufferCache& cache) {
  if (Status s = check_running(started_, queue, rx_.size()); !s) return s;
  RxSlot& rx = rx_[queue];
  if (&cache.pool() != &rx.setup.cache->pool())
    return Error{EINVAL, "the cache is of another pool than the queue's buffers"};
  rx.setup.cache = &cache;
  rx.queue->cache = &cache;
  rx.queue->rq.release_owner();
  rx.queue->cq.release_owner();
  return Done{};
}

void Port::arm_rx(uint32_t queue) noexcept {
  RxSlot& rx = rx_[queue];
  if (!rx.queue->failed) rx.queue->cq.arm(rx.cq->events.read());
}

void Port::watch_rx(uint32_t queue, worker::WaitSet& set) const noexcept {
  const RxSlot& rx = rx_[queue];
  if (rx.queue->failed)
    set.until(Retry::now_ns() + return_look_ns);
  else
    set.add(rx.cq->events.fd);
}

Status Port::strip_vlan(uint32_t queue, bool on) {
  if (queue >= rx_.size()) return no_queue(queue, rx_.size());
  if (on && !device().caps().spread.strip_vlan)
    return Error{EOPNOTSUPP, "the device does not strip VLAN tags"};
  RxSlot& rx = rx_[queue];
  if (started_) {
    if (!rx.rwq) return Error{EOPNOTSUPP, "the receive queue was started without VLAN stripping"};
    if (Status s = device().strip_vlan(rx.rwq->handle, on); !s) return s;
  }
  rx.setup.strip_vlan = on;
  return Done{};
}

void Port::revive_rwqs(worker::Quiescence* workers) noexcept {
  for (RxSlot& rx : rx_) {
    Revival& r = rx.revival;
    if (rx.stopped || !rx.queue->failed || !may_try(r)) continue;
    if (r.stage == Revival::Stage::up) {
      if (workers != nullptr) r.token = workers->start();
      r.stage = Revival::Stage::leaving;
    }
    if (r.stage == Revival::Stage::leaving && workers != nullptr && !workers->passed(r.token))
      continue;
    OwnRxCaches caches(rx.setup);
    const bool back = !device().faulted(rx.cq->handle) && halt_rx(rx, caches.both()).ok() &&
                      run_rx(rx, caches.both()).ok();
    tried(r, back);
    if (back) rx.queue->failed.set(false);
  }
}

}  // namespace kilim::inline v1::port
