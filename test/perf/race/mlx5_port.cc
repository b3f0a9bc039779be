// SPDX-License-Identifier: BSD-3-Clause
#include "perf/race/mlx5_port.hh"

#include <cstring>

#include <rte_mbuf.h>

#include "kilim/prm/data_seg.hh"

namespace kilim::race {
namespace {

uint16_t find_port(const char* driver) {
  rte_eth_dev_info info;
  for (uint16_t p = 0; p < RTE_MAX_ETHPORTS; p++) {
    if (rte_eth_dev_is_valid_port(p) != 0 && rte_eth_dev_info_get(p, &info) == 0 &&
        std::strstr(info.driver_name, driver) != nullptr)
      return p;
  }
  return RTE_MAX_ETHPORTS;
}

// What a port is asked for, as far as its driver offers it.
rte_eth_conf wishes(const rte_eth_dev_info& info, uint64_t tx_offloads) {
  rte_eth_conf conf{};
  conf.rxmode.offloads =
      (RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_RSS_HASH) & info.rx_offload_capa;
  conf.txmode.offloads = tx_offloads & info.tx_offload_capa;
  conf.rx_adv_conf.rss_conf.rss_hf =
      (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) & info.flow_type_rss_offloads;
  if (conf.rx_adv_conf.rss_conf.rss_hf != 0) conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  return conf;
}

}  // namespace

std::string start_port(uint16_t port, rte_mempool* pool, uint64_t tx_offloads) {
  rte_eth_dev_info info;
  if (rte_eth_dev_info_get(port, &info) != 0) return "the port tells nothing of itself";
  const rte_eth_conf conf = wishes(info, tx_offloads);
  if (rte_eth_dev_configure(port, 1, 1, &conf) != 0) return "the port cannot be configured";
  rte_eth_rxconf rx = info.default_rxconf;
  rte_eth_txconf tx = info.default_txconf;
  rx.offloads = conf.rxmode.offloads;
  tx.offloads = conf.txmode.offloads;
  const auto node = static_cast<unsigned>(rte_eth_dev_socket_id(port));
  if (rte_eth_rx_queue_setup(port, 0, ring, node, &rx, pool) != 0 ||
      rte_eth_tx_queue_setup(port, 0, ring, node, &tx) != 0 || rte_eth_dev_start(port) != 0)
    return "the port's queues cannot be made";
  if (rte_eth_fp_ops[port].tx_pkt_burst == nullptr)
    return "the driver has no transmit function for these offloads";
  return "";
}

std::string Mlx5Port::open(uint64_t tx_offloads) {
  number_ = find_port("mlx5");
  if (number_ == RTE_MAX_ETHPORTS)
    return "no port of net_mlx5: start it with kilim-vhca --pci -- ... -a 0000:81:00.0";
  pool_ = rte_mempool_lookup("race_mlx5");
  if (pool_ == nullptr)
    pool_ = rte_pktmbuf_pool_create("race_mlx5", pool_mbufs, pool_cache, 0,
                                    RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool_ == nullptr) return "no memory for a mempool";
  if (std::string why = start_port(number_, pool_, tx_offloads); !why.empty()) return why;
  rx_ = static_cast<Mlx5RxQueue*>(rte_eth_fp_ops[number_].rxq.data[0]);
  tx_ = static_cast<Mlx5TxQueue*>(rte_eth_fp_ops[number_].txq.data[0]);
  if (std::string why = check_rx(); !why.empty()) return why;
  if (std::string why = check_tx(); !why.empty()) return why;
  redirect();
  return "";
}

// The driver frees the mbufs of both queues with them.
Mlx5Port::~Mlx5Port() {
  if (number_ != RTE_MAX_ETHPORTS) (void)rte_eth_dev_stop(number_);
}

// Each member that the race uses says something that is known from elsewhere.
std::string Mlx5Port::check_rx() const {
  const Mlx5RxQueue& q = *rx_;
  const uint64_t bits = q.bits;
  if (q.port != number_ || q.pool != pool_ || rxq_bits::log_mbufs(bits) != 10)
    return "net_mlx5's receive queue has another layout: port, mempool or size";
  if (rxq_bits::log_segments(bits) != 0 || rxq_bits::checksums(bits) != 1 ||
      rxq_bits::hash(bits) != 1)
    return "net_mlx5's receive queue was made otherwise: segments, checksums or hash";
  if (q.record->host() != q.rq_ci || q.rq_ci != ring)
    return "net_mlx5's receive queue has another layout: its doorbell record";
  for (uint32_t i = 0; i < ring; i++) {
    const auto& wqe = reinterpret_cast<const prm::DataSeg*>(q.wqes)[i];
    const rte_mbuf& m = *q.mbufs[i];
    if (m.pool != pool_ ||
        wqe.addr.host() != reinterpret_cast<uint64_t>(m.buf_addr) + RTE_PKTMBUF_HEADROOM)
      return "net_mlx5's receive queue has another layout: WQEs or mbufs";
  }
  for (uint32_t i = 0; i < 1u << rxq_bits::log_cqes(bits); i++)
    if (reinterpret_cast<const prm::Cqe*>(q.cqes)[i].op_own >> 4 != prm::cqe::invalid_op_own >> 4)
      return "net_mlx5's receive queue has another layout: CQEs";
  return "";
}

std::string Mlx5Port::check_tx() const {
  const Mlx5TxQueue& q = *tx_;
  if (q.port != number_ || q.number != 0 || q.mbuf_count != ring || q.mbuf_mask != ring - 1)
    return "net_mlx5's send queue has another layout: port, number or size";
  if (q.wqes_end - q.wqes != 64 * q.wqe_count || q.wqe_mask != q.wqe_count - 1)
    return "net_mlx5's send queue has another layout: WQEs";
  if (q.cqe_mask != q.cqe_count - 1 || q.record->host() != 0 || q.packets != 0)
    return "net_mlx5's send queue has another layout: records or statistics";
  for (uint32_t i = 0; i < q.cqe_count; i++)
    if (reinterpret_cast<const prm::Cqe*>(q.cqes)[i].op_own >> 4 != prm::cqe::invalid_op_own >> 4)
      return "net_mlx5's send queue has another layout: CQEs";
  return "";
}

void Mlx5Port::redirect() noexcept {
  rings_.rq = {rx_->wqes, ring, sizeof(prm::DataSeg), rx_->record};
  rings_.rx_cq = {rx_->cqes, 1u << rxq_bits::log_cqes(rx_->bits), sizeof(prm::Cqe), rx_->cq_record,
                  Cqn{1}};
  tx_->record = &send_record_;
  tx_->doorbell = &doorbell_;
  rings_.sq = {tx_->wqes, tx_->wqe_count, &send_record_, reinterpret_cast<std::byte*>(&doorbell_),
               Qpn{tx_->sqn_shifted >> 8}};
  rings_.tx_cq = {tx_->cqes, tx_->cqe_count, sizeof(prm::Cqe), tx_->cq_record, Cqn{2}};
}

std::string Mlx5Port::bursts() const {
  rte_eth_burst_mode rx{}, tx{};
  (void)rte_eth_rx_burst_mode_get(number_, 0, &rx);
  (void)rte_eth_tx_burst_mode_get(number_, 0, &tx);
  return std::string(rx.info) + ", " + tx.info;
}

}  // namespace kilim::race
