// SPDX-License-Identifier: BSD-3-Clause
// How queues of an ethdev run: each starts, stops and comes back to work after an error by itself,
// and tells how full it is. Control operations, and bursts after an error.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include <rte_mempool.h>

#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/device/recovery.hh"
#include "net/kilim/ethdev.hh"
#include "net/kilim/mbuf_strides.hh"

namespace kilim::net {
namespace {

constexpr auto stop_limit = std::chrono::milliseconds(200);  // for what was handed over

struct SendSink {
  queue::Sq& sq;
  void completed(const queue::Completion& c) noexcept {
    if (c.of_requester()) (void)sq.retire(c.wqe_counter);
  }
  void lost(uint64_t, bool) noexcept {}
};

// An entry that gives strides back, and is of no frame.
bool is_filler(const MbufRx& q, const prm::Cqe& e) noexcept {
  return q.strides.log_count != 0 && (e.byte_cnt.host() & prm::cqe::stride_filler) != 0;
}

// Packets that a queue's receives have room for at most.
uint32_t places(const MbufRx& q, uint32_t receives) noexcept {
  return receives << q.strides.log_count;
}

// Who waits for a descriptor may call nothing else: a device that bursts run goes on here too.
template <typename Queue>
void run_device(const Queue& q) noexcept {
  if (q.poller.fn != nullptr) q.poller.fn(q.poller.context, MbufRx::row);
}

// Empties a completion queue to which nothing is written any more; returns the frames.
uint32_t drop_completions(MbufRx& q) noexcept {
  queue::Cq& cq = *q.cq;
  uint32_t frames = 0;
  for (const prm::Cqe* e; (e = cq.peek(0)) != nullptr;) {
    const bool error = queue::Cq::is_error(e->op_own);
    const uint32_t n = error ? 1 : queue::Cq::completions(*e);
    // A joined frame is as many as its segments.
    if (!error && !is_filler(q, *e)) frames += std::max(n, prm::cqe::lro_num_seg::get(*e));
    cq.consume_block(n);
  }
  cq.restore_record();
  return frames;
}

// The device writes there no more.
void clear_rx(MbufRx& q) noexcept {
  q.cq->release_owner();
  q.counts->discarded.add(drop_completions(q) - q.block_done);
  empty_mbuf_rx(q);
  q.cq->release_owner();
}

}  // namespace

int Ethdev::run_rx(EthdevRx& rx) noexcept {
  MbufRx& q = *rx.queue;
  if (Status s = port_.device().set_rwq_state(rx.rwq->handle, device::RwqState::ready); !s)
    return refuse(s.error());
  q.cq->restore_record();
  q.down.set(false);
  if (fill_mbuf_rx(q) == 0) return refuse({ENOMEM, "the mempool of a receive queue is empty"});
  return 0;
}

void Ethdev::halt_rx(EthdevRx& rx) noexcept {
  rx.queue->down.set(true);
  (void)port_.device().set_rwq_state(rx.rwq->handle, device::RwqState::reset);
  clear_rx(*rx.queue);
}

int Ethdev::start_rx(uint16_t queue) noexcept {
  const std::lock_guard guard(lock_);
  EthdevRx& rx = rx_[queue];
  if (!rx.stopped) return 0;
  rx.retry = {};
  if (const int e = run_rx(rx); e != 0) {
    halt_rx(rx);
    return e;
  }
  rx.stopped = false;
  dev_->data->rx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STARTED;
  return 0;
}

int Ethdev::stop_rx(uint16_t queue) noexcept {
  const std::lock_guard guard(lock_);
  EthdevRx& rx = rx_[queue];
  if (rx.stopped) return 0;
  rx.stopped = true;
  halt_rx(rx);
  dev_->data->rx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STOPPED;
  return 0;
}

void Ethdev::recover_rx(uint16_t queue) noexcept {
  const std::lock_guard guard(lock_);
  EthdevRx& rx = rx_[queue];
  if (rx.stopped || !rx.rwq || !rx.retry.due(port::Retry::now_ns()) || port_.device().lost())
    return;
  if (cq_ended(rx.cq)) return rx.retry.failed(port::Retry::now_ns());
  // A posted buffer stays until the device has let go of it.
  const bool reset = port_.device().set_rwq_state(rx.rwq->handle, device::RwqState::reset).ok();
  if (reset) clear_rx(*rx.queue);
  if (!reset || run_rx(rx) != 0) return rx.retry.failed(port::Retry::now_ns());
  rx.retry = {};
  rx.queue->counts->recoveries.add(1);
}

int Ethdev::start_tx(uint16_t queue) noexcept {
  const std::lock_guard guard(lock_);
  EthdevTx& tx = tx_[queue];
  tx.stopped = false;
  tx.queue->down.set(false);
  tx.retry = {};
  dev_->data->tx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STARTED;
  return 0;
}

int Ethdev::stop_tx(uint16_t queue) noexcept {
  const std::lock_guard guard(lock_);
  EthdevTx& tx = tx_[queue];
  if (tx.stopped) return 0;
  tx.stopped = true;
  MbufTx& q = *tx.queue;
  const TxVisit visit{q};
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + stop_limit; q.head != q.tail && Clock::now() < end;
       (void)reclaim_mbuf_tx(q))
    port_.device().progress();
  if (q.head != q.tail) (void)bring_back_tx(tx);
  q.down.set(true);
  dev_->data->tx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STOPPED;
  return 0;
}

void Ethdev::recover_tx(uint16_t queue) noexcept {
  const std::lock_guard guard(lock_);
  EthdevTx& tx = tx_[queue];
  if (tx.stopped || !tx.retry.due(port::Retry::now_ns())) return;
  if (!bring_back_tx(tx)) return tx.retry.failed(port::Retry::now_ns());
  tx.retry = {};
}

// A try may wait half a second for a device that says nothing (device/recovery.hh).
bool Ethdev::bring_back_tx(EthdevTx& tx) noexcept {
  MbufTx& q = *tx.queue;
  if (!tx.qp || port_.device().lost() || cq_ended(tx.cq)) return false;
  SendSink sink{*q.sq};
  const Status s =
      device::recover(device::Recovery<>{port_.device(), tx.qp->handle, *q.sq, *q.cq}, sink);
  if (!s) return false;
  q.counts->lost.add(empty_mbuf_tx(q));
  q.sq->reset();
  q.sq->release_owner();
  q.cq->release_owner();
  set_longest_frame(q, longest_sent());  // the error may be of a wire that takes less by now
  q.counts->recoveries.add(1);
  q.down.set(false);
  return true;
}

// A number that is no queue's comes to these three as null: librte_ethdev looks at it in debug
// builds alone.
uint32_t waiting_packets(const void* queue) noexcept {
  if (queue == nullptr) return 0;
  const auto& q = *static_cast<const MbufRx*>(queue);
  run_device(q);
  return waiting_mbuf_rx(q, places(q, q.mask + 1));
}

int rx_status(void* queue, uint16_t offset) {
  if (queue == nullptr) return -EINVAL;
  const auto& q = *static_cast<const MbufRx*>(queue);
  if (offset >= places(q, q.mask + 1)) return -EINVAL;
  run_device(q);
  if (offset >= places(q, q.pi - q.ci) - q.strides.used) return RTE_ETH_RX_DESC_UNAVAIL;
  return waiting_mbuf_rx(q, offset + 1u) > offset ? RTE_ETH_RX_DESC_DONE : RTE_ETH_RX_DESC_AVAIL;
}

// Offset 0 is the place of the next packet (rte_ethdev.h, rte_eth_tx_descriptor_status()): packets
// under way lie at the highest offsets.
int tx_status(void* queue, uint16_t offset) {
  if (queue == nullptr) return -EINVAL;
  auto& q = *static_cast<MbufTx*>(queue);
  const TxVisit visit{q};
  if (offset > q.mask) return -EINVAL;
  run_device(q);
  if (q.down) q.port->recover_tx(q.number);
  if (q.down) return RTE_ETH_TX_DESC_UNAVAIL;
  (void)reclaim_mbuf_tx(q);
  const uint32_t free = q.mask + 1 - (q.head - q.tail);
  return offset < free ? RTE_ETH_TX_DESC_DONE : RTE_ETH_TX_DESC_FULL;
}

void empty_mbuf_rx(MbufRx& q) noexcept {
  if (q.strides.log_count != 0) empty_strided(q);
  for (; q.ci != q.pi; q.ci++)
    rte_mempool_put_bulk(
        q.pool, reinterpret_cast<void**>(q.mbufs + std::size_t{q.ci & q.mask} * q.segments),
        q.segments);
  q.pi = q.ci = 0;
  q.block_done = 0;
  record_store(q.record, be32{0});
}

uint32_t waiting_mbuf_rx(const MbufRx& q, uint32_t most) noexcept {
  uint32_t frames = 0, at = 0;
  const uint32_t enough = most + q.block_done;
  for (const prm::Cqe* e; frames < enough && (e = q.cq->peek(at)) != nullptr;) {
    const uint32_t n = queue::Cq::is_error(e->op_own) ? 1 : queue::Cq::completions(*e);
    frames += is_filler(q, *e) ? 0 : n;
    at += n;
  }
  return frames - q.block_done;
}

}  // namespace kilim::net
