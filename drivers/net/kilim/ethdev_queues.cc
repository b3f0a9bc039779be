// SPDX-License-Identifier: BSD-3-Clause
// The queues of an ethdev together: made on the device when the port starts, and given up when it
// stops. Each by itself: ethdev_rxq.cc, ethdev_txq.cc.
#include <algorithm>
#include <cerrno>

#include "net/kilim/ethdev.hh"

namespace kilim::net {

int Ethdev::make_queues() noexcept {
  std::vector<port::RxTarget> targets;
  for (std::size_t i = 0; i < rx_.size(); i++) {
    if (rx_[i].queue == nullptr) return refuse({EINVAL, "a receive queue is not set up"});
    if (const int e = size_receives(rx_[i]); e != 0) return e;
  }
  if (strides())  // where frames lie is divided otherwise
    for (EthdevRx& rx : rx_) rx.segments = 1;
  dev_->data->lro = std::any_of(rx_.begin(), rx_.end(), joins) ? 1 : 0;
  for (const EthdevTx& tx : tx_)
    if (tx.queue == nullptr) return refuse({EINVAL, "a transmit queue is not set up"});
  for (std::size_t i = 0; i < rx_.size(); i++) {
    if (const int e = make_rx(static_cast<uint16_t>(i)); e != 0) return e;
    targets.push_back({rx_[i].rwq->handle, lro_of(rx_[i])});
  }
  for (std::size_t i = 0; i < tx_.size(); i++) {
    if (const int e = make_tx(static_cast<uint16_t>(i)); e != 0) return e;
    tx_[i].stopped = tx_[i].conf.tx_deferred_start != 0;
    tx_[i].queue->down.set(tx_[i].stopped);
    dev_->data->tx_queue_state[i] =
        tx_[i].stopped ? RTE_ETH_QUEUE_STATE_STOPPED : RTE_ETH_QUEUE_STATE_STARTED;
  }
  for (std::size_t i = 0; i < rx_.size(); i++) {
    rx_[i].stopped = rx_[i].conf.rx_deferred_start != 0;
    rx_[i].queue->down.set(rx_[i].stopped);
    if (!rx_[i].stopped)
      if (const int e = run_rx(rx_[i]); e != 0) return e;
    dev_->data->rx_queue_state[i] =
        rx_[i].stopped ? RTE_ETH_QUEUE_STATE_STOPPED : RTE_ETH_QUEUE_STATE_STARTED;
  }
  if (targets.empty()) return 0;
  if (Status s = port_.start_for(targets, filter_of(), rss_, port_.device().caps().tx.tunnels); !s)
    return refuse(s.error());
  return 0;
}

void Ethdev::drop_queues() noexcept {
  for (std::size_t i = 0; i < rx_.size(); i++) {
    drop_rx(rx_[i]);
    dev_->data->rx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
  }
  for (std::size_t i = 0; i < tx_.size(); i++) {
    drop_tx(tx_[i]);
    dev_->data->tx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
  }
}

}  // namespace kilim::net
