// SPDX-License-Identifier: BSD-3-Clause
// Brings queues of a started port back to work after an error: they are held, their workers keep
// away from then on, the queue pair is drained and reset, and they are given back; where that fails
// they stay held until it succeeds. Each queue by itself (receive work queues: rx_queues.cc); a
// carried receive queue with its pair. Control lcore.
#include <cerrno>

#include "kilim/detail/device/recovery.hh"
#include "kilim/detail/port/port.hh"

namespace kilim::inline v1::port {
namespace {

// Handles the completions that draining brings. A flushed send is only retired: its buffers are in
// the SentRing, which empty_tx() frees.
struct PairSink {
  burst::TxQueue& tx;
  RxSlot* rx;
  void completed(const queue::Completion& c) noexcept {
    const bool error = !c.ok() && c.syndrome != prm::Syndrome::wr_flush;
    if (c.of_requester()) {
      if (error && tx.errors != nullptr) tx.errors->note_send(c, tx.sq.geometry());
      tx.sq.retire(c.wqe_counter);
      if (error) tx.counters.errors.add(1);
    } else if (rx != nullptr) {
      lost_receive(c);
      if (error) rx->queue->counters.errors.add(1);
    }
  }
  void lost(uint64_t, bool) noexcept {}

  // A frame that came before the error is lost with the queue; its buffer is not.
  void lost_receive(const queue::Completion& c) noexcept {
    if (c.ok()) rx->discarded->add(1);
    const auto index = rx->queue->rq.retire(c.wqe_counter);
    rx->queue->cache->free_indices({&index, 1});
  }
};

// Stays so until the port is stopped and started.
constexpr Error cq_ended{EIO,
                         "the queue's completion queue ran over: the port has to be restarted"};

}  // namespace

bool Port::down(std::size_t index) const noexcept {
  const TxSlot& tx = tx_[index];
  if (tx.queue == nullptr) return false;
  if (tx.queue->failed || (tx.gather != nullptr && tx.gather->failed())) return true;
  return index == 0 && !with_rwqs() && rx_[0].queue != nullptr && rx_[0].queue->failed;
}

RxSlot* Port::carried_by(std::size_t index) noexcept {
  return index == 0 && !with_rwqs() ? &rx_[0] : nullptr;
}

void Port::hold(std::size_t index, bool on) noexcept {
  TxSlot& tx = tx_[index];
  tx.queue->failed.set(on);
  if (RxSlot* rx = carried_by(index)) rx->queue->failed.set(on);
  if (tx.gather == nullptr) return;
  if (on)
    tx.gather->hold();
  else
    tx.gather->resume();
}

// Errors of which no completion tells: the queue's own memory, or its work queue. A burst looks at
// the flag as if a completion had set it.
void Port::heed_events() noexcept {
  const device::DeviceEvents now = device().events();
  if (now == heeded_) return;
  cq_overruns_.add(now.cq_overruns - heeded_.cq_overruns);
  queue_events_.add(now.queue_errors - heeded_.queue_errors);
  port_changes_.add(now.port_changes - heeded_.port_changes);
  if (now.port_changes != heeded_.port_changes)
    if (const auto found = device().port(parts_.number)) {
      const std::lock_guard lock{shape_};
      info_.mtu_bytes = found->mtu_bytes;
      info_.frame_mtu = found->frame_mtu;
      info_.speed_mbps = found->speed_mbps;
      info_.active = found->active;
    }
  heeded_ = now;
  for (TxSlot& tx : tx_)
    if (device().faulted(tx.qp->handle) || device().faulted(tx.cq->handle))
      tx.queue->failed.set(true);
  for (RxSlot& rx : rx_)
    if ((rx.rwq && device().faulted(rx.rwq->handle)) || device().faulted(rx.cq->handle))
      rx.queue->failed.set(true);
}

void Port::revive(worker::Quiescence* workers) noexcept {
  if (!started_) return;
  heed_events();
  revive_pairs(workers);
  if (with_rwqs()) revive_rwqs(workers);
}

// A lost device does not come back, so what is held there is left as it is.
bool Port::may_try(const Revival& r) noexcept {
  if (r.stage != Revival::Stage::held) return true;
  return r.retry.due(Retry::now_ns()) && !device().lost();
}

void Port::tried(Revival& r, bool back) noexcept {
  if (back) {
    recoveries_.add(1);
    r = {};
  } else {
    r.stage = Revival::Stage::held;
    r.retry.failed(Retry::now_ns());
  }
}

void Port::revive_pairs(worker::Quiescence* workers) noexcept {
  for (std::size_t i = 0; i < tx_.size(); i++) {
    Revival& r = tx_[i].revival;
    if ((r.stage == Revival::Stage::up && !down(i)) || !may_try(r)) continue;
    if (r.stage == Revival::Stage::up) {
      const RxSlot* rx = carried_by(i);
      r.pair = tx_[i].queue->failed || (rx != nullptr && rx->queue->failed);
      hold(i, true);
      if (workers != nullptr) r.token = workers->start();
      r.stage = Revival::Stage::leaving;
    }
    if (r.stage == Revival::Stage::leaving && workers != nullptr && !workers->passed(r.token))
      continue;
    const bool back = revive_one(i).ok();
    tried(r, back);
    if (back) hold(i, false);
  }
}

// Buffers return to the pools through caches of this thread, as a worker's cache is for that worker
// only.
Status Port::revive_one(std::size_t index) noexcept {
  TxSlot& tx = tx_[index];
  pool::BufferCache cache(tx.setup.cache->pool());
  pool::BufferCache headers(header_cache(tx.setup).pool());
  Revival& r = tx.revival;
  if (r.pair)
    if (Status s = revive_pair(index, cache, headers); !s) return s;
  r.pair = false;
  // A try that failed has ended what the binder knows of the error, so it is kept here.
  r.gather = r.gather || (tx.gather != nullptr && tx.gather->broken());
  return r.gather ? tx.gather->revive(cache, headers) : Done{};
}

Status Port::revive_pair(std::size_t index, pool::BufferCache& cache,
                         pool::BufferCache& headers) noexcept {
  TxSlot& tx = tx_[index];
  RxSlot* rx = carried_by(index);
  if (device().faulted(tx.cq->handle) || (rx != nullptr && device().faulted(rx->cq->handle)))
    return cq_ended;
  std::optional<OwnRxCaches> rx_caches;
  tx.queue->sq.release_owner();
  tx.queue->cq.release_owner();
  device::Recovery<burst::RxRing> recovery{device(), tx.qp->handle, tx.queue->sq, tx.queue->cq};
  if (rx != nullptr) {
    rx->queue->rq.release_owner();
    rx->queue->cq.release_owner();
    use_caches(*rx->queue, rx_caches.emplace(rx->setup).both());
    recovery.rq = &rx->queue->rq;
    recovery.recv_cq = &rx->queue->cq;
  }
  PairSink sink{*tx.queue, rx};
  const Status s = device::recover(recovery, sink);
  if (s) empty_tx(tx, cache, headers);  // else the device may still read them
  tx.queue->sq.reset();
  tx.queue->sq.release_owner();
  tx.queue->cq.release_owner();
  if (rx == nullptr) return s;
  if (s) restart_rx(*rx, rx_caches->both());
  use_caches(*rx->queue, caches_of(rx->setup));
  return s;
}

void Port::restart_rx(RxSlot& rx, RxCaches caches) noexcept {
  empty_rx(*rx.queue, caches);
  refill(*rx.queue);
  rx.queue->rq.release_owner();
  rx.queue->cq.release_owner();
}

}  // namespace kilim::inline v1::port
