// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/caps.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include <infiniband/mlx5dv.h>

#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/hca_cap.hh"
#include "mlx5/firmware.hh"
#include "mlx5/tir.hh"
#include "mlx5/tx_caps.hh"

namespace kilim::mlx5 {
namespace {

// Entries of a list in a WQE of so many bytes: a list is padded to a multiple of four.
constexpr uint32_t inline_klms_of(uint32_t wqe_bytes) noexcept {
  const uint32_t octowords = wqe_bytes / octoword_bytes;
  return octowords < umr::umr_head_octowords ? 0 : (octowords - umr::umr_head_octowords) / 4 * 4;
}

// Takes the capabilities of UMR, atomics, inline receive and signatures from the group.
void read_umr(const HcaCap& group, device::Caps& caps) {
  auto get = [&group](prm::CapField f) { return prm::cap_get(group, f); };
  caps.umr = get(prm::hca_cap::umr_indirect_mkey_disabled) == 0;
  const uint32_t fence = get(prm::hca_cap::umr_fence);
  caps.umr_fence = fence == 2   ? prm::UmrFence::none
                   : fence == 1 ? prm::UmrFence::small
                                : prm::UmrFence::strong;
  caps.max_indirection = get(prm::hca_cap::max_indirection);
  caps.umr_extended_offset = get(prm::hca_cap::umr_extended_translation_offset) != 0;
  // Without the extended offset the last WQE of a chain begins at entry 65,535 at most, so two WQEs
  // are the longest chain (umr/pointer_wqe.hh).
  const uint32_t entries = 1u << std::min(get(prm::hca_cap::log_max_klm_list_size), 24u);
  const uint32_t reach = prm::umr::chained_list_octowords + prm::umr::max_list_octowords;
  caps.max_key_entries = caps.umr_extended_offset ? entries : std::min(entries, reach);
  if (const uint32_t bytes = get(prm::hca_cap::max_wqe_sz_sq); bytes != 0)
    caps.max_send_wqe = bytes;
  caps.max_inline_klms =
      std::min({umr::max_inline_klms, caps.max_key_entries, inline_klms_of(caps.max_send_wqe)});
  caps.umr_pointer_list = get(prm::hca_cap::umr_ptr_rlkey) != 0;
  caps.repeated_block = get(prm::hca_cap::repeated_block_disabled) == 0;
  caps.umr_entity_size = get(prm::hca_cap::umr_modify_entity_size_disabled) == 0;
  caps.umr_atomic =
      get(prm::hca_cap::atomic) != 0 && get(prm::hca_cap::umr_modify_atomic_disabled) == 0;
  caps.atomics = get(prm::hca_cap::atomic) != 0;
  caps.inline_receive = get(prm::hca_cap::sctr_data_cqe) != 0;
  caps.signatures =
      get(prm::hca_cap::sho) != 0 && get(prm::hca_cap::sigerr_domain_and_sig_type) != 0;
  caps.big_endian_tweak = get(prm::hca_cap::aes_xts_multi_block_be_tweak) != 0;
  caps.encryption =
      get(prm::hca_cap::crypto) != 0 &&
      (caps.big_endian_tweak || get(prm::hca_cap::aes_xts_single_block_le_tweak) != 0);
  caps.signature_crc32c = caps.signatures && get(prm::hca_cap::sig_crc32c) != 0;
  caps.signature_crc64 = caps.signatures && get(prm::hca_cap::sig_crc64_xp10) != 0;
  caps.signature_4048 = caps.signatures && get(prm::hca_cap::sig_block_4048) != 0;
}

constexpr uint64_t window_1 = IBV_DEVICE_MEM_WINDOW;
constexpr uint64_t window_2b = IBV_DEVICE_MEM_WINDOW_TYPE_2B;

// Takes what ibv_query_device_ex(3) says of raw packets' receive queues.
void read_spread(const ibv_device_attr_ex& ex, device::SpreadCaps& spread) {
  if ((ex.rss_caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET) == 0) return;
  spread.queues = ex.max_wq_type_rq;
  spread.tables = ex.rss_caps.max_rwq_indirection_tables;
  spread.longest_table = ex.rss_caps.max_rwq_indirection_table_size;
  spread.toeplitz = (ex.rss_caps.rx_hash_function & IBV_RX_HASH_FUNC_TOEPLITZ) != 0;
  spread.strip_vlan = (ex.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING) != 0;
}

// The sizes of strides; mlx5dv_query_device(3) works without DevX too.
void read_strides(ibv_context* context, device::SpreadCaps& spread) {
  mlx5dv_context dv{};
  dv.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ;
  if (mlx5dv_query_device(context, &dv) != 0) return;
  const mlx5dv_striding_rq_caps& s = dv.striding_rq_caps;
  if ((dv.comp_mask & MLX5DV_CONTEXT_MASK_STRIDING_RQ) == 0 ||
      (s.supported_qpts & 1u << IBV_QPT_RAW_PACKET) == 0)
    return;
  spread.min_stride_log_bytes = s.min_single_stride_log_num_of_bytes;
  spread.max_stride_log_bytes = s.max_single_stride_log_num_of_bytes;
  spread.min_strides_log = s.min_single_wqe_log_num_of_strides;
  spread.max_strides_log = s.max_single_wqe_log_num_of_strides;
}

// Reads device memory, receive work queues and on-demand paging. ibv_query_device_ex(3) reports RC,
// UC, UD and XRC, mlx5dv DC, and nobody raw Ethernet (rdma-core 44).
void read_extended(ibv_context* context, bool firmware_answers, device::Caps& caps) {
  ibv_device_attr_ex ex{};
  if (ibv_query_device_ex(context, nullptr, &ex) != 0) return;
  caps.max_device_memory = ex.max_dm_size;
  read_spread(ex, caps.spread);
  if (caps.spread.usable()) read_strides(context, caps.spread);
  mr::OdpCaps& odp = caps.odp;
  odp.supported = (ex.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
  odp.implicit = (ex.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0;
  auto of = [&odp](mr::OdpTransport t) -> std::optional<uint32_t>& {
    return odp.operations[static_cast<std::size_t>(t)];
  };
  of(mr::OdpTransport::rc) = ex.odp_caps.per_transport_caps.rc_odp_caps;
  of(mr::OdpTransport::uc) = ex.odp_caps.per_transport_caps.uc_odp_caps;
  of(mr::OdpTransport::ud) = ex.odp_caps.per_transport_caps.ud_odp_caps;
  of(mr::OdpTransport::xrc) = ex.xrc_odp_caps;
  mlx5dv_context dv{};
  dv.comp_mask = MLX5DV_CONTEXT_MASK_DC_ODP_CAPS;
  if (firmware_answers && mlx5dv_query_device(context, &dv) == 0 &&
      (dv.comp_mask & MLX5DV_CONTEXT_MASK_DC_ODP_CAPS) != 0)
    of(mr::OdpTransport::dc) = dv.dc_odp_caps;
}

// Enhanced multi-packet WQEs (mlx5dv_query_device(3)); the kernel allows them on every raw packet
// queue of a device that has them (Linux drivers/infiniband/hw/mlx5/qp.c,
// create_raw_packet_qp_sq(), allow_multi_pkt_send_wqe).
bool has_multi_packet(ibv_context* context) {
  mlx5dv_context dv{};
  return mlx5dv_query_device(context, &dv) == 0 &&
         (dv.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW) != 0;
}

// The formats in which completion queues may be compressed, and stamped (mlx5dv_query_device(3)).
void read_completions(ibv_context* context, device::Caps& caps) {
  mlx5dv_context dv{};
  dv.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION;
  if (mlx5dv_query_device(context, &dv) != 0) return;
  caps.real_time = (dv.flags & MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS) != 0;
  if (dv.cqe_comp_caps.max_num == 0) return;
  caps.max_compressed = dv.cqe_comp_caps.max_num;
  const uint32_t formats = dv.cqe_comp_caps.supported_format;
  caps.compressed_hash = (formats & MLX5DV_CQE_RES_FORMAT_HASH) != 0;
  caps.compressed_checksum = (formats & MLX5DV_CQE_RES_FORMAT_CSUM) != 0;
}

// Mbit/s of one lane by ibv_port_attr::active_speed (ibv_query_port(3)); 0: unknown.
constexpr uint32_t lane_mbps(uint8_t speed) {
  switch (speed) {
    case 1:
      return 2500;
    case 2:
      return 5000;
    case 4:
    case 8:
      return 10000;
    case 16:
      return 14000;
    case 32:
      return 25000;
    case 64:
      return 50000;
    case 128:
      return 100000;
    default:
      return 0;
  }
}

// Lanes by ibv_port_attr::active_width (ibv_query_port(3)); 0: unknown.
constexpr uint32_t lanes(uint8_t width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

// Whether one of the ports is an Ethernet one; which, is asked again where a port is named
// (read_port()). In switchdev mode each representor is a port.
bool has_ethernet(ibv_context* context, uint8_t ports) {
  for (uint32_t number = 1; number <= ports; number++) {
    ibv_port_attr port{};
    if (ibv_query_port(context, static_cast<uint8_t>(number), &port) == 0 &&
        port.link_layer == IBV_LINK_LAYER_ETHERNET)
      return true;
  }
  return false;
}

}  // namespace

Result<device::Caps> read_caps(ibv_context* context) {
  ibv_device_attr attr{};
  if (const int rc = ibv_query_device(context, &attr); rc != 0)
    return Error{rc, "the adapter does not tell its limits"};
  device::Caps caps;
  caps.max_qp_wr = static_cast<uint32_t>(attr.max_qp_wr);
  caps.max_cqe = static_cast<uint32_t>(attr.max_cqe);
  caps.max_sge = static_cast<uint32_t>(attr.max_sge);
  caps.raw_packet = has_ethernet(context, attr.phys_port_cnt);
  caps.multi_packet = caps.raw_packet && has_multi_packet(context);
  read_completions(context, caps);
  // The kernel reports 1 << log_max_msg (Linux drivers/infiniband/hw/mlx5/main.c,
  // mlx5_query_hca_port()), 1 GiB on the cards known.
  ibv_port_attr port{};
  if (ibv_query_port(context, 1, &port) == 0)
    caps.max_message = std::min(port.max_msg_sz, prm::max_segment_bytes);
  auto group = std::make_unique<HcaCap>();
  const bool firmware_answers = query_hca_cap(context, prm::cmd::cap_general, *group);
  if (firmware_answers) read_umr(*group, caps);
  // The library's WQEs of several packets go up to the format's own limit.
  if (caps.max_send_wqe < prm::max_ds * octoword_bytes) caps.multi_packet = false;
  read_extended(context, firmware_answers, caps);
  if (caps.raw_packet) caps.tx = read_tx_caps(context);
  if (caps.raw_packet && caps.spread.usable()) caps.lro = read_lro_caps(context);
  caps.memory_window_type1 = (attr.device_cap_flags & window_1) != 0;
  caps.memory_window_type2b = (attr.device_cap_flags & window_2b) != 0;
  return caps;
}

Result<device::PortInfo> read_port(ibv_context* context, uint8_t number) {
  ibv_port_attr attr{};
  if (const int rc = ibv_query_port(context, number, &attr); rc != 0)
    return Error{rc, "the adapter has no such port"};
  device::PortInfo info;
  info.active = attr.state == IBV_PORT_ACTIVE;
  info.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
  info.mtu_bytes = 128u << attr.active_mtu;
  info.speed_mbps = lane_mbps(attr.active_speed) * lanes(attr.active_width);
  return info;
}

int read_numa_node(const std::string& sysfs, const std::string& name) {
  const std::string path = sysfs + "/class/infiniband/" + name + "/device/numa_node";
  int node = -1;
  if (std::FILE* f = std::fopen(path.c_str(), "re")) {
    if (std::fscanf(f, "%d", &node) != 1) node = -1;
    (void)std::fclose(f);
  }
  return node;
}

uint8_t choose_gid(ibv_context* context, uint8_t port) {
  ibv_port_attr attr{};
  if (ibv_query_port(context, port, &attr) != 0) return 0;
  const auto count = static_cast<uint32_t>(std::clamp(attr.gid_tbl_len, 0, 255));
  for (uint32_t i = 0; i < count; i++) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, port, i, &entry, 0) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2)
      return static_cast<uint8_t>(i);
  }
  return 0;
}

}  // namespace kilim::mlx5
