// SPDX-License-Identifier: BSD-3-Clause
// Fields by their bit in the group, as Linux include/linux/mlx5/mlx5_ifc.h lays them out
// (cmd_hca_cap_bits, per_protocol_networking_offload_caps_bits, roce_cap_bits).
#include "vhca/hca/card_caps.hh"

#include "kilim/prm/flow_table.hh"
#include "kilim/prm/hca_cap.hh"

namespace kilim::vhca::hca {

namespace card {

namespace {

struct Row {
  prm::CapField field;
  uint32_t value;
};

// Figures of the public dump of a ConnectX-6 Dx (saeedtx/mlx5ctl, README.md).
constexpr uint32_t log_page_bytes = 12;
constexpr uint32_t log_region_bytes = 64;  // any length
constexpr uint32_t log_bf_bytes = 9;       // said to the client's context too (uverbs/device.cc)

void limits(const Profile& p, CapGroup g) {
  const Row rows[] = {
      {prm::CapField{0x80, 8}, log2_of(p.max_qp_wr)},          // log_max_srq_sz
      {prm::CapField{0xab, 5}, log2_of(p.max_srq)},            // log_max_srq
      {prm::CapField{0x109, 7}, log_region_bytes},             // log_max_mrw_sz
      {prm::CapField{0x186, 10}, Profile::max_q_counters},     // max_qp_cnt
      {prm::CapField{0x1ab, 5}, Profile::local_ca_ack_delay},  // local_ca_ack_delay
      {prm::CapField{0x258, 8}, log_page_bytes},               // log_pg_sz
      {prm::CapField{0x260, 1}, 1},                            // bf
      {prm::CapField{0x26b, 5}, log_bf_bytes},                 // log_bf_reg_size
      {prm::CapField{0x2e7, 25}, p.max_group_members},         // max_qp_mcg
      {prm::CapField{0x318, 8}, log2_of(p.max_groups)},        // log_max_mcg
      {prm::CapField{0x32b, 5}, log2_of(p.max_pd)},            // log_max_pd
      {prm::CapField{0x33b, 5}, log2_of(p.max_xrcd)},          // log_max_xrcd
  };
  for (const Row& row : rows) prm::cap_set(g, row.field, row.value);
}

// What the device does whether a client asks or not.
void abilities(const Profile& p, CapGroup g) {
  const bool strides = p.raw_packet && p.striding_rq, blocks = p.raw_packet && p.cqe_compression;
  const Row rows[] = {
      {prm::CapField{0xe8, 1}, 1},   // relaxed_ordering_write: a key may have it; no order is lost
      {prm::CapField{0xe9, 1}, 1},   // relaxed_ordering_read
      {prm::CapField{0x119, 1}, 1},  // null_mkey: ibv_alloc_null_mr()
      {prm::CapField{0x201, 1}, strides},           // striding_rq
      {prm::CapField{0x20f, 1}, p.signature},       // drain_sigerr: MLX5DV_QP_CREATE_SIG_PIPELINING
      {prm::CapField{0x212, 1}, p.signature},       // sigerr_cqe
      {prm::CapField{0x220, 1}, 1},                 // cq_oi: IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN
      {prm::CapField{0x231, 1}, p.memory_windows},  // imaicl: mlx5_ib offers windows by it (main.c)
      {prm::CapField{0x380, 1}, p.raw_packet},      // basic_cyclic_rcv_wqe
      {prm::CapField{0x5bc, 1}, blocks},            // mini_cqe_resp_stride_index
      {prm::CapField{0x5bd, 1}, p.cqe_padding},     // cqe_128_always: mlx5_ib's CQE_128B_PAD
      {prm::CapField{0x5be, 1}, p.cqe_compression},  // cqe_compression_128: its CQE_128B_COMP
  };
  for (const Row& row : rows) prm::cap_set(g, row.field, row.value);
}

void ethernet(const Profile& p, CapGroup g) {
  if (!p.raw_packet) return;
  prm::cap_set(g, prm::CapField{0x08, 1}, 1);                   // self_lb_en_modifiable: MODIFY_TIR
  prm::cap_set(g, prm::CapField{0x14, 4}, p.log_max_rqt_size);  // rss_ind_tbl_cap
}

// RoCE v2 over IPv4 and IPv6; v1 is not spoken (include/linux/mlx5/device.h,
// MLX5_ROCE_VERSION_2_CAP, MLX5_ROCE_L3_TYPE_IPV4_CAP, MLX5_ROCE_L3_TYPE_IPV6_CAP).
void roce(const Profile& p, CapGroup g) {
  constexpr uint32_t ipv4 = 1 << 1, ipv6 = 1 << 2, version_2 = 1 << 2;
  constexpr uint32_t port = 4791, least_source = 49152, most_source = 65535;
  if (p.lid != 0) return;
  const Row rows[] = {
      {prm::CapField{0x8c, 4}, ipv4 | ipv6},       // l3_type
      {prm::CapField{0x98, 8}, version_2},         // roce_version
      {prm::CapField{0xb0, 16}, port},             // r_roce_dest_udp_port
      {prm::CapField{0xc0, 16}, most_source},      // r_roce_max_src_udp_port
      {prm::CapField{0xd0, 16}, least_source},     // r_roce_min_src_udp_port
      {prm::CapField{0xf0, 16}, p.gid_table_len},  // roce_address_table_size
  };
  for (const Row& row : rows) prm::cap_set(g, row.field, row.value);
}

}  // namespace

}  // namespace card

void fill_card_caps(const Profile& profile, uint16_t group_number, CapGroup group) {
  if (group_number == prm::cmd::cap_general) {
    card::limits(profile, group);
    card::abilities(profile, group);
  }
  if (group_number == prm::cmd::cap_ethernet) card::ethernet(profile, group);
  if (group_number == prm::cmd::cap_roce) card::roce(profile, group);
}

}  // namespace kilim::vhca::hca
