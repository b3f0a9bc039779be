// SPDX-License-Identifier: BSD-3-Clause
// Receive queues of an ethdev: what the application sets up, what is made of it on the device when
// the port starts. What becomes of them then is in ethdev_run.cc.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include <rte_malloc.h>
#include <rte_mempool.h>

#include "kilim/detail/queue/sge.hh"
#include "net/kilim/ethdev.hh"
#include "net/kilim/mbuf_strides.hh"
#include "net/kilim/queue_memory.hh"

namespace kilim::net {
namespace {

// Headers of a joined frame lie in its first mbuf: two VLAN tags, IPv6, TCP with all options (DPDK
// drivers/net/mlx5/mlx5_rxq.c, MLX5_MAX_LRO_HEADER_FIX).
constexpr uint32_t most_headers = around_mtu + 40 + 60;

// Descriptors are mbufs, as in DPDK's mlx5 driver (mlx5_rxq_new()): a scattered receive has
// several.
uint32_t receives_of(const EthdevRx& rx) noexcept {
  const uint32_t n = ring_size(rx.descriptors) / std::bit_ceil(rx.segments);
  return n < port::min_depth ? port::min_depth : n;
}

uint32_t room_of(rte_mempool& pool) noexcept {
  const uint32_t all = rte_pktmbuf_data_room_size(&pool);
  return all > RTE_PKTMBUF_HEADROOM ? all - RTE_PKTMBUF_HEADROOM : 0;
}

uint64_t rearm_of(uint16_t port) noexcept {
  const uint16_t words[4] = {RTE_PKTMBUF_HEADROOM, 1, 1, port};
  uint64_t all;
  std::memcpy(&all, words, sizeof all);
  return all;
}

// What a receive's WQE has besides addresses. One of several packets begins with a segment of its
// own.
void write_receives(MbufRx& q, const queue::RqGeometry& geometry, Lkey key) noexcept {
  if (q.strides.log_count != 0) {
    q.wqes += octoword_bytes;
    for (uint32_t i = 0; i < geometry.wqe_count; i++)
      queue::store_pointer(q.wqes + std::size_t{i} * geometry.stride, 0, stride_bytes(q.strides),
                           key);
    return;
  }
  for (uint32_t i = 0; i < geometry.wqe_count; i++) {
    std::byte* const wqe = geometry.buf + std::size_t{i} * geometry.stride;
    for (uint32_t k = 0; k < q.segments; k++)
      queue::store_pointer(wqe + std::size_t{k} * octoword_bytes, 0, q.room, key);
    if (geometry.stride > q.segments * octoword_bytes)
      queue::store_pointer(wqe + std::size_t{q.segments} * octoword_bytes, 0, 0,
                           Lkey{prm::list_end_lkey});
  }
}

}  // namespace

// 0: frames of so many bytes do not fit.
uint32_t Ethdev::segments_for(rte_mempool& pool, uint64_t offloads, uint32_t bytes) const noexcept {
  const uint32_t room = room_of(pool);
  if (room == 0) return 0;
  if (bytes <= room) return 1;
  if ((offloads & RTE_ETH_RX_OFFLOAD_SCATTER) == 0) return 0;
  const uint32_t n = (bytes + room - 1) / room;
  return n <= most_segments && n <= port_.device().caps().max_sge ? n : 0;
}

// Without a size of its own it is that of a frame (DPDK lib/ethdev/rte_ethdev.c,
// rte_eth_rx_queue_setup()).
uint32_t Ethdev::max_lro_bytes() const noexcept {
  const uint32_t asked = dev_->data->dev_conf.rxmode.max_lro_pkt_size;
  return asked != 0 ? asked : dev_->data->mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
}

// The longest frame that a queue receives, joined ones among them.
uint32_t Ethdev::longest_of(uint64_t offloads, uint32_t mtu) const noexcept {
  const uint32_t frame = mtu + around_mtu;
  return (offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0 ? std::max(frame, max_lro_bytes()) : frame;
}

int Ethdev::check_lro(const EthdevRx& rx) const noexcept {
  if (!joins(rx)) return 0;
  const device::LroCaps& caps = port_.device().caps().lro;
  if (!caps.supported) return refuse({ENOTSUP, "the device joins no TCP segments (LRO)"});
  if (room_of(*rx.pool) < most_headers)
    return refuse({ENOTSUP, "joined TCP segments (LRO) need 122 bytes in the first mbuf"});
  if (caps.units(max_lro_bytes()) == 0)
    return refuse({EINVAL, "max_lro_pkt_size is too small for a unit of 256 bytes"});
  return 0;
}

int Ethdev::size_receives(EthdevRx& rx) const noexcept {
  if (const int e = check_lro(rx); e != 0) return e;
  const uint32_t mtu = dev_->data->mtu;
  rx.of_frame = segments_for(*rx.pool, rx.conf.offloads, mtu + around_mtu);
  rx.segments = segments_for(*rx.pool, rx.conf.offloads, longest_of(rx.conf.offloads, mtu));
  if (rx.segments != 0) return 0;
  return refuse({EINVAL, rx.of_frame == 0
                             ? "a frame of the MTU does not fit into the mbufs of a receive: "
                               "larger mbufs, RTE_ETH_RX_OFFLOAD_SCATTER, or a smaller MTU"
                             : "max_lro_pkt_size does not fit into the mbufs of a receive: "
                               "larger mbufs, RTE_ETH_RX_OFFLOAD_SCATTER, or a smaller size"});
}

// What a queue takes of joined TCP segments: no frame is longer than its receives have room for.
device::Lro Ethdev::lro_of(const EthdevRx& rx) const noexcept {
  if (!joins(rx)) return {};
  const MbufRx& q = *rx.queue;
  const uint32_t room = q.strides.log_count != 0 ? stride_bytes(q.strides) : q.room * q.segments;
  return {.max_bytes = std::min(room, max_lro_bytes()), .timeout_us = args_.lro_timeout_us};
}

int Ethdev::set_up_rx(uint16_t queue, uint16_t descriptors, const rte_eth_rxconf& conf,
                      rte_mempool& pool) noexcept {
  const std::lock_guard guard(lock_);
  release_rx(queue);
  EthdevRx& rx = rx_[queue];
  rx.pool = &pool;
  rx.conf = conf;
  rx.conf.offloads = conf.offloads | dev_->data->dev_conf.rxmode.offloads;
  if (const int e = size_receives(rx); e != 0) return e;
  if (Status s = memory_.add_pool(pool); !s) return refuse(s.error());
  rx.queue = shared_array<MbufRx>(1, dev_->data->numa_node);
  if (rx.queue == nullptr) return refuse({ENOMEM, "no memory for a receive queue"});
  new (rx.queue) MbufRx{};
  rx.descriptors = descriptors;
  dev_->data->rx_queues[queue] = rx.queue;
  return 0;
}

void Ethdev::release_rx(uint16_t queue) noexcept {
  if (queue >= rx_.size() || rx_[queue].queue == nullptr) return;
  drop_rx(rx_[queue]);
  rte_free(rx_[queue].queue);
  rx_[queue].queue = nullptr;
  dev_->data->rx_queues[queue] = nullptr;
}

// Descriptors are strides then.
uint32_t Ethdev::strided_receives_of(const EthdevRx& rx) const noexcept {
  const uint32_t n = ring_size(rx.descriptors) >> args_.log_strides;
  return n < 2 ? 2 : n;
}

int Ethdev::make_rx(uint16_t number) noexcept {
  EthdevRx& rx = rx_[number];
  const bool strided = strides();
  const uint32_t wqes = strided ? strided_receives_of(rx) : receives_of(rx);
  const bool compressed = compresses();
  const auto compression = compressed ? device::Compression::hash : device::Compression::none;
  auto cq = device::create_cq(port_.device(), {.entries = strided      ? wqes << args_.log_strides
                                                          : compressed ? 2 * wqes - 1
                                                                       : wqes,
                                               .channel = dev_->data->dev_conf.intr_conf.rxq != 0,
                                               .compression = compression});
  if (!cq) return refuse(cq.error());
  rx.cq = *std::move(cq);
  const bool strip = (rx.conf.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
  std::optional<device::Strides> cut;
  if (strided) cut = {.log_bytes = args_.log_stride_bytes, .log_count = args_.log_strides};
  auto rwq = device::create_rwq(port_.device(), {.cq = rx.cq->handle,
                                                 .recv_wrs = wqes,
                                                 .max_recv_sge = rx.segments,
                                                 .strip_vlan = strip,
                                                 .strides = cut});
  if (!rwq) return refuse(rwq.error());
  rx.rwq = *std::move(rwq);
  rx.retry = {};
  const queue::RqGeometry& geometry = rx.rwq->rq;

  MbufRx& q = *new (rx.queue) MbufRx{};
  q.counts = &shared_->rx[number];
  q.cq.emplace(rx.cq->geometry);
  q.mbufs =
      shared_array<rte_mbuf*>(std::size_t{geometry.wqe_count} * rx.segments, dev_->data->numa_node);
  if (q.mbufs == nullptr) return refuse({ENOMEM, "no memory for the mbufs of a receive queue"});
  q.wqes = geometry.buf;
  q.record = geometry.record;
  q.pool = rx.pool;
  q.rearm = rearm_of(dev_->data->port_id);
  q.base_flags = (rte_pktmbuf_priv_flags(rx.pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0
                     ? RTE_MBUF_F_EXTERNAL
                     : 0;
  q.mask = geometry.wqe_count - 1;
  q.stride = geometry.stride;
  q.segments = rx.segments;
  q.headroom = RTE_PKTMBUF_HEADROOM;
  q.room = room_of(*rx.pool);
  q.mini_hash = true;
  q.stamp_offset = (rx.conf.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0 ? stamp_offset_ : -1;
  q.stamp_flag = stamp_flag_;
  q.keys.use(memory_);
  q.poller = port_.poller();
  q.port = this;
  q.number = number;
  if (strided)
    if (const int e = make_strides(rx, q); e != 0) return e;
  const KeySpan pool = memory_.whole(strided ? *rx.stride_pool : *rx.pool);
  q.one_key = pool.bytes != 0;
  if (strided && !q.one_key)
    return refuse({ENOTSUP, "the memory of receives of several packets is not in one piece"});
  write_receives(q, geometry, pool.key);
  return 0;
}

void Ethdev::drop_rx(EthdevRx& rx) noexcept {
  if (rx.queue == nullptr) return;
  MbufRx& q = *rx.queue;
  if (rx.rwq && q.mbufs != nullptr) halt_rx(rx);
  q.down.set(true);
  rx.rwq.destroy();
  rx.cq.destroy();
  rte_free(q.mbufs);
  q.mbufs = nullptr;
  rte_free(q.strides.buffers);
  q.strides.buffers = nullptr;
  give_up_stride_pool(rx.stride_pool);
  rx.stride_pool = nullptr;
}

void Ethdev::tell_rxq(uint16_t queue, rte_eth_rxq_info& info) const noexcept {
  const EthdevRx& rx = rx_[queue];
  info.mp = rx.pool;
  info.conf = rx.conf;
  info.scattered_rx = rx.segments > 1;
  info.queue_state = dev_->data->rx_queue_state[queue];
  info.nb_desc = rx.descriptors;
  info.rx_buf_size = static_cast<uint16_t>(room_of(*rx.pool));
}

}  // namespace kilim::net
