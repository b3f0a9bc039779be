// SPDX-License-Identifier: BSD-3-Clause
// Capability groups from the profile. Only what the adapter can do is set.
#include "vhca/hca/caps.hh"

#include "kilim/prm/flow_table.hh"
#include "kilim/prm/hca_cap.hh"
#include "vhca/core/receive_spec.hh"
#include "vhca/core/spec.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/ethernet/table_type.hh"
#include "vhca/hca/card_caps.hh"
#include "vhca/hca/device_memory.hh"
#include "vhca/hca/reserved_qpns.hh"
#include "vhca/tpt/key_table.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint16_t last_group = prm::cmd::cap_general_2;
constexpr uint32_t port_type_infiniband = 0, port_type_ethernet = 1;

void general(const Profile& p, CapGroup g) {
  namespace cap = prm::hca_cap;
  const struct {
    prm::CapField field;
    uint32_t value;
  } rows[] = {
      {cap::hca_cap_2, 1},
      {cap::log_max_qp_sz, log2_of(p.max_qp_wr)},
      {cap::log_max_qp, log2_of(p.max_qp)},
      {cap::log_max_cq_sz, log2_of(p.max_cqe + 1)},
      {cap::log_max_cq, log2_of(p.max_cq)},
      {cap::log_max_mkey, log2_of(p.max_mr)},
      {cap::dump_fill_mkey, 1},
      {cap::flow_counter_bulk_alloc, p.raw_packet ? 0xffu : 0u},
      {cap::log_max_ra_req_qp, log2_of(p.max_rd_atomic)},
      {cap::log_max_ra_res_qp, log2_of(p.max_rd_atomic)},
      {cap::device_memory, p.max_dm_size != 0},
      {cap::port_type, p.lid != 0 ? port_type_infiniband : port_type_ethernet},
      {cap::num_ports, 1},
      {cap::log_max_msg, p.log_max_msg},
      {cap::cqe_version, 1},
      {cap::repeated_block_disabled, p.repeated_block_disabled},
      {cap::umr_modify_entity_size_disabled, p.umr_modify_entity_size_disabled},
      {cap::umr_modify_atomic_disabled, p.umr_modify_atomic_disabled},
      {cap::umr_indirect_mkey_disabled, p.umr_indirect_mkey_disabled},
      {cap::umr_fence, p.umr_fence},
      {cap::sctr_data_cqe, p.scatter_to_cqe},
      {cap::sho, p.signature},
      {cap::sigerr_domain_and_sig_type, p.signature},
      {cap::sig_crc32c, p.signature && p.signature_crc32c},
      {cap::sig_crc64_xp10, p.signature && p.signature_crc64},
      {cap::sig_block_4048, p.signature && p.signature_4048},
      {cap::log_max_bsf_list_size, p.signature ? 2u : 0u},
      {cap::eth_net_offloads, p.raw_packet},
      {cap::roce, p.lid == 0 && p.roce},
      {cap::pg, p.odp},
      {cap::atomic, p.atomics},
      {cap::cq_resize, 1},
      {cap::cq_moderation, p.cq_moderation},
      {cap::block_lb_mc, p.block_multicast_loopback},
      {cap::umr_ptr_rlkey, p.umr_ptr_rlkey},
      {cap::rc, 1},
      {cap::uc, 1},
      {cap::ud, 1},
      {cap::xrc, 1},
      {cap::qpc_extension, 1},
      {cap::rts2rts_qp_udp_sport, p.lid == 0},
      {cap::dma_mmo_sq, p.log_max_dma_copy != 0},
      {cap::log_dma_mmo_max_size, p.log_max_dma_copy},
      {cap::uar_4k, 1},
      {cap::max_wqe_sz_sq, p.max_sq_desc_bytes},
      {cap::max_wqe_sz_rq, p.max_rq_desc_bytes},
      {cap::tag_matching, p.log_max_tags != 0},
      {cap::rndv_offload_rc, p.log_max_tags != 0},
      {cap::log_tag_matching_list_sz, p.log_max_tags},
      {cap::log_max_xrq, p.log_max_tags != 0 ? log2_of(p.max_srq) : 0},
      {cap::log_max_atomic_size_qp, p.atomics ? 3u : 0u},
  };
  for (const auto& row : rows) prm::cap_set(g, row.field, row.value);
}

// Keys with lists.
void lists(const Profile& p, CapGroup g) {
  namespace cap = prm::hca_cap;
  const struct {
    prm::CapField field;
    uint32_t value;
  } rows[] = {
      {cap::max_indirection, p.max_indirection},
      // KSM keys. UCX 1.13, uct_ib_mlx5_devx_md_open(), asks before CREATE_MKEY of one; mlx5_ib,
      // internal_fill_odp_caps(), before it offers regions of the whole address space.
      {cap::fixed_buffer_size, 1},
      {cap::umr_extended_translation_offset, p.umr_extended_translation_offset},
      {cap::log_max_klm_list_size, p.log_max_klm_list_size},
  };
  for (const auto& row : rows) prm::cap_set(g, row.field, row.value);
}

// Queues of their own. Sizes as a raw packet queue pair's.
void queues(const Profile& p, CapGroup g) {
  namespace cap = prm::hca_cap;
  constexpr uint32_t log_segment = 4, log_basic_block = 6;
  constexpr uint32_t stamps_a_ms = 1'000'000;  // completions are stamped in nanoseconds
  prm::cap_set(g, cap::device_frequency_khz, stamps_a_ms);
  prm::cap_set(g, cap::log_max_rmp, log2_of(p.max_srq));
  if (!p.raw_packet) return;
  const struct {
    prm::CapField field;
    uint32_t value;
  } rows[] = {
      {cap::log_max_transport_domain, log2_of(p.max_transport_domains)},
      {cap::log_max_rq, log2_of(p.max_rq)},
      {cap::log_max_sq, log2_of(p.max_sq)},
      {cap::log_max_tir, log2_of(p.max_tir)},
      {cap::log_max_tis, log2_of(p.max_tis)},
      {cap::log_max_rqt, log2_of(p.max_rqt)},
      {cap::log_max_rqt_size, p.log_max_rqt_size},
      {cap::log_max_tis_per_sq, 0},
      {cap::ext_stride_num_range, p.striding_rq},
      {cap::log_min_stride_sz_rq, log_segment},
      {cap::log_min_stride_sz_sq, log_basic_block},
      {cap::log_max_wq_sz, log2_of(p.max_qp_wr)},
      {cap::cqe_compression, p.cqe_compression},
      {cap::cqe_compression_max_num, p.cqe_compression ? most_compressed : 0},
  };
  for (const auto& row : rows) prm::cap_set(g, row.field, row.value);
}

// The bit of an object's type: of 64, the lowest is that of type 0.
void add_object(CapGroup g, uint16_t type) {
  const bool high = type >= 32;
  const prm::CapField field =
      high ? prm::hca_cap::general_obj_types_high : prm::hca_cap::general_obj_types_low;
  prm::cap_set(g, field, prm::cap_get(g, field) | 1u << (type % 32));
}

void dynamic(const Profile& p, CapGroup g) {
  namespace cap = prm::hca_cap;
  if (!p.dynamic) return;
  const uint32_t log_reads = log2_of(p.max_rd_atomic);
  prm::cap_set(g, cap::dct, 1);
  prm::cap_set(g, cap::dc_req_sctr_data_cqe, p.scatter_to_cqe);
  prm::cap_set(g, cap::log_max_ra_req_dc, log_reads);
  prm::cap_set(g, cap::log_max_ra_res_dc, log_reads);
  prm::cap_set(g, cap::log_max_dci_stream_channels, p.log_max_dci_streams);
  prm::cap_set(g, cap::log_max_dci_errored_streams, p.log_max_failed_streams);
  add_object(g, prm::cmd::object_av_qp_mapping);
  prm::cap_set(g, cap::log_max_atomic_size_dc, p.atomics ? 3u : 0u);
}

void encryption(const Profile& p, CapGroup g) {
  namespace cap = prm::hca_cap;
  if (p.crypto_tweak == CryptoTweak::none) return;
  const bool little = p.crypto_tweak == CryptoTweak::little_endian;
  prm::cap_set(g, cap::crypto, 1);
  prm::cap_set(g, cap::aes_xts, little);
  prm::cap_set(g, cap::aes_xts_single_block_le_tweak, little);
  prm::cap_set(g, cap::aes_xts_multi_block_be_tweak, !little);
  add_object(g, prm::cmd::object_dek);
}

void crypto(const Profile& p, CapGroup g) {
  if (p.crypto_tweak != CryptoTweak::none)
    prm::cap_set(g, prm::crypto_cap::log_max_num_deks, tpt::KeyTable::most_log_deks);
}

// The operations that may meet a page fault, where the firmware has their bits.
constexpr uint32_t to_firmware(uint8_t operations) noexcept {
  using namespace prm::odp_cap;
  constexpr uint32_t bits[] = {send, receive, write, read, atomic, srq_receive};
  uint32_t all = 0;
  for (std::size_t i = 0; i < std::size(bits); i++)
    all |= (operations >> i & 1u) != 0 ? bits[i] : 0;
  return all;
}

void atomic(const Profile& p, CapGroup g) {
  if (!p.atomics) return;
  prm::cap_set(g, prm::atomic_cap::request_8b_mode_1, 1);
  prm::cap_set(g, prm::atomic_cap::operations, 0x3);
  prm::cap_set(g, prm::atomic_cap::size_qp, 1u << 3);
  if (p.dynamic) prm::cap_set(g, prm::atomic_cap::size_dc, 1u << 3);
}

void odp(const Profile& p, CapGroup g) {
  namespace cap = prm::odp_cap;
  if (!p.odp) return;
  prm::cap_set(g, cap::rc, to_firmware(p.odp_rc));
  prm::cap_set(g, cap::ud, to_firmware(p.odp_ud));
  prm::cap_set(g, cap::xrc, to_firmware(p.odp_xrc));
  if (p.dynamic) prm::cap_set(g, cap::dc, to_firmware(p.odp_dc));
}

void ethernet(const Profile& p, CapGroup g) {
  namespace cap = prm::eth_cap;
  // MLX5_CAP_INLINE_MODE_* of mlx5_ifc.h: the Ethernet header, what the port's context says,
  // nothing.
  constexpr uint32_t l2 = 0, by_context = 1, not_required = 2;
  if (!p.raw_packet) return;
  prm::cap_set(g, cap::csum_cap, 1);
  prm::cap_set(g, cap::vlan_cap, p.vlan_stripping);
  prm::cap_set(g, cap::wqe_vlan_insert, p.vlan_insertion);
  prm::cap_set(g, cap::max_lso_cap, p.log_max_tso);
  prm::cap_set(g, cap::multi_pkt_send_wqe, p.multi_packet_send);
  prm::cap_set(g, cap::wqe_inline_mode,
               p.min_inline == 0   ? not_required
               : p.min_inline == 1 ? l2
                                   : by_context);
  prm::cap_set(g, cap::scatter_fcs, p.scatter_fcs);
  prm::cap_set(g, cap::enhanced_multi_pkt_send_wqe, p.multi_packet_send);
  prm::cap_set(g, cap::tunnel_stateless_gre, p.tunnels);
  prm::cap_set(g, cap::tunnel_stateless_vxlan, p.tunnels);
  // DPDK takes the first of the four timers (mlx5.c).
  prm::cap_set(g, cap::lro_cap, p.lro);
  prm::cap_set(g, cap::lro_psh_flag, p.lro);
  prm::cap_set(g, cap::lro_max_msg_sz_mode, p.lro);  // of the whole frame
  prm::cap_set(g, cap::lro_min_mss_size, p.lro ? p.lro_min_mss : 0);
  for (std::size_t i = 0; p.lro && i < std::size(cap::lro_timer_supported_periods); i++)
    prm::cap_set(g, cap::lro_timer_supported_periods[i], lro::periods_us[i]);
  prm::cap_set(g, cap::swp, p.software_parser);
  prm::cap_set(g, cap::swp_csum, p.software_parser);
  prm::cap_set(g, cap::swp_lso, p.software_parser && p.log_max_tso != 0);
}

// Headers in front of frames are for the sending table; both tables say that they can (mlx5_ib
// asks the general bits, fs.c, mlx5_ib_flow_action_create_packet_reformat()).
void flow_tables(const Profile& p, CapGroup g) {
  namespace cap = prm::flow_cap;
  constexpr uint32_t log_reformats = 16;
  if (!p.raw_packet || !p.egress_rules) return;
  prm::cap_set(g, cap::encap_general_header, 1);
  prm::cap_set(g, cap::log_max_packet_reformat, log_reformats);
  prm::cap_set(g, cap::max_encap_header_size, Prepend::most);
  prm::cap_set(g, cap::rx_ft_support, 1);
  prm::cap_set(g, cap::tx_ft_support, 1);
  prm::cap_set(g, cap::rx_reformat, 1);
  prm::cap_set(g, cap::tx_reformat, 1);
}

// Tables of RDMA queues' frames (Linux drivers/infiniband/hw/mlx5/fs.c, _get_flow_table(), asks for
// the size of each). A level is a table's own word: nothing follows from it.
void rdma_tables(const Profile& p, CapGroup g) {
  namespace cap = prm::rdma_table_cap;
  constexpr uint32_t log_rules = 16, levels = 255;
  static_assert(std::size_t{1} << log_rules == ethernet::Steering::max_rules);
  if (!ethernet::has_rdma_tables(p)) return;
  for (const std::size_t table : {cap::receive, cap::transmit}) {
    const auto set = [&g, table](prm::CapField f, uint32_t value) {
      prm::cap_set(g, {static_cast<uint16_t>(table + f.bit), f.width}, value);
    };
    set(cap::ft_support, 1);
    set(cap::flow_counter, 1);
    set(cap::log_max_ft_size, log_rules);
    set(cap::max_ft_level, levels);
  }
}

void put_word(CapGroup g, std::size_t at, uint64_t word) {
  prm::cap_set(g, {static_cast<uint16_t>(8 * at), 32}, static_cast<uint32_t>(word >> 32));
  prm::cap_set(g, {static_cast<uint16_t>(8 * at + 32), 32}, static_cast<uint32_t>(word));
}

// Flow tables whose entries software writes, and where it finds ends of theirs (rdma-core v44
// providers/mlx5/dr_devx.c, dr_devx_query_device()).
void steering(const Profile& p, CapGroup g) {
  namespace cap = prm::steering_cap;
  constexpr uint32_t levels = 64, most_actions = 32;
  if (!p.software_steering) return;
  prm::cap_set(g, cap::multi_path_tirs, 1);
  prm::cap_set(g, cap::multi_path_tirs_fts, 1);
  prm::cap_set(g, cap::flow_tag_multipath, 1);
  for (const std::size_t table : {cap::receive, cap::transmit}) {
    const auto set = [&g, table](prm::CapField f, uint32_t value) {
      prm::cap_set(g, {static_cast<uint16_t>(table + f.bit), f.width}, value);
    };
    set(cap::sw_owner, 1);
    set(cap::max_ft_level, levels);
    set(cap::max_modify_header_actions, most_actions);
  }
  put_word(g, cap::rx_drop_address, ethernet::icm_end::address_of(ethernet::IcmEnd::drop));
  put_word(g, cap::tx_drop_address, ethernet::icm_end::address_of(ethernet::IcmEnd::drop));
  put_word(g, cap::tx_allow_address, ethernet::icm_end::address_of(ethernet::IcmEnd::allow));
}

void steering_memory(const Profile& p, CapGroup g) {
  namespace cap = prm::icm_cap;
  if (!p.software_steering) return;
  put_word(g, cap::steering_start, ethernet::Icm::steering_start);
  put_word(g, cap::header_modify_start, ethernet::Icm::rewrite_start);
  prm::cap_set(g, cap::log_steering_size, ethernet::Icm::log_steering);
  prm::cap_set(g, cap::log_header_modify_size, ethernet::Icm::log_rewrite);
  prm::cap_set(g, cap::log_granularity, ethernet::IcmArea::log_unit);
}

// A queue pair may say that its peer is on the same port (devx_qp.cc).
void roce(const Profile& p, CapGroup g) {
  if (p.lid != 0) return;
  prm::cap_set(g, prm::roce_cap::fl_rc_qp_when_roce_disabled, 1);
  prm::cap_set(g, prm::roce_cap::fl_rc_qp_when_roce_enabled, 1);
}

// No operation addresses: a plain store to memory cannot be made to add or to set.
void device_memory(const Profile& p, CapGroup g) {
  namespace cap = prm::dm_cap;
  if (p.max_dm_size == 0) return;
  constexpr uint32_t log_unit = 6;
  prm::cap_set(g, cap::memic, 1);
  prm::cap_set(g, cap::log_min_alloc_size, log_unit);
  prm::cap_set(g, cap::log_max_alignment, p.log_max_dm_alignment - log_unit);
  prm::cap_set(g, cap::window_bytes, DeviceMemory::window_pages * DeviceMemory::page_bytes);
  prm::cap_set(g, cap::max_size, p.max_dm_size);
}

}  // namespace

bool fill_caps(const Profile& profile, uint16_t group_number, CapGroup group) {
  if (group_number > last_group) return false;
  if (group_number == prm::cmd::cap_general) general(profile, group);
  if (group_number == prm::cmd::cap_general) lists(profile, group);
  if (group_number == prm::cmd::cap_general) add_object(group, prm::cmd::object_reserved_qpn);
  if (group_number == prm::cmd::cap_general_2)
    prm::cap_set(group, prm::hca_cap_2::log_reserved_qpn_granularity, ReservedQpns::log_count);
  if (group_number == prm::cmd::cap_general) dynamic(profile, group);
  if (group_number == prm::cmd::cap_general) queues(profile, group);
  if (group_number == prm::cmd::cap_general) encryption(profile, group);
  if (group_number == prm::cmd::cap_general && profile.software_steering)
    add_object(group, prm::cmd::object_flow_sampler);
  if (group_number == prm::cmd::cap_crypto) crypto(profile, group);
  if (group_number == prm::cmd::cap_ethernet) ethernet(profile, group);
  if (group_number == prm::cmd::cap_nic_flow) flow_tables(profile, group);
  if (group_number == prm::cmd::cap_nic_flow) rdma_tables(profile, group);
  if (group_number == prm::cmd::cap_atomic) atomic(profile, group);
  if (group_number == prm::cmd::cap_odp) odp(profile, group);
  if (group_number == prm::cmd::cap_device_memory) device_memory(profile, group);
  if (group_number == prm::cmd::cap_device_memory) steering_memory(profile, group);
  if (group_number == prm::cmd::cap_nic_flow) steering(profile, group);
  if (group_number == prm::cmd::cap_roce) roce(profile, group);
  fill_card_caps(profile, group_number, group);
  return true;
}

}  // namespace kilim::vhca::hca
