// SPDX-License-Identifier: BSD-3-Clause
// Identity, capabilities and limits of a virtual adapter: the one place from which uverbs, commands
// and checks read them. A value, fixed when the adapter is made. Names and meaning are those of
// QUERY_HCA_CAP and ibv_query_device.
#pragma once

#include <cstdint>
#include <string_view>

#include "kilim/detail/base/result.hh"

namespace kilim::vhca {

// Operations that may meet a page fault, in the bits of ib_odp_transport_cap_bits (ib_verbs.h).
namespace paged_op {
inline constexpr uint8_t send = 1, receive = 2, write = 4, read = 8, atomic = 16, srq_receive = 32;
inline constexpr uint8_t all = send | receive | write | read | atomic | srq_receive;
}  // namespace paged_op

// How the number of the first data unit stands in a WQE that encrypts a key; none: the adapter
// encrypts nothing. Cards have one or the other (mlx5_ifc.h, aes_xts_single_block_le_tweak and
// aes_xts_multi_block_be_tweak).
enum class CryptoTweak : uint8_t { none, little_endian, big_endian };

struct Profile {
  const char* name = "cx6dx";
  // Identity, as ibv_query_device() and sysfs tell it.
  uint32_t vendor_id = 0x02c9;   // Mellanox's OUI
  uint16_t pci_vendor = 0x15b3;  // Mellanox in the list of PCI vendors
  uint16_t pci_device = 0x101d;  // ConnectX-6 Dx
  uint32_t hw_ver = 0;
  const char* fw_ver = "22.35.1012";
  const char* board_id = "MT_0000000359";

  // Limits in the words of ibv_device_attr: how many objects, and how large one may be. What public
  // dumps of this board say, and where (by field): test/truth/facts.tsv.
  uint32_t max_qp = 1u << 17;
  uint32_t max_qp_wr = 32768;  // work requests of one queue
  uint32_t max_sge = 30;       // data segments of a WQE
  uint32_t max_cq = 1u << 24;
  uint32_t max_cqe = (1u << 22) - 1;  // entries of one queue
  uint32_t max_mr = 1u << 24;         // facts: max_mr, max_mw, log_max_mkey
  uint32_t max_pd = 1u << 23;         // facts: max_pd, log_max_pd
  uint32_t max_ah = 0x7fffffff;
  uint32_t max_srq = 1u << 23;
  uint32_t max_rq = 1u << 23;                 // receive queues of their own
  uint32_t max_sq = 1u << 23;                 // send queues of their own; facts: log_max_sq
  uint32_t max_tis = 1u << 23;                // facts: log_max_tis
  uint32_t max_transport_domains = 1u << 16;  // facts: log_max_transport_domain
  uint32_t max_rqt = 1u << 19;                // tables of them; facts: max_rwq_indirection_tables
  uint8_t log_max_rqt_size = 11;              // places of a table
  uint32_t max_tir = 1u << 16;                // facts: log_max_tir
  uint32_t max_xrcd = 1u << 24;
  uint32_t max_group_members = 240;  // queue pairs of a multicast group; facts: max_mcast_qp_attach
  uint32_t max_groups = 1u << 21;    // facts: max_mcast_grp
  uint32_t max_rd_atomic = 16;       // READs and atomics that a queue has under way
  uint32_t max_sq_desc_bytes = 1024;  // the longest send WQE
  uint32_t max_rq_desc_bytes = 512;   // the longest receive WQE
  uint8_t log_max_msg = 30;           // bytes of a message: 1 GiB, as cards say; 31 at most
  uint32_t gid_table_len = 255;  // entries of a port, most of them empty; facts: port_gid_tbl_len
  // The exponent of the time that a port takes to acknowledge (IBTA, LocalCaAckDelay).
  static constexpr uint32_t local_ca_ack_delay = 16;
  static constexpr uint32_t max_q_counters = 127;  // of clients; facts: max_qp_cnt

  uint16_t lid = 0;  // of an InfiniBand port; 0: the port is Ethernet and speaks RoCE
  // False: RoCE is off (devlink-dev(8), enable_roce), or the port is a representor: its GID table
  // is empty.
  bool roce = true;

  bool devx = true;                      // firmware commands of clients (mlx5dv_devx_*)
  bool atomics = true;                   // compare-and-swap, fetch-and-add of 8 bytes
  bool scatter_to_cqe = true;            // short messages may come in their CQE
  bool block_multicast_loopback = true;  // IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
  bool scatter_fcs = true;               // received frames may keep their check sequence
  bool vlan_stripping = true;            // a tag may go to the CQE
  bool striding_rq = true;               // receive WQEs that many frames share
  bool vlan_insertion = true;            // a send WQE may carry a tag
  // What send WQEs have of each frame: 0 nothing, 1 the Ethernet header, 2 IP's too, 3 TCP's or
  // UDP's (mlx5_ifc.h, min_wqe_inline_mode).
  uint8_t min_inline = 0;
  uint8_t log_max_tso = 18;        // bytes that a send WQE has cut into segments; 0: none
  bool tunnels = true;             // inner headers of VXLAN and GRE: rules, sums, hashes, TSO
  bool egress_rules = true;        // rules of what leaves; headers that they put in front
  bool software_steering = false;  // flow tables in the adapter's memory, by format 0
  bool lro = true;                 // TIRs may join segments of TCP
  uint16_t lro_min_mss = 1;        // of this many bytes at least
  // Places of clients' rules in the kernel's order: 16, and 8 with older ones (DPDK 22.11
  // drivers/net/mlx5/mlx5_flow_verbs.c, flow_verbs_discover_priorities(), tries both).
  uint16_t flow_priorities = 16;
  bool software_parser = true;    // a send WQE may say where headers lie
  bool multi_packet_send = true;  // a send WQE of a raw packet queue may hold many packets
  bool memory_windows = true;
  bool odp = true;           // on-demand paging
  bool odp_implicit = true;  // of the whole address space
  // By transport. Of unreliable connections and raw packet queues no operation is paged.
  uint8_t odp_rc = paged_op::all, odp_xrc = paged_op::all, odp_dc = paged_op::all;
  uint8_t odp_ud = paged_op::send;
  bool raw_packet = true;              // IBV_QPT_RAW_PACKET
  bool umr = true;                     // send queues may change keys
  bool dynamic = true;                 // dynamic connections (DC)
  uint8_t log_max_dci_streams = 6;     // of an initiator; 0: none
  uint8_t log_max_failed_streams = 6;  // before the initiator itself fails
  bool signature = true;               // keys whose blocks are signed
  bool signature_crc32c = true;        // formats that a card may lack
  bool signature_crc64 = true;
  bool signature_4048 = true;                             // blocks of this size
  CryptoTweak crypto_tweak = CryptoTweak::little_endian;  // keys whose bytes are encrypted
  // Global pause: a frame waits on the wire while its receive queue is empty. Without, it is
  // dropped.
  bool flow_control = false;

  // Entries of a tag matching list; 0: none. By Ethernet verbs cannot have it: mlx5_ib wants a
  // global path of the queue for list operations, and libmlx5 gives none.
  uint8_t log_max_tags = 0;
  uint32_t max_rendezvous_header = 64;  // bytes (ibv_tm_caps)

  bool cq_moderation = true;
  bool real_time_clock = false;   // completions may be stamped with the time of day
  bool cqe_padding = true;        // of 128-byte entries to whole ones
  bool cqe_compression = true;    // received frames alike share entries where the client asks
  uint8_t log_max_dma_copy = 23;  // bytes; 0: send queues copy nothing

  uint32_t max_dm_size = 1u << 17;    // bytes of device memory; 0: the adapter has none
  uint8_t log_max_dm_alignment = 12;  // of a block of it; 64 bytes at least

  // What UMRs can do, under the names that QUERY_HCA_CAP has (cmd_hca_cap_bits in the kernel's
  // mlx5_ifc.h).
  uint8_t umr_fence = 1;               // 0 strong, 1 small, 2 none
  uint8_t max_indirection = 4;         // keys below keys
  uint8_t log_max_klm_list_size = 16;  // entries of one key
  bool umr_ptr_rlkey = true;           // a UMR's list may lie in registered memory
  bool repeated_block_disabled = false;
  bool umr_modify_entity_size_disabled = false;
  bool umr_modify_atomic_disabled = false;
  bool umr_indirect_mkey_disabled = false;
  bool umr_extended_translation_offset = true;
};

// "cx6dx" (default), "vf" (no memory windows, no signatures), "strong-fence", "no-fence",
// "no-devx", "real-time" (stamps of the time of day), "long-lists" (keys of 2^20 entries),
// "plain-lists" (one level, inline, nothing optional), "no-umr-lists" (send queues change no list),
// "no-odp" (no on-demand paging), "less-odp" (paging as
// a ConnectX-5 has it: no atomics, XRC and DC without receives of their own), "no-inline" (no data
// in completion entries), "no-dm" (no device memory), "no-dc" (no dynamic connections),
// "no-signature" (no signed keys), "no-crypto" (no encrypted keys), "crypto-be" (tweaks of them in
// the other byte order, as libmlx5 wants for more than one data unit), "no-mpw" (one packet a send
// WQE), "no-tunnels" (nothing of what lies in VXLAN or GRE), "no-swp" (no software parser),
// "sw-steering" (flow tables whose entries software writes, in a ConnectX-5's format),
// "no-lro" (no large receives), "long-lro" (of segments of 1,348 bytes at least), "no-roce" (an
// empty GID table), "short-wqes" (send WQEs of 512 bytes at most), "few-priorities" (8 places for
// flow rules), "no-egress" (no rules of what leaves), "no-tx-offloads" (neither segmentation nor
// VLAN insertion), "inline-l2" and "inline-ip" (send WQEs have the beginning of each frame, as a
// ConnectX-4's), "infiniband" (the port's link layer; loopback only; tag matching); EINVAL for
// another name.
Result<Profile> find_profile(std::string_view name);

}  // namespace kilim::vhca
