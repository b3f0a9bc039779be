// SPDX-License-Identifier: BSD-3-Clause
// Compares the numbers of kilim/prm with those of rdma-core's installed headers. Building this file
// is passing.
#include <infiniband/mlx5dv.h>

#include "kilim/detail/base/units.hh"
#include "kilim/detail/mr/region.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/syndrome.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::prm {

template <typename A, typename B>
constexpr bool same(A ours, B theirs) {
  return static_cast<uint64_t>(ours) == static_cast<uint64_t>(theirs);
}

static_assert(same(Opcode::nop, MLX5_OPCODE_NOP));
static_assert(same(Opcode::send_inval, MLX5_OPCODE_SEND_INVAL));
static_assert(same(Opcode::rdma_write, MLX5_OPCODE_RDMA_WRITE));
static_assert(same(Opcode::rdma_write_imm, MLX5_OPCODE_RDMA_WRITE_IMM));
static_assert(same(Opcode::send, MLX5_OPCODE_SEND));
static_assert(same(Opcode::send_imm, MLX5_OPCODE_SEND_IMM));
static_assert(same(Opcode::tso, MLX5_OPCODE_TSO));
static_assert(same(Opcode::rdma_read, MLX5_OPCODE_RDMA_READ));
static_assert(same(Opcode::atomic_cs, MLX5_OPCODE_ATOMIC_CS));
static_assert(same(Opcode::atomic_fa, MLX5_OPCODE_ATOMIC_FA));
static_assert(same(Opcode::atomic_masked_cs, MLX5_OPCODE_ATOMIC_MASKED_CS));
static_assert(same(Opcode::atomic_masked_fa, MLX5_OPCODE_ATOMIC_MASKED_FA));
static_assert(same(Opcode::local_inval, MLX5_OPCODE_LOCAL_INVAL));
static_assert(same(Opcode::set_psv, MLX5_OPCODE_SET_PSV));
static_assert(same(Opcode::umr, MLX5_OPCODE_UMR));
static_assert(same(Opcode::mmo, MLX5_OPCODE_MMO));

static_assert(same(CqeOpcode::req, MLX5_CQE_REQ));
static_assert(same(CqeOpcode::resp_wr_imm, MLX5_CQE_RESP_WR_IMM));
static_assert(same(CqeOpcode::resp_send, MLX5_CQE_RESP_SEND));
static_assert(same(CqeOpcode::resp_send_imm, MLX5_CQE_RESP_SEND_IMM));
static_assert(same(CqeOpcode::resp_send_inv, MLX5_CQE_RESP_SEND_INV));
static_assert(same(CqeOpcode::resize_cq, MLX5_CQE_RESIZE_CQ));
static_assert(same(CqeOpcode::no_packet, MLX5_CQE_NO_PACKET));
static_assert(same(CqeOpcode::sig_err, MLX5_CQE_SIG_ERR));
static_assert(same(CqeOpcode::req_err, MLX5_CQE_REQ_ERR));
static_assert(same(CqeOpcode::resp_err, MLX5_CQE_RESP_ERR));
static_assert(same(CqeOpcode::invalid, MLX5_CQE_INVALID));
static_assert(same(cqe::owner_bit, MLX5_CQE_OWNER_MASK));
static_assert(same(cqe::inline_scatter_32, MLX5_INLINE_SCATTER_32));
static_assert(same(cqe::inline_scatter_64, MLX5_INLINE_SCATTER_64));
static_assert(same(cqe::l2_ok, MLX5_CQE_L2_OK));
static_assert(same(cqe::l3_ok, MLX5_CQE_L3_OK));
static_assert(same(cqe::l4_ok, MLX5_CQE_L4_OK));
static_assert(same(cqe::l3_none, MLX5_CQE_L3_HDR_TYPE_NONE));
static_assert(same(cqe::l3_ipv6, MLX5_CQE_L3_HDR_TYPE_IPV6));
static_assert(same(cqe::l3_ipv4, MLX5_CQE_L3_HDR_TYPE_IPV4));

static_assert(same(Syndrome::local_length, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR));
static_assert(same(Syndrome::local_qp_op, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR));
static_assert(same(Syndrome::local_prot, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR));
static_assert(same(Syndrome::wr_flush, MLX5_CQE_SYNDROME_WR_FLUSH_ERR));
static_assert(same(Syndrome::mw_bind, MLX5_CQE_SYNDROME_MW_BIND_ERR));
static_assert(same(Syndrome::bad_resp, MLX5_CQE_SYNDROME_BAD_RESP_ERR));
static_assert(same(Syndrome::local_access, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR));
static_assert(same(Syndrome::remote_inval_req, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR));
static_assert(same(Syndrome::remote_access, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR));
static_assert(same(Syndrome::remote_op, MLX5_CQE_SYNDROME_REMOTE_OP_ERR));
static_assert(same(Syndrome::transport_retry_exc, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR));
static_assert(same(Syndrome::rnr_retry_exc, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR));
static_assert(same(Syndrome::remote_aborted, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR));

static_assert(same(ctrl::cq_update, MLX5_WQE_CTRL_CQ_UPDATE));
static_assert(same(ctrl::solicited, MLX5_WQE_CTRL_SOLICITED));
static_assert(same(ctrl::fence, MLX5_WQE_CTRL_FENCE));
static_assert(same(ctrl::small_fence, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE));
static_assert(same(wqebb_bytes, MLX5_SEND_WQE_BB));
static_assert(same(inline_flag, MLX5_INLINE_SEG));
static_assert(same(list_end_lkey, MLX5_INVALID_LKEY));
static_assert(same(eth::l3_csum, MLX5_ETH_WQE_L3_CSUM));
static_assert(same(eth::l4_csum, MLX5_ETH_WQE_L4_CSUM));
static_assert(same(record_receive, MLX5_RCV_DBR));
static_assert(same(record_send, MLX5_SND_DBR));

static_assert(same(umr::inline_list, MLX5_WQE_UMR_CTRL_FLAG_INLINE));
static_assert(same(umr::check_not_free, MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE));
static_assert(same(umr::has_translation_offset, MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET));
static_assert(same(umr::check_qpn, MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN));
static_assert(same(umr::mask_len, MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN));
static_assert(same(umr::mask_start_addr, MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR));
static_assert(same(umr::mask_sig_err, MLX5_WQE_UMR_CTRL_MKEY_MASK_SIG_ERR));
static_assert(same(umr::mask_bsf_enable, MLX5_WQE_UMR_CTRL_MKEY_MASK_BSF_ENABLE));
static_assert(same(umr::mask_mkey, MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY));
static_assert(same(umr::mask_qpn, MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN));
static_assert(same(umr::mask_local_write, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE));
static_assert(same(umr::mask_remote_read, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ));
static_assert(same(umr::mask_remote_write, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE));
static_assert(same(umr::mask_atomic, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC));
static_assert(same(umr::mask_free, MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE));
static_assert(same(mkey::free, MLX5_WQE_MKEY_CONTEXT_FREE));
static_assert(same(mkey::local_read, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_READ));
static_assert(same(mkey::local_write, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE));
static_assert(same(mkey::remote_read, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ));
static_assert(same(mkey::remote_write, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE));
static_assert(same(mkey::atomic, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC));

static_assert(same(mr::Access::local_write, IBV_ACCESS_LOCAL_WRITE));
static_assert(same(mr::Access::remote_write, IBV_ACCESS_REMOTE_WRITE));
static_assert(same(mr::Access::remote_read, IBV_ACCESS_REMOTE_READ));
static_assert(same(mr::Access::remote_atomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(same(mr::Access::relaxed_ordering, IBV_ACCESS_RELAXED_ORDERING));

}  // namespace kilim::inline v1::prm
