// SPDX-License-Identifier: BSD-3-Clause
// Transmit queues of an ethdev: what the application sets up, what is made of it on the device when
// the port starts. What becomes of them then is in ethdev_run.cc.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>

#include <rte_malloc.h>

#include "kilim/detail/queue/eth_packet.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "net/kilim/ethdev.hh"
#include "net/kilim/queue_memory.hh"

namespace kilim::net {
namespace {

constexpr auto drain_limit = std::chrono::milliseconds(200);

}  // namespace

int Ethdev::set_up_tx(uint16_t queue, uint16_t descriptors, const rte_eth_txconf& conf) noexcept {
  const std::lock_guard guard(lock_);
  release_tx(queue);
  EthdevTx& tx = tx_[queue];
  tx.queue = shared_array<MbufTx>(1, dev_->data->numa_node);
  if (tx.queue == nullptr) return refuse({ENOMEM, "no memory for a transmit queue"});
  new (tx.queue) MbufTx{};
  tx.queue->down.set(true);  // until the port starts
  tx.descriptors = descriptors;
  tx.conf = conf;
  tx.conf.offloads = conf.offloads | dev_->data->dev_conf.txmode.offloads;
  dev_->data->tx_queues[queue] = tx.queue;
  return 0;
}

void Ethdev::release_tx(uint16_t queue) noexcept {
  if (queue >= tx_.size() || tx_[queue].queue == nullptr) return;
  drop_tx(tx_[queue]);
  rte_free(tx_[queue].queue);
  tx_[queue].queue = nullptr;
  dev_->data->tx_queues[queue] = nullptr;
}

// A longer frame, or one that is cut into such, would end its queue: the wire's limit, where the
// device tells an MTU, with a header and two tags.
uint32_t Ethdev::longest_sent() noexcept {
  const auto info = port_.device().port(port_.number());
  return info && info->frame_mtu != 0 ? info->frame_mtu + around_mtu : queue::max_frame;
}

int Ethdev::make_tx(uint16_t number) noexcept {
  EthdevTx& tx = tx_[number];
  const uint32_t size = ring_size(tx.descriptors);
  auto cq = device::create_cq(port_.device(), size);
  if (!cq) return refuse(cq.error());
  tx.cq = *std::move(cq);
  auto qp = device::create_raw_packet(
      port_.device(), {.send_cq = tx.cq->handle, .recv_cq = tx.cq->handle, .send_wqebbs = size},
      port_.number());
  if (!qp) return refuse(qp.error());
  tx.qp = *std::move(qp);
  const queue::SqGeometry& geometry = tx.qp->sq;
  const uint32_t cqes = tx.cq->geometry.cqe_count;

  MbufTx& q = *new (tx.queue) MbufTx{};
  const device::TxCaps& caps = port_.device().caps().tx;
  q.counts = &shared_->tx[number];
  tx.wr_ids.assign(geometry.wqebb_count, 0);
  q.sq.emplace(geometry, tx.wr_ids);
  tx.retry = {};
  q.cq.emplace(tx.cq->geometry);
  q.sent = shared_array<rte_mbuf*>(size, dev_->data->numa_node);
  q.ends = shared_array<uint32_t>(cqes, dev_->data->numa_node);
  if (q.sent == nullptr || q.ends == nullptr)
    return refuse({ENOMEM, "no memory for the mbufs of a transmit queue"});
  q.mask = size - 1;
  q.end_mask = cqes - 1;
  q.most = port_.device().caps().multi_packet && args_.multi_packet ? prm::max_ds : 1;
  q.min_inline = args_.inline_min > caps.min_inline ? args_.inline_min : caps.min_inline;
  q.max_inline = tx_.size() < args_.inline_txqs ? 0 : args_.inline_max;
  q.max_tso = caps.max_tso;
  q.max_frame = longest_sent();
  q.plain_least = std::max(q.max_inline + 1, queue::ether_header_bytes);
  q.tags = caps.vlan_insertion;
  q.checksums = caps.checksums;
  q.fast_free = (tx.conf.offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
  q.secondary_dropped = &shared_->secondary_dropped;
  q.keys.use(memory_);
  q.poller = port_.poller();
  q.port = this;
  q.number = number;
  return 0;
}

// What was handed over goes out first, as a card would send it.
void Ethdev::drop_tx(EthdevTx& tx) noexcept {
  if (tx.queue == nullptr) return;
  MbufTx& q = *tx.queue;
  using Clock = std::chrono::steady_clock;
  if (tx.qp && q.ends != nullptr) {
    q.sq->release_owner();
    q.cq->release_owner();
    for (const auto end = Clock::now() + drain_limit;
         q.head != q.tail && !q.down && Clock::now() < end; (void)reclaim_mbuf_tx(q))
      port_.device().progress();
    tx.qp.destroy();  // from here on the device reads no mbuf
    q.counts->lost.add(empty_mbuf_tx(q));
  }
  q.down.set(true);
  tx.qp.destroy();
  tx.cq.destroy();
  rte_free(q.sent);
  rte_free(q.ends);
  q.sent = nullptr;
  q.ends = nullptr;
}

void Ethdev::tell_txq(uint16_t queue, rte_eth_txq_info& info) const noexcept {
  const EthdevTx& tx = tx_[queue];
  info.conf = tx.conf;
  info.nb_desc = tx.descriptors;
  info.queue_state = dev_->data->tx_queue_state[queue];
}

}  // namespace kilim::net
