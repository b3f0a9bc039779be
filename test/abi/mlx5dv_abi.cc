// SPDX-License-Identifier: BSD-3-Clause
// Compares every format of kilim/prm that rdma-core's installed header has too, field by field.
// Building this file is passing: library and virtual adapter share prm, so nothing else would
// notice an offset that is wrong in it.
#include <cstddef>

#include <infiniband/mlx5dv.h>

#include "kilim/prm/cqe.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::prm {

// One field: same offset, same width.
#define KILIM_SAME(Ours, ours, Theirs, theirs)                      \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs) && \
                sizeof(Ours::ours) == sizeof(Theirs::theirs))

static_assert(sizeof(CtrlSeg) == sizeof(mlx5_wqe_ctrl_seg));
KILIM_SAME(CtrlSeg, opmod_idx_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
KILIM_SAME(CtrlSeg, qpn_ds, mlx5_wqe_ctrl_seg, qpn_ds);
KILIM_SAME(CtrlSeg, signature, mlx5_wqe_ctrl_seg, signature);
KILIM_SAME(CtrlSeg, dci_stream_channel_id, mlx5_wqe_ctrl_seg, dci_stream_channel_id);
KILIM_SAME(CtrlSeg, fm_ce_se, mlx5_wqe_ctrl_seg, fm_ce_se);
KILIM_SAME(CtrlSeg, imm, mlx5_wqe_ctrl_seg, imm);

static_assert(sizeof(DataSeg) == sizeof(mlx5_wqe_data_seg));
KILIM_SAME(DataSeg, byte_count, mlx5_wqe_data_seg, byte_count);
KILIM_SAME(DataSeg, lkey, mlx5_wqe_data_seg, lkey);
KILIM_SAME(DataSeg, addr, mlx5_wqe_data_seg, addr);

static_assert(sizeof(InlineSeg) == sizeof(mlx5_wqe_inl_data_seg));
static_assert(sizeof(RaddrSeg) == sizeof(mlx5_wqe_raddr_seg));
KILIM_SAME(RaddrSeg, raddr, mlx5_wqe_raddr_seg, raddr);
KILIM_SAME(RaddrSeg, rkey, mlx5_wqe_raddr_seg, rkey);
static_assert(sizeof(AtomicSeg) == sizeof(mlx5_wqe_atomic_seg));
KILIM_SAME(AtomicSeg, swap_add, mlx5_wqe_atomic_seg, swap_add);
KILIM_SAME(AtomicSeg, compare, mlx5_wqe_atomic_seg, compare);

// Ours ends where the second segment of a WQE without inline data ends.
static_assert(sizeof(EthSeg) == offsetof(mlx5_wqe_eth_seg, inline_hdr));
KILIM_SAME(EthSeg, cs_flags, mlx5_wqe_eth_seg, cs_flags);
KILIM_SAME(EthSeg, mss, mlx5_wqe_eth_seg, mss);
KILIM_SAME(EthSeg, inline_hdr_sz, mlx5_wqe_eth_seg, inline_hdr_sz);
KILIM_SAME(EthSeg, inline_hdr_start, mlx5_wqe_eth_seg, inline_hdr_start);

static_assert(sizeof(UmrCtrlSeg) == sizeof(mlx5_wqe_umr_ctrl_seg));
KILIM_SAME(UmrCtrlSeg, flags, mlx5_wqe_umr_ctrl_seg, flags);
KILIM_SAME(UmrCtrlSeg, klm_octowords, mlx5_wqe_umr_ctrl_seg, klm_octowords);
KILIM_SAME(UmrCtrlSeg, translation_offset, mlx5_wqe_umr_ctrl_seg, translation_offset);
KILIM_SAME(UmrCtrlSeg, mkey_mask, mlx5_wqe_umr_ctrl_seg, mkey_mask);

static_assert(sizeof(MkeyContextSeg) == sizeof(mlx5_wqe_mkey_context_seg));
KILIM_SAME(MkeyContextSeg, free, mlx5_wqe_mkey_context_seg, free);
KILIM_SAME(MkeyContextSeg, access_flags, mlx5_wqe_mkey_context_seg, access_flags);
KILIM_SAME(MkeyContextSeg, sf, mlx5_wqe_mkey_context_seg, sf);
KILIM_SAME(MkeyContextSeg, qpn_mkey, mlx5_wqe_mkey_context_seg, qpn_mkey);
KILIM_SAME(MkeyContextSeg, flags_pd, mlx5_wqe_mkey_context_seg, flags_pd);
KILIM_SAME(MkeyContextSeg, start_addr, mlx5_wqe_mkey_context_seg, start_addr);
KILIM_SAME(MkeyContextSeg, len, mlx5_wqe_mkey_context_seg, len);
KILIM_SAME(MkeyContextSeg, bsf_octword_size, mlx5_wqe_mkey_context_seg, bsf_octword_size);
KILIM_SAME(MkeyContextSeg, translations_octword_size, mlx5_wqe_mkey_context_seg,
           translations_octword_size);
KILIM_SAME(MkeyContextSeg, log_page_size, mlx5_wqe_mkey_context_seg, log_page_size);

static_assert(sizeof(Klm) == sizeof(mlx5_wqe_umr_klm_seg));
KILIM_SAME(Klm, byte_count, mlx5_wqe_umr_klm_seg, byte_count);
KILIM_SAME(Klm, mkey, mlx5_wqe_umr_klm_seg, mkey);
KILIM_SAME(Klm, address, mlx5_wqe_umr_klm_seg, address);

static_assert(sizeof(RepeatBlockSeg) == sizeof(mlx5_wqe_umr_repeat_block_seg));
KILIM_SAME(RepeatBlockSeg, byte_count, mlx5_wqe_umr_repeat_block_seg, byte_count);
KILIM_SAME(RepeatBlockSeg, op, mlx5_wqe_umr_repeat_block_seg, op);
KILIM_SAME(RepeatBlockSeg, repeat_count, mlx5_wqe_umr_repeat_block_seg, repeat_count);
KILIM_SAME(RepeatBlockSeg, num_ent, mlx5_wqe_umr_repeat_block_seg, num_ent);
static_assert(sizeof(RepeatEntSeg) == sizeof(mlx5_wqe_umr_repeat_ent_seg));
KILIM_SAME(RepeatEntSeg, stride, mlx5_wqe_umr_repeat_ent_seg, stride);
KILIM_SAME(RepeatEntSeg, byte_count, mlx5_wqe_umr_repeat_ent_seg, byte_count);
KILIM_SAME(RepeatEntSeg, memkey, mlx5_wqe_umr_repeat_ent_seg, memkey);
KILIM_SAME(RepeatEntSeg, va, mlx5_wqe_umr_repeat_ent_seg, va);

static_assert(sizeof(Cqe) == sizeof(mlx5_cqe64));
KILIM_SAME(Cqe, wqe_id, mlx5_cqe64, wqe_id);
KILIM_SAME(Cqe, ml_path, mlx5_cqe64, ml_path);
KILIM_SAME(Cqe, slid, mlx5_cqe64, slid);
KILIM_SAME(Cqe, flags_rqpn, mlx5_cqe64, flags_rqpn);
KILIM_SAME(Cqe, hds_ip_ext, mlx5_cqe64, hds_ip_ext);
KILIM_SAME(Cqe, l4_hdr_type_etc, mlx5_cqe64, l4_hdr_type_etc);
KILIM_SAME(Cqe, vlan_info, mlx5_cqe64, vlan_info);
KILIM_SAME(Cqe, srqn_uidx, mlx5_cqe64, srqn_uidx);
KILIM_SAME(Cqe, imm_inval_pkey, mlx5_cqe64, imm_inval_pkey);
KILIM_SAME(Cqe, app, mlx5_cqe64, app);
KILIM_SAME(Cqe, app_op, mlx5_cqe64, app_op);
KILIM_SAME(Cqe, app_info, mlx5_cqe64, app_info);
KILIM_SAME(Cqe, byte_cnt, mlx5_cqe64, byte_cnt);
KILIM_SAME(Cqe, timestamp, mlx5_cqe64, timestamp);
KILIM_SAME(Cqe, sop_drop_qpn, mlx5_cqe64, sop_drop_qpn);
KILIM_SAME(Cqe, wqe_counter, mlx5_cqe64, wqe_counter);
KILIM_SAME(Cqe, signature, mlx5_cqe64, signature);
KILIM_SAME(Cqe, op_own, mlx5_cqe64, op_own);

static_assert(sizeof(ErrCqe) == sizeof(mlx5_err_cqe));
KILIM_SAME(ErrCqe, srqn, mlx5_err_cqe, srqn);
KILIM_SAME(ErrCqe, vendor_err_synd, mlx5_err_cqe, vendor_err_synd);
KILIM_SAME(ErrCqe, syndrome, mlx5_err_cqe, syndrome);
KILIM_SAME(ErrCqe, s_wqe_opcode_qpn, mlx5_err_cqe, s_wqe_opcode_qpn);
KILIM_SAME(ErrCqe, wqe_counter, mlx5_err_cqe, wqe_counter);
KILIM_SAME(ErrCqe, signature, mlx5_err_cqe, signature);
KILIM_SAME(ErrCqe, op_own, mlx5_err_cqe, op_own);

}  // namespace kilim::inline v1::prm
