// SPDX-License-Identifier: BSD-3-Clause
// QUERY_DEVICE in its old and extended form, with mlx5's driver part. Only what the adapter can do
// is reported, so no pacing. Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/ports.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

// "22.35.1012" as the kernel packs it: major, minor, subminor in 16 bits each.
uint64_t pack_version(const char* text) {
  unsigned major = 0, minor = 0, sub = 0;
  if (std::sscanf(text, "%u.%u.%u", &major, &minor, &sub) != 3) return 0;
  return uint64_t{major} << 32 | uint64_t{minor & 0xffff} << 16 | (sub & 0xffff);
}

ib_uverbs_query_device_resp describe_attributes(hca::Hca& hca) {
  const Profile& p = hca.config.profile;
  Result<PortAttr> port = hca::query_port(hca, 1);
  ib_uverbs_query_device_resp r{};
  r.fw_ver = pack_version(p.fw_ver);
  r.node_guid = be64{guid_of(port ? port->node : Mac{})}.raw();
  r.sys_image_guid = r.node_guid;
  r.max_mr_size = ~uint64_t{0};
  r.page_size_cap = ~uint64_t{0xfff};
  r.vendor_id = p.vendor_id;
  r.vendor_part_id = p.pci_device;
  r.hw_ver = p.hw_ver;
  r.max_qp = p.max_qp;
  r.max_qp_wr = p.max_qp_wr;
  r.device_cap_flags =
      IB_UVERBS_DEVICE_CHANGE_PHY_PORT | IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT |
      IB_UVERBS_DEVICE_SYS_IMAGE_GUID | IB_UVERBS_DEVICE_RC_RNR_NAK_GEN |
      IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS;  // sends with, and requests of, invalidation
  if (p.raw_packet)
    r.device_cap_flags |= IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING | IB_UVERBS_DEVICE_RAW_IP_CSUM;
  r.max_sge = p.max_sge;
  r.max_sge_rd = prm::max_read_segments;
  r.max_cq = p.max_cq;
  r.max_cqe = p.max_cqe;
  r.max_mr = p.max_mr;
  r.max_pd = p.max_pd;
  r.max_qp_rd_atom = p.max_rd_atomic;
  r.max_qp_init_rd_atom = p.max_rd_atomic;
  r.max_res_rd_atom = p.max_rd_atomic * p.max_qp;
  r.atomic_cap = p.atomics ? 1 : 0;  // IB_ATOMIC_HCA
  r.device_cap_flags |= IB_UVERBS_DEVICE_XRC;
  if (p.memory_windows) {
    r.device_cap_flags |= IB_UVERBS_DEVICE_MEM_WINDOW | IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B;
    r.max_mw = p.max_mr;
  }
  r.max_srq = p.max_srq;
  r.max_srq_wr = p.max_qp_wr - 1;
  r.max_srq_sge = p.max_rq_desc_bytes / 16 - 1;
  r.max_mcast_grp = p.max_groups;
  r.max_mcast_qp_attach = p.max_group_members;
  r.max_total_mcast_qp_attach = p.max_groups * p.max_group_members;
  r.max_ah = p.max_ah;
  // The adapter's table; that of a RoCE port has one entry (test/truth/facts.tsv, max_pkeys).
  r.max_pkeys = 128;
  r.local_ca_ack_delay = Profile::local_ca_ack_delay;
  r.phys_port_cnt = static_cast<uint8_t>(hca::port_count(hca));
  return r;
}

// Whether check sequences can be kept is reported at two places, for older and newer clients.
void describe_raw_packets(const Profile& p, ib_uverbs_ex_query_device_resp& r) {
  if (!p.raw_packet) return;
  r.raw_packet_caps = IB_UVERBS_RAW_PACKET_CAP_IP_CSUM;
  if (p.vlan_stripping) r.raw_packet_caps |= IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING;
  if (!p.scatter_fcs) return;
  r.raw_packet_caps |= IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS;
  r.device_cap_flags_ex |= IB_UVERBS_DEVICE_RAW_SCATTER_FCS;
}

// Receive queues of their own, and the hash that spreads frames over a table of them.
void describe_hashing(const Profile& p, ib_uverbs_ex_query_device_resp& r) {
  if (!p.raw_packet) return;
  r.rss_caps.supported_qpts = 1u << IB_UVERBS_QPT_RAW_PACKET;
  r.rss_caps.max_rwq_indirection_tables = p.max_rqt;
  r.rss_caps.max_rwq_indirection_table_size = 1u << p.log_max_rqt_size;
  r.max_wq_type_rq = p.max_rq;
}

void describe_hashing(const Profile& p, mlx5_ib_query_device_resp& r) {
  if (!p.raw_packet) return;
  r.rss_caps.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
  r.rss_caps.rx_hash_fields_mask = 0xff;  // MLX5_RX_HASH_SRC_IPV4 to DST_PORT_UDP
  // mlx5_ib says it whatever the tunnels are (main.c, mlx5_ib_query_device()).
  r.rss_caps.rx_hash_fields_mask |= MLX5_RX_HASH_INNER;
  if (!p.striding_rq) return;
  r.striding_rq_caps = {stride::least_log_bytes,        stride::most_log_bytes,
                        stride::least_log_count,        stride::most_log_count,
                        1u << IB_UVERBS_QPT_RAW_PACKET, 0};
}

// Completion entries.
void describe_entries(const Profile& p, mlx5_ib_query_device_resp& r) {
  if (p.cqe_padding) r.flags |= MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD;
  if (!p.cqe_compression) return;
  r.flags |= MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP;
  r.cqe_comp_caps.max_num = most_compressed;
  r.cqe_comp_caps.supported_format = MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM |
                                     MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX;
}

// mlx5_ib_query_device (main.c): one bit for multi-packet WQEs, one for their enhanced form.
void describe_sending(const Profile& p, mlx5_ib_query_device_resp& r) {
  if (p.log_max_tso != 0) r.tso_caps = {1u << p.log_max_tso, 1u << IB_UVERBS_QPT_RAW_PACKET};
  if (p.raw_packet && p.tunnels)
    r.tunnel_offloads_caps = MLX5_IB_TUNNELED_OFFLOADS_VXLAN | MLX5_IB_TUNNELED_OFFLOADS_GRE;
  if (p.raw_packet && p.software_parser) {
    r.sw_parsing_caps = {MLX5_IB_SW_PARSING | MLX5_IB_SW_PARSING_CSUM,
                         1u << IB_UVERBS_QPT_RAW_PACKET};
    if (p.log_max_tso != 0) r.sw_parsing_caps.sw_parsing_offloads |= MLX5_IB_SW_PARSING_LSO;
  }
  if (!p.multi_packet_send) return;
  r.mlx5_ib_support_multi_pkt_send_wqes = MLX5_IB_ALLOW_MPW | MLX5_IB_SUPPORT_EMPW;
}

// Inline data at a DC target: it is taken where entries have 128 bytes. Streams of initiators.
void describe_dynamic(const Profile& p, mlx5_ib_query_device_resp& r) {
  if (!p.dynamic) return;
  r.flags |= MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT;
  r.dci_streams_caps.max_log_num_concurent = p.log_max_dci_streams;
  r.dci_streams_caps.max_log_num_errored = p.log_max_failed_streams;
}

// Operations that may meet a page fault. Of unreliable connections none may, and raw packet queues
// are not reported at all.
void describe_paging(const Profile& p, ib_uverbs_ex_query_device_resp& r) {
  constexpr uint64_t supported = 1, implicit = 2;
  if (!p.odp) return;
  r.odp_caps.general_caps = supported | (p.odp_implicit ? implicit : 0);
  r.odp_caps.per_transport_caps.rc_odp_caps = p.odp_rc;
  r.odp_caps.per_transport_caps.ud_odp_caps = p.odp_ud;
  r.xrc_odp_caps = p.odp_xrc;
}

void describe_tags(const Profile& p, ib_uverbs_ex_query_device_resp& r) {
  constexpr uint32_t rendezvous_rc = 1, one_segment = 1;  // IB_TM_CAP_RNDV_RC
  if (p.log_max_tags == 0) return;
  r.tm_caps = {p.max_rendezvous_header,
               (1u << p.log_max_tags) - 1,
               rendezvous_rc,
               p.max_qp_wr,
               one_segment,
               0};
}

}  // namespace

int cmd_query_device(Context& context, const Request& r) {
  return r.out.write(describe_attributes(context.hca));
}

int cmd_query_device_ex(Context& context, const Request& r) {
  ib_uverbs_ex_query_device cmd;
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  if (cmd.comp_mask != 0 || cmd.reserved != 0) return refusal::bits("comp_mask", cmd.comp_mask, 0);
  if (r.driver_in.zero_from(0) != 0)
    return refusal::bytes("the driver's part, which is not zero,", r.driver_in.bytes(), 0);
  ib_uverbs_ex_query_device_resp resp{};
  resp.base = describe_attributes(context.hca);
  resp.response_length = std::min<uint32_t>(sizeof resp, r.out.bytes());
  resp.timestamp_mask = 0x7fff'ffff'ffff'ffff;
  resp.hca_core_clock = 1'000'000;  // kHz: completions are stamped in nanoseconds
  resp.device_cap_flags_ex = resp.base.device_cap_flags;
  if (context.hca.config.profile.cq_moderation) resp.cq_moderation_caps = {0xffff, 0xfff, 0};
  resp.max_dm_size = context.hca.config.profile.max_dm_size;
  describe_raw_packets(context.hca.config.profile, resp);
  describe_hashing(context.hca.config.profile, resp);
  describe_paging(context.hca.config.profile, resp);
  describe_tags(context.hca.config.profile, resp);
  mlx5_ib_query_device_resp driver{};
  constexpr uint32_t least = offsetof(mlx5_ib_query_device_resp, tso_caps);
  if (r.driver_out.bytes() != 0) {
    if (r.driver_out.bytes() < least)
      return refusal::bytes("mlx5_ib_query_device_resp", r.driver_out.bytes(), least);
    driver.response_length = std::min<uint32_t>(sizeof driver, r.driver_out.bytes());
    describe_entries(context.hca.config.profile, driver);
    describe_hashing(context.hca.config.profile, driver);
    describe_dynamic(context.hca.config.profile, driver);
    describe_sending(context.hca.config.profile, driver);
    if (int err = r.driver_out.write(driver); err != 0) return err;
  }
  return r.out.write(resp);
}

}  // namespace kilim::vhca::uverbs
