// SPDX-License-Identifier: BSD-3-Clause
// What the device of an ethdev tells beside completions: EAL's thread of alarms reads it ten times
// a second while the port runs, and so does who asks for statistics or the link. Errors of queues
// end in the bursts, which recover them; a completion queue that ran over is logged. Part of
// Ethdev, and never called by a burst.
#include <rte_alarm.h>
#include <rte_log.h>

#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

constexpr uint64_t pause_us = 100'000;  // between two looks

// An overrun ends a completion queue for good: RESET is for queue pairs and work queues alone, and
// both are made with their completion queue (ibv_create_qp(3), ibv_create_wq(3)).
void say_cq_ended(const port::Port& port, const char* way, std::size_t queue) {
  rte_log(
      RTE_LOG_ERR, log_type(),
      "%s: the completion queue of %s queue %zu ran over (IBV_EVENT_CQ_ERR), so the queue stays "
      "down: rte_eth_dev_stop() and rte_eth_dev_start() make it anew\n",
      port.name().c_str(), way, queue);
}

}  // namespace

bool Ethdev::is_lost() noexcept {
  const std::lock_guard guard(lock_);
  return port_.device().lost();
}

void Ethdev::watch_device(bool on) noexcept {
  if (watches_) (void)rte_eal_alarm_cancel(watch, this);
  watches_ = on && rte_eal_alarm_set(pause_us, watch, this) == 0;
}

// Not under the lock while the application is told: it may stop the port.
void Ethdev::watch(void* self) {
  auto& e = *static_cast<Ethdev*>(self);
  rte_eth_dev* const dev = e.dev_;
  const bool tells = dev->data->dev_conf.intr_conf.lsc != 0;
  bool changed = false;
  if (tells) {
    changed = e.update_link(false) == 0;
  } else {
    const std::lock_guard guard(e.lock_);
    e.heed_events();
  }
  if (e.watches_) e.watches_ = rte_eal_alarm_set(pause_us, watch, self) == 0;
  if (changed) rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_INTR_LSC, nullptr);
}

// While the native port runs, its revive() reads the events.
void Ethdev::heed_events() noexcept {
  if (!queues_run_) return;
  device::Device& device = port_.device();
  const device::DeviceEvents now = device.events();
  if (now == heeded_) return;
  told_.cq_overruns += now.cq_overruns - heeded_.cq_overruns;
  told_.queue_errors += now.queue_errors - heeded_.queue_errors;
  told_.port_changes += now.port_changes - heeded_.port_changes;
  const bool overrun = now.cq_overruns != heeded_.cq_overruns;
  const bool moved = now.port_changes != heeded_.port_changes;
  heeded_ = now;
  for (std::size_t i = 0; i < tx_.size(); i++) {
    EthdevTx& tx = tx_[i];
    if (!tx.qp) continue;
    if (moved) set_longest_frame(*tx.queue, longest_sent());
    if (overrun && cq_ended(tx.cq) && !tx.queue->down) say_cq_ended(port_, "transmit", i);
    if (cq_ended(tx.cq) || device.faulted(tx.qp->handle)) tx.queue->down.set(true);
  }
  for (std::size_t i = 0; i < rx_.size(); i++) {
    EthdevRx& rx = rx_[i];
    if (!rx.rwq) continue;
    if (overrun && cq_ended(rx.cq) && !rx.queue->down) say_cq_ended(port_, "receive", i);
    if (cq_ended(rx.cq) || device.faulted(rx.rwq->handle)) rx.queue->down.set(true);
  }
}

}  // namespace kilim::net
