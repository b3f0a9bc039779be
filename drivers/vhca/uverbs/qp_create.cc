// SPDX-License-Identifier: BSD-3-Clause
// CREATE_QP as mlx5_ib judges it: types, sizes, flags, what is pinned.
// Adapter's lock held.
#include "vhca/uverbs/qp_create.hh"

#include <bit>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/qp_flags.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t no_bfreg = 1u << 31;
constexpr const char* other_parts =
    "of pd, send_cq, recv_cq, srq and xrcd one is missing, or is there and does not belong to this "
    "qp_type";

// Of a queue pair that the driver alone knows: its flags name one of two.
int dynamic_type(uint32_t flags, QpType& type) {
  switch (flags & (MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT)) {
    case MLX5_QP_FLAG_TYPE_DCI:
      type = QpType::dci;
      return 0;
    case MLX5_QP_FLAG_TYPE_DCT:
      type = QpType::dct;
      return 0;
    default:
      return refusal::text(EINVAL,
                           "qp_type IBV_QPT_DRIVER is a DC initiator or a target: one flag");
  }
}

int type_of(uint64_t verbs_type, const Profile& p, uint32_t flags, QpType& type) {
  switch (verbs_type) {
    case IB_UVERBS_QPT_RC:
      type = QpType::rc;
      return 0;
    case IB_UVERBS_QPT_RAW_PACKET:
      type = QpType::raw_packet;
      return p.raw_packet ? 0 : refusal::lacks("qp_type IBV_QPT_RAW_PACKET");
    case IB_UVERBS_QPT_UC:
      type = QpType::uc;
      return 0;
    case IB_UVERBS_QPT_UD:
      type = QpType::ud;
      return 0;
    case IB_UVERBS_QPT_XRC_INI:
      type = QpType::xrc_ini;
      return 0;
    case IB_UVERBS_QPT_XRC_TGT:
      type = QpType::xrc_tgt;
      return 0;
    case IB_UVERBS_QPT_DRIVER:
      return p.dynamic ? dynamic_type(flags, type)
                       : refusal::lacks("qp_type IBV_QPT_DRIVER (dynamic connections)");
    default:
      return refusal::absent("qp_type", verbs_type);
  }
}

int check_command(const mlx5_ib_create_qp& cmd, const Profile& p) {
  // Enhanced connection establishment is not reported.
  if (cmd.ece_options != 0 || cmd.reserved != 0)
    return refusal::bits("ece_options", cmd.ece_options, 0, EOPNOTSUPP);
  const bool streams = (cmd.flags & MLX5_QP_FLAG_DCI_STREAM) != 0;
  const mlx5_ib_create_qp_dci_streams& s = cmd.dci_streams;
  if (!streams && (s.log_num_concurent != 0 || s.log_num_errored != 0))
    return refusal::clash("dci_streams.log_num_concurent", s.log_num_concurent, cmd.flags,
                          EOPNOTSUPP);
  if (s.log_num_concurent > p.log_max_dci_streams)
    return refusal::most("dci_streams.log_num_concurent", s.log_num_concurent,
                         p.log_max_dci_streams);
  if (s.log_num_errored > p.log_max_failed_streams)
    return refusal::most("dci_streams.log_num_errored", s.log_num_errored,
                         p.log_max_failed_streams);
  return (cmd.uidx & ~0xffffffu) != 0 ? refusal::most("uidx", cmd.uidx, 0xffffff) : 0;
}

int check_sizes(hca::Hca& h, const mlx5_ib_create_qp& cmd, const ib_uverbs_qp_cap& cap) {
  const Profile& p = h.config.profile;
  if (cap.max_send_wr > p.max_qp_wr)
    return hca::refuse_verb(h, -EINVAL,
                            {hca::VerbRefusal::qp_send_wr, cap.max_send_wr, p.max_qp_wr});
  if (cap.max_recv_wr > p.max_qp_wr)
    return hca::refuse_verb(h, -EINVAL,
                            {hca::VerbRefusal::qp_recv_wr, cap.max_recv_wr, p.max_qp_wr});
  if (cmd.sq_wqe_count != 0 &&
      (!std::has_single_bit(cmd.sq_wqe_count) || cmd.sq_wqe_count > p.max_qp_wr))
    return refusal::most("sq_wqe_count (a power of two)", cmd.sq_wqe_count, p.max_qp_wr);
  if (cmd.rq_wqe_count == 0) return 0;
  bool signature = (cmd.flags & MLX5_QP_FLAG_SIGNATURE) != 0;
  if (!std::has_single_bit(cmd.rq_wqe_count) || cmd.rq_wqe_count > p.max_qp_wr)
    return refusal::most("rq_wqe_count (a power of two)", cmd.rq_wqe_count, p.max_qp_wr);
  const uint64_t bytes = cmd.rq_wqe_shift > 31 ? UINT64_MAX : uint64_t{1} << cmd.rq_wqe_shift;
  const uint64_t least = signature ? 32 : 16;
  if (bytes < least || bytes > p.max_rq_desc_bytes)
    return refusal::range("a receive WQE (by rq_wqe_shift), in bytes,", bytes, least,
                          p.max_rq_desc_bytes);
  return 0;
}

QpSpec spec_of(const QpRequest& q, const mlx5_ib_create_qp& cmd, QpObject& qp) {
  QpSpec s;
  s.type = qp.type;
  if (q.pd != nullptr) s.pd = q.pd->pdn;
  if (q.send_cq != nullptr) s.send_cq = q.send_cq->cqn;
  if (q.recv_cq != nullptr) s.recv_cq = q.recv_cq->cqn;
  if (q.srq != nullptr) s.srqn = q.srq->srqn;
  if (q.xrcd != nullptr) s.xrcd = q.xrcd->xrcd;
  s.buf = Va{cmd.buf_addr};
  s.sq_buf = Va{qp.type == QpType::raw_packet ? cmd.sq_buf_addr : 0};
  s.record = Va{cmd.db_addr};
  s.dc_key = qp.type == QpType::dct ? cmd.access_key : 0;
  if (qp.type == QpType::dci && (cmd.flags & MLX5_QP_FLAG_DCI_STREAM) != 0)
    s.failing_streams = 1u << cmd.dci_streams.log_num_errored;
  s.sq_wqebbs = cmd.sq_wqe_count;
  s.rq_wqes = cmd.rq_wqe_count;
  s.rq_wqe_shift = cmd.rq_wqe_shift;
  s.uar_page = cmd.bfreg_index;
  s.uidx = cmd.uidx;
  s.owner = static_cast<Object*>(&qp);
  return s;
}

QpWishes wishes_of(const QpRequest& q, const mlx5_ib_create_qp& cmd) {
  return {q.create_flags, cmd.flags, q.sq_sig_all, q.send_cq != nullptr ? q.send_cq->cqe_bytes : 0,
          q.recv_cq != nullptr ? q.recv_cq->cqe_bytes : 0};
}

// What QUERY_QP and the creator are told: the receive side as it is, the send side as asked.
ib_uverbs_qp_cap granted(const QpRequest& q, const mlx5_ib_create_qp& cmd) {
  ib_uverbs_qp_cap cap = q.cap;
  cap.max_recv_wr = cmd.rq_wqe_count;
  uint32_t segments = cmd.rq_wqe_count != 0 ? (1u << cmd.rq_wqe_shift) / 16 : 0;
  bool signature = segments != 0 && (cmd.flags & MLX5_QP_FLAG_SIGNATURE) != 0;
  cap.max_recv_sge = segments - (signature ? 1 : 0);
  return cap;
}

// What ib_uverbs wants of each type: a target has a domain and nothing else, an initiator does not
// receive.
bool has_its_parts(const QpRequest& q, QpType type) {
  if (type == QpType::xrc_tgt)
    return q.xrcd != nullptr && q.pd == nullptr && q.send_cq == nullptr && q.srq == nullptr;
  if (q.pd == nullptr || q.send_cq == nullptr || q.xrcd != nullptr) return false;
  if (type == QpType::xrc_ini) return q.srq == nullptr;
  if (type == QpType::dct && q.srq == nullptr) return false;
  if (type == QpType::dci && (q.cap.max_recv_wr != 0 || q.cap.max_recv_sge != 0)) return false;
  return q.recv_cq != nullptr && (q.srq == nullptr || type != QpType::raw_packet);
}

// One buffer holds both rings but for raw packets; targets have none.
int pin(Context& context, const QpSpec& s, QueuePins& pins) {
  if (!has_rings(s.type)) return 0;
  const uint64_t received = uint64_t{s.rq_wqes} << (s.rq_wqes != 0 ? s.rq_wqe_shift : 0);
  const uint64_t sent = uint64_t{s.sq_wqebbs} * 64;
  const bool two = s.sq_buf.value() != 0;
  return pins.take(context.record_pages, {s.buf, two ? received : received + sent},
                   {s.sq_buf, two ? sent : 0}, s.record);
}

// The driver's part, and what mlx5_ib checks of it before it looks at memory.
int read_driver_part(hca::Hca& h, const QpRequest& q, const InBuffer& in, QpType& type,
                     mlx5_ib_create_qp& cmd) {
  const Profile& p = h.config.profile;
  const bool whole = in.bytes() >= offsetof(mlx5_ib_create_qp, sq_buf_addr);
  if (int err = whole ? in.read(cmd) : 0; err != 0) return err;
  if (int err = type_of(q.type, p, cmd.flags, type); err != 0) return err;
  if (!has_its_parts(q, type)) return refusal::text(EINVAL, other_parts);
  if (!whole)
    return refusal::bytes("mlx5_ib_create_qp", in.bytes(),
                          offsetof(mlx5_ib_create_qp, sq_buf_addr));
  if (int err = check_command(cmd, p); err != 0) return err;
  // mlx5_ib makes a target without looking at the rings that libmlx5 laid out for it.
  if (type == QpType::xrc_tgt) cmd.sq_wqe_count = cmd.rq_wqe_count = 0;
  return check_sizes(h, cmd, q.cap);
}

// The TIR of its receive queue, by number and by the address that software's steering entries have
// for it. Without these nobody but rules of the queue pair would use it.
int tell_tir(const Context& context, QpObject& qp, const QpSpec& s, mlx5_ib_create_qp_resp& resp) {
  if (!context.hca.config.profile.software_steering || s.rq_wqes == 0) return 0;
  const Result<uint32_t> tirn = hca::create_qp_tir(context.hca, qp.qpn);
  if (!tirn) return refusal::of(tirn.error());
  qp.tirn = resp.tirn = *tirn;
  resp.tir_icm_addr = ethernet::icm_end::address_of(ethernet::IcmEnd::tir, *tirn);
  resp.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_TIRN | MLX5_IB_CREATE_QP_RESP_MASK_TIR_ICM_ADDR;
  return 0;
}

// What firmware commands may ask of a raw packet queue pair, told to who has these
// (create_raw_packet_qp()): its queues and the TIS, which is in the open's transport domain.
int tell_numbers(Context& context, QpObject& qp, const QpSpec& s, mlx5_ib_create_qp_resp& resp) {
  if (!context.devx || qp.type != QpType::raw_packet) return 0;
  if (int err = tell_tir(context, qp, s, resp); err != 0) return err;
  if (s.sq_wqebbs == 0) return 0;
  if (context.domain == 0) {
    const Result<uint32_t> domain = hca::alloc_domain(context.hca, &context);
    if (!domain) return refusal::of(domain.error());
    context.domain = *domain;
  }
  const Result<uint32_t> tisn = hca::create_tis(context.hca, context.domain, &context);
  if (!tisn) return refusal::of(tisn.error());
  qp.tisn = *tisn;
  resp.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_TISN | MLX5_IB_CREATE_QP_RESP_MASK_SQN;
  resp.tisn = *tisn;
  resp.sqn = qp.qpn.value();
  return 0;
}

}  // namespace

Result<QpObject*> create_qp_object(Context& context, const QpRequest& q, const Request& r) {
  if (q.table != nullptr) return create_hash_qp_object(context, q, r);
  const Profile& p = context.hca.config.profile;
  QpType type{};
  mlx5_ib_create_qp cmd{};
  if (int err = read_driver_part(context.hca, q, r.driver_in, type, cmd); err != 0)
    return Error{-err};
  auto made = std::make_unique<QpObject>();
  QpObject& qp = *made;
  qp.type = type;
  QpSpec spec = spec_of(q, cmd, qp);
  if (int err = apply_flags(wishes_of(q, cmd), p, spec); err != 0) return Error{-err};
  qp.user_handle = q.user_handle;
  qp.cap = granted(q, cmd);
  qp.sq_sig_all = q.sq_sig_all;
  if (int err = pin(context, spec, qp.pins); err != 0) return Error{-err};
  if (q.async != nullptr) {
    if (int err = q.async->hold(); err != 0) return Error{-err};
  }
  Result<Qpn> qpn = hca::create_qp(context.hca, spec, &context);
  if (!qpn) {
    if (q.async != nullptr) q.async->let_go();
    return Error{-refusal::of(qpn.error())};
  }
  qp.qpn = *qpn;
  qp.async = q.async;
  context.add(std::move(made), {q.pd, q.send_cq, q.recv_cq, q.srq, q.xrcd});
  mlx5_ib_create_qp_resp resp{};
  resp.bfreg_index = no_bfreg;
  int err = tell_numbers(context, qp, spec, resp);
  if (err == 0) err = r.driver_out.write(resp);
  if (context.keep_unless(err, qp) != 0) return Error{-err};
  return &qp;
}

}  // namespace kilim::vhca::uverbs
