// SPDX-License-Identifier: BSD-3-Clause
// Which bursts an ethdev has, and its receive interrupts. A queue that takes tags, marks or times
// makes all queues of its port use the burst that looks for them, as ethdev has one function a
// port.
#include <algorithm>
#include <cerrno>

#include <rte_interrupts.h>
#include <rte_malloc.h>

#include "net/kilim/ethdev_ops_abi.hh"
#include "net/kilim/mbuf_strides.hh"

namespace kilim::net {
namespace {

uint16_t no_packets(void*, rte_mbuf**, uint16_t) {
  return 0;
}

}  // namespace

// Completions that share entries are not of receives of several mbufs, nor of joined TCP segments
// (DPDK drivers/net/mlx5/mlx5_devx.c, mlx5_rxq_create_devx_cq_resources()).
bool Ethdev::compresses() const noexcept {
  if (args_.compress == 0) return false;
  for (const EthdevRx& rx : rx_)
    if (rx.segments > 1 || joins(rx)) return false;
  return true;
}

// Says whether receives hold several packets: with enough queues, as in DPDK's mlx5 driver
// (mlx5_rxq.c, mlx5_mprq_enabled()); never for frames that take several mbufs, nor for mbufs whose
// buffers are elsewhere already.
bool Ethdev::strides() const noexcept {
  if (args_.strided == 0 || rx_.size() < args_.strided_rxqs) return false;
  return std::all_of(rx_.begin(), rx_.end(), [](const EthdevRx& rx) {
    return rx.of_frame == 1 && rx.pool != nullptr &&
           (rte_pktmbuf_priv_flags(rx.pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) == 0;
  });
}

int Ethdev::check_strides() const noexcept {
  const device::SpreadCaps& caps = port_.device().caps().spread;
  if (caps.max_strides_log == 0)
    return refuse({ENOTSUP, "mprq_en=1: the device has no receives of several packets"});
  if (args_.log_strides < caps.min_strides_log || args_.log_strides > caps.max_strides_log ||
      args_.log_stride_bytes < caps.min_stride_log_bytes ||
      args_.log_stride_bytes > caps.max_stride_log_bytes)
    return refuse(
        {EINVAL, "mprq_log_stride_num= or mprq_log_stride_size= is beyond the device's limits"});
  return 0;
}

// Four times as many buffers as are posted: how many wait in the application nobody knows
// (mlx5_rxq.c, mlx5_mprq_alloc_mp()). When they are short, packets are copied.
int Ethdev::make_strides(EthdevRx& rx, MbufRx& q) noexcept {
  const int node = dev_->data->numa_node;
  const uint32_t receives = q.mask + 1;
  MbufStrides& s = q.strides;
  s.log_bytes = static_cast<uint8_t>(args_.log_stride_bytes);
  s.log_count = static_cast<uint8_t>(args_.log_strides);
  s.copied = args_.copied;
  s.chains = (rx.conf.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
  s.buffers = static_cast<StrideBuffer**>(
      rte_zmalloc_socket("kilim_queue", receives * sizeof(void*), RTE_CACHE_LINE_SIZE, node));
  rx.stride_pool = s.pool = make_stride_pool(4 * receives + 1, stride_bytes(s), node);
  if (s.buffers == nullptr || s.pool == nullptr)
    return refuse({ENOMEM, "no memory for receives of several packets (mprq_en)"});
  if (Status added = memory_.add_pool(*s.pool); !added) return refuse(added.error());
  return 0;
}

RxForm Ethdev::form_of(uint16_t queue) const noexcept {
  const EthdevRx& rx = rx_[queue];
  const uint64_t looks = RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_TIMESTAMP;
  return {.extra = marks_ || tunnels_ || (rx.conf.offloads & looks) != 0,
          .scattered = rx.segments > 1,
          .compressed = compresses(),
          .strided = strides(),
          .lro = joins(rx)};
}

// A port's queues may differ: each form does what the ones before it do, for receives of one mbuf
// or several. Receives of one mbuf are scattered ones with one segment, but for their refill.
RxForm Ethdev::form() const noexcept {
  RxForm form;
  for (uint16_t q = 0, n = static_cast<uint16_t>(rx_.size()); q < n; q++) {
    const RxForm f = form_of(q);
    form.extra = form.extra || f.extra;
    form.scattered = form.scattered || f.scattered;
    form.compressed = form.compressed || f.compressed;
    form.strided = form.strided || f.strided;
    form.lro = form.lro || f.lro;
  }
  form.scattered = form.scattered || (form.lro && !form.strided);
  form.extra = form.extra || form.scattered || form.compressed || form.strided;
  return form;
}

void Ethdev::choose_bursts() noexcept {
  if (dev_ == nullptr || !queues_run_) return;
  dev_->rx_pkt_burst = select_mbuf_rx(form(), polled());
  dev_->tx_pkt_burst = select_mbuf_tx(polled());
  dev_->tx_pkt_prepare = prepare_mbuf_tx;
  dev_->rx_queue_count = count_rx<>;
  dev_->rx_descriptor_status = rx_status;
  dev_->tx_descriptor_status = tx_status;
  // Lcores of a started port call what stands here; rte_eth_dev_start() copies it otherwise.
  struct rte_eth_fp_ops& fast = ::rte_eth_fp_ops[dev_->data->port_id];
  if (dev_->data->dev_started == 0 || fast.rx_pkt_burst == nullptr) return;
  __atomic_store_n(&fast.rx_pkt_burst, dev_->rx_pkt_burst, __ATOMIC_RELEASE);
}

void Ethdev::forget_bursts() noexcept {
  queues_run_ = false;
  dev_->rx_pkt_burst = no_packets;
  dev_->tx_pkt_burst = no_packets;
}

int Ethdev::start_interrupts() noexcept {
  rte_intr_handle* const h = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (h == nullptr) return refuse({ENOMEM, "no memory for receive interrupts"});
  dev_->intr_handle = h;
  const int n = static_cast<int>(rx_.size());
  // The type says that each queue has a vector of its own (DPDK lib/eal/linux/ eal_interrupts.c,
  // rte_intr_cap_multiple()): the event adapter gives all queues one otherwise.
  if (rte_intr_vec_list_alloc(h, nullptr, n) != 0 ||
      rte_intr_type_set(h, RTE_INTR_HANDLE_VDEV) != 0)
    return refuse({ENOMEM, "no memory for receive interrupts"});
  for (int i = 0; i < n; i++) {
    const int fd = rx_[static_cast<std::size_t>(i)].cq->events.fd;
    if (rte_intr_vec_list_index_set(h, i, RTE_INTR_VEC_RXTX_OFFSET + i) != 0 ||
        rte_intr_efds_index_set(h, i, fd) != 0)
      return refuse({EINVAL, "more receive queues than ethdev has interrupts for"});
  }
  if (rte_intr_nb_efd_set(h, n) != 0) return refuse({EINVAL, "too many receive interrupts"});
  return 0;
}

void Ethdev::stop_interrupts() noexcept {
  rte_intr_handle* const h = dev_->intr_handle;
  if (h == nullptr) return;
  rte_intr_free_epoll_fd(h);
  rte_intr_vec_list_free(h);
  rte_intr_instance_free(h);
  dev_->intr_handle = nullptr;
}

int Ethdev::enable_interrupt(uint16_t queue, bool on) noexcept {
  EthdevRx& rx = rx_[queue];
  if (rx.cq->events.fd < 0 || rx.stopped)
    return refuse({EINVAL, "the receive queue has no interrupt: intr_conf.rxq was not set"});
  const uint32_t seen = rx.cq->events.read();
  if (!on) {
    rx.events_seen += seen;
    return 0;
  }
  rx.queue->cq->arm(rx.events_seen + seen);
  rx.events_seen = 0;
  return 0;
}

}  // namespace kilim::net
