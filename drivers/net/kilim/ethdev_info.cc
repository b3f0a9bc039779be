// SPDX-License-Identifier: BSD-3-Clause
// What an ethdev tells of its port: limits, offloads, packet types, how its bursts work.
#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "kilim/detail/burst/tx_packet.hh"
#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

constexpr uint32_t longest_mtu = 9978;  // what mlx5's interfaces take at most (ip -d link: maxmtu)

// The longest joined frame (drivers/net/mlx5/mlx5.h, MLX5_MAX_LRO_SIZE).
constexpr uint32_t longest_lro = device::LroCaps::max_units * device::LroCaps::unit_bytes;

uint64_t rx_capabilities(const device::Caps& caps) noexcept {
  return RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_RSS_HASH | RTE_ETH_RX_OFFLOAD_TIMESTAMP |
         RTE_ETH_RX_OFFLOAD_VLAN_FILTER | RTE_ETH_RX_OFFLOAD_SCATTER |
         (caps.spread.strip_vlan ? RTE_ETH_RX_OFFLOAD_VLAN_STRIP : 0);
}

uint64_t tx_capabilities(const device::TxCaps& caps) noexcept {
  const uint64_t checksums =
      RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
  return RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE |
         RTE_ETH_TX_OFFLOAD_VLAN_INSERT | (caps.checksums ? checksums : 0) |
         (caps.max_tso != 0 ? RTE_ETH_TX_OFFLOAD_TCP_TSO : 0);
}

uint32_t speed_capability(uint32_t mbps) noexcept {
  return rte_eth_speed_bitflag(mbps, 0);
}

}  // namespace

int Ethdev::fill_info(rte_eth_dev_info& info) noexcept {
  const device::Caps& caps = port_.device().caps();
  const uint32_t mtu = port_.info().frame_mtu;
  info.min_mtu = RTE_ETHER_MIN_MTU;
  info.max_mtu = static_cast<uint16_t>(mtu > longest_mtu ? mtu : longest_mtu);
  info.min_rx_bufsize = 64;
  info.max_rx_pktlen = info.max_mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
  info.max_rx_queues = port::max_rxq;
  info.max_tx_queues = port::max_txq;
  info.max_mac_addrs = flow::max_filter_macs;
  info.rx_offload_capa = info.rx_queue_offload_capa = rx_capabilities(caps);
  info.rx_queue_offload_capa &= ~uint64_t{RTE_ETH_RX_OFFLOAD_VLAN_FILTER};
  if (caps.lro.supported && port_.number() == 1) {       // as the device makes its TIRs
    info.rx_offload_capa |= RTE_ETH_RX_OFFLOAD_TCP_LRO;  // of all queues: port::lro_of_all()
    info.max_lro_pkt_size = longest_lro;
  }
  info.tx_offload_capa = tx_capabilities(caps.tx);
  info.tx_queue_offload_capa = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  info.reta_size = reta_entries;
  info.hash_key_size = flow::hash_key_bytes;
  info.flow_type_rss_offloads = all_rss_hf | rss_levels_of(caps);
  info.rx_desc_lim = {static_cast<uint16_t>(port::max_depth), port::min_depth, 1,
                      static_cast<uint16_t>(std::min(caps.max_sge, most_segments)), 0};
  info.tx_desc_lim = {static_cast<uint16_t>(port::max_depth), port::min_depth, 1, burst::max_pieces,
                      burst::max_pieces};
  info.default_rxportconf = {32, static_cast<uint16_t>(args_.rxd),
                             static_cast<uint16_t>(args_.rxq)};
  info.default_txportconf = {32, static_cast<uint16_t>(args_.txd),
                             static_cast<uint16_t>(args_.txq)};
  info.speed_capa = speed_capability(port_.info().speed_mbps);
  info.dev_capa = 0;
  return 0;
}

std::span<const uint32_t> packet_types() noexcept {
  static constexpr uint32_t types[] = {RTE_PTYPE_L2_ETHER,
                                       RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
                                       RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
                                       RTE_PTYPE_L4_NONFRAG,
                                       RTE_PTYPE_L4_FRAG,
                                       RTE_PTYPE_L4_TCP,
                                       RTE_PTYPE_L4_UDP,
                                       RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN,
                                       RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN,
                                       RTE_PTYPE_INNER_L4_NONFRAG,
                                       RTE_PTYPE_INNER_L4_FRAG,
                                       RTE_PTYPE_INNER_L4_TCP,
                                       RTE_PTYPE_INNER_L4_UDP,
                                       RTE_PTYPE_UNKNOWN};
  return types;
}

int tell_rx_mode(rte_eth_dev* dev, uint16_t, rte_eth_burst_mode* mode) {
  const RxForm f = ethdev_of(dev).form();
  (void)std::snprintf(mode->info, sizeof mode->info, "%s%s%s%s",
                      f.scattered    ? "Scattered"
                      : f.compressed ? "Compressed completions"
                      : f.strided    ? "Several packets a receive (MPRQ)"
                                     : "Scalar",
                      f.extra ? " with tags, marks, times, tunnels" : "",
                      f.lro ? ", joined TCP segments (LRO)" : "",
                      dev->rx_pkt_burst == select_mbuf_rx(f, true) ? ", runs the device" : "");
  return 0;
}
int tell_tx_mode(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) {
  const auto* q = static_cast<const MbufTx*>(dev->data->tx_queues[queue]);
  if (q == nullptr) return -EINVAL;  // librte_ethdev does not look whether it is set up
  (void)std::snprintf(mode->info, sizeof mode->info, "%s",
                      q->most > 1 ? "Several packets a WQE" : "A packet a WQE");
  return 0;
}

}  // namespace kilim::net
