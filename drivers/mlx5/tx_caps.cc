// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/tx_caps.hh"

#include <memory>
#include <optional>

#include <infiniband/mlx5dv.h>

#include "kilim/prm/hca_cap.hh"
#include "mlx5/firmware.hh"

namespace kilim::mlx5 {
namespace {

constexpr uint32_t of_raw_packets = 1u << IBV_QPT_RAW_PACKET;
constexpr uint32_t ethernet_bytes = 18, ip_bytes = 40, tcp_bytes = 20;
constexpr uint32_t udp_bytes = 8, vxlan_bytes = 8;

void read_verbs(ibv_context* context, device::TxCaps& tx, uint32_t& pci_device) {
  ibv_device_attr_ex ex{};
  if (ibv_query_device_ex(context, nullptr, &ex) != 0) return;
  pci_device = ex.orig_attr.vendor_part_id;
  tx.checksums = (ex.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM) != 0;
  if ((ex.tso_caps.supported_qpts & of_raw_packets) != 0) tx.max_tso = ex.tso_caps.max_tso;
  const ibv_packet_pacing_caps& pacing = ex.packet_pacing_caps;
  tx.pacing = (pacing.supported_qpts & of_raw_packets) != 0 && pacing.qp_rate_limit_max != 0;
}

void read_tunnels(ibv_context* context, device::TxCaps& tx) {
  constexpr uint32_t both =
      MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN | MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE;
  mlx5dv_context dv{};
  dv.comp_mask = MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS;
  tx.tunnels = mlx5dv_query_device(context, &dv) == 0 &&
               (dv.comp_mask & MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS) != 0 &&
               (dv.tunnel_offloads_caps & both) == both;
}

// Linux vport.c, mlx5_query_min_inline().
uint32_t min_inline(ibv_context* context, const HcaCap& group) {
  constexpr uint32_t by_context = 1, not_required = 2;
  const uint32_t mode = prm::cap_get(group, prm::eth_cap::wqe_inline_mode);
  if (mode == not_required) return 0;
  const std::optional<uint32_t> told =
      mode == by_context ? query_inline_mode(context) : std::optional<uint32_t>{};
  return told ? inlined_bytes(*told) : ethernet_bytes;
}

}  // namespace

uint32_t inlined_bytes(uint32_t mode) noexcept {
  constexpr uint32_t of_headers[] = {0, ethernet_bytes, ethernet_bytes + ip_bytes,
                                     ethernet_bytes + ip_bytes + tcp_bytes};
  if (mode <= 3) return of_headers[mode];
  // Modes 5 to 7: the same three behind the headers of a tunnel.
  constexpr uint32_t tunnel = ethernet_bytes + ip_bytes + udp_bytes + vxlan_bytes;
  return tunnel + of_headers[mode & 3];
}

uint32_t inlined_bytes_of_card(uint32_t pci_device) noexcept {
  constexpr uint32_t connectx4 = 0x1013, connectx4_lx_vf = 0x1016;
  return pci_device >= connectx4 && pci_device <= connectx4_lx_vf ? ethernet_bytes : 0;
}

device::TxCaps read_tx_caps(ibv_context* context) {
  device::TxCaps tx;
  uint32_t pci_device = 0;
  read_verbs(context, tx, pci_device);
  read_tunnels(context, tx);
  auto group = std::make_unique<HcaCap>();
  if (query_hca_cap(context, prm::cmd::cap_ethernet, *group)) {
    tx.vlan_insertion = prm::cap_get(*group, prm::eth_cap::wqe_vlan_insert) != 0;
    tx.min_inline = min_inline(context, *group);
  } else {
    tx.min_inline = inlined_bytes_of_card(pci_device);
  }
  return tx;
}

}  // namespace kilim::mlx5
