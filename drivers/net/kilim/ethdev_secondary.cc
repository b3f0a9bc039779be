// SPDX-License-Identifier: BSD-3-Clause
// A Kilim port in a secondary process: statistics, information and captures. Device and queues are
// the primary process's: what a secondary one sends is freed and counted, and it receives nothing.
#include <cerrno>

#include <rte_mbuf.h>

#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

uint16_t receive_none(void*, rte_mbuf**, uint16_t) {
  return 0;
}

// Lcores of several processes count.
uint16_t drop_all(void* queue, rte_mbuf** mbufs, uint16_t count) {
  auto* q = static_cast<MbufTx*>(queue);
  rte_pktmbuf_free_bulk(mbufs, count);
  if (q != nullptr && q->secondary_dropped != nullptr)
    __atomic_fetch_add(q->secondary_dropped, count, __ATOMIC_RELAXED);
  return count;
}

}  // namespace

int attach_secondary(rte_vdev_device& vdev) noexcept {
  rte_eth_dev* const dev = rte_eth_dev_attach_secondary(vdev.device.name);
  if (dev == nullptr) return -ENODEV;
  dev->device = &vdev.device;
  dev->dev_ops = &secondary_ops;
  dev->rx_pkt_burst = receive_none;
  dev->tx_pkt_burst = drop_all;
  rte_eth_dev_probing_finish(dev);
  return 0;
}

}  // namespace kilim::net
