// SPDX-License-Identifier: BSD-3-Clause
// Brings queues of a started port back to work after an error: they are held, their workers keep
// away from then on, the queue pair is drained and reset, and they are given back. Control lcore.
#include <cerrno>

#include "kilim/device/recovery.hh"
#include "kilim/port/port.hh"

namespace kilim::port {
namespace {

// Handles the completions that draining brings. A flushed send is only retired: its buffers are in
// the SentRing, which empty_tx() frees.
struct PairSink {
  burst::TxQueue& tx;
  burst::RxQueue* rx;
  void completed(const queue::Completion& c) noexcept {
    const bool error = !c.ok() && c.syndrome != prm::Syndrome::wr_flush;
    if (c.of_requester()) {
      tx.sq.retire(c.wqe_counter);
      if (error) tx.counters.errors.add(1);
    } else if (rx != nullptr) {
      lost_receive(c);
      if (error) rx->counters.errors.add(1);
    }
  }
  void lost(uint64_t, bool) noexcept {}

  // A frame that came before the error is lost with the queue; its buffer is not.
  void lost_receive(const queue::Completion& c) noexcept {
    const auto index = rx->rq.retire(c.wqe_counter);
    rx->cache->free_indices({&index, 1});
  }
};

}  // namespace

bool Port::down(std::size_t index) const noexcept {
  const TxSlot& tx = tx_[index];
  if (tx.queue == nullptr) return false;
  if (tx.queue->failed || (tx.gather != nullptr && tx.gather->failed())) return true;
  return index < rx_.size() && rx_[index].queue != nullptr && rx_[index].queue->failed;
}

void Port::hold(std::size_t index, bool on) noexcept {
  TxSlot& tx = tx_[index];
  tx.queue->failed.set(on);
  if (index < rx_.size()) rx_[index].queue->failed.set(on);
  if (tx.gather == nullptr) return;
  if (on)
    tx.gather->hold();
  else
    tx.gather->resume();
}

void Port::revive(worker::Quiescence* workers) noexcept {
  if (!started_) return;
  for (std::size_t i = 0; i < tx_.size(); i++) {
    Revival& r = tx_[i].revival;
    if (r.stage == Revival::Stage::dead || (r.stage == Revival::Stage::up && !down(i))) continue;
    if (r.stage == Revival::Stage::up) {
      r.pair = tx_[i].queue->failed || (i < rx_.size() && rx_[i].queue->failed);
      hold(i, true);
      if (workers != nullptr) r.token = workers->start();
      r.stage = Revival::Stage::leaving;
    }
    if (workers != nullptr && !workers->passed(r.token)) continue;
    r.stage = Revival::Stage::dead;
    if (!revive_one(i)) continue;
    recoveries_.add(1);
    r.stage = Revival::Stage::up;
    hold(i, false);
  }
}

// Buffers return to the pools through caches of this thread, as a worker's cache is for that worker
// only.
Status Port::revive_one(std::size_t index) noexcept {
  TxSlot& tx = tx_[index];
  pool::BufferCache cache(tx.setup.cache->pool());
  pool::BufferCache headers(header_cache(tx.setup).pool());
  if (tx.revival.pair)
    if (Status s = revive_pair(index, cache, headers); !s) return s;
  if (tx.gather == nullptr || !tx.gather->broken()) return Done{};
  return tx.gather->revive(cache, headers);
}

Status Port::revive_pair(std::size_t index, pool::BufferCache& cache,
                         pool::BufferCache& headers) noexcept {
  TxSlot& tx = tx_[index];
  RxSlot* rx = index < rx_.size() ? &rx_[index] : nullptr;
  pool::BufferCache rx_cache(rx == nullptr ? cache.pool() : rx->setup.cache->pool());
  tx.queue->sq.release_owner();
  tx.queue->cq.release_owner();
  device::Recovery<burst::RxRing> recovery{device(), tx.qp->handle, tx.queue->sq, tx.queue->cq};
  if (rx != nullptr) {
    rx->queue->rq.release_owner();
    rx->queue->cq.release_owner();
    rx->queue->cache = &rx_cache;
    recovery.rq = &rx->queue->rq;
    recovery.recv_cq = &rx->queue->cq;
  }
  PairSink sink{*tx.queue, rx == nullptr ? nullptr : rx->queue.get()};
  const Status s = device::recover(recovery, sink);
  if (s) empty_tx(tx, cache, headers);  // else the device may still read them
  tx.queue->sq.reset();
  tx.queue->sq.release_owner();
  tx.queue->cq.release_owner();
  if (rx == nullptr) return s;
  if (s) restart_rx(*rx, rx_cache);
  rx->queue->cache = rx->setup.cache;
  return s;
}

void Port::restart_rx(RxSlot& rx, pool::BufferCache& cache) noexcept {
  rx.queue->rq.reset([&cache](uint32_t index) noexcept { cache.free_indices({&index, 1}); });
  burst::rx_refill(*rx.queue);
  rx.queue->rq.release_owner();
  rx.queue->cq.release_owner();
}

}  // namespace kilim::port
