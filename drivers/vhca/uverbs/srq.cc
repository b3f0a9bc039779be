// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues, basic, XRC and tag matching ones, by the older commands: their method is
// absent, by which rdma-core knows to send these. Adapter's lock held.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t event_srq_err = 14, event_srq_limit = 15;

struct SrqRequest {
  PdObject* pd = nullptr;
  CqObject* cq = nullptr;      // of an XRC queue, and of one that matches tags
  XrcdObject* xrcd = nullptr;  // of an XRC queue
  uint64_t user_handle = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  uint32_t limit = 0;
  uint32_t tags = 0;  // to be held at a time; 0: it matches none
};

int check_driver_part(const Request& r, mlx5_ib_create_srq& cmd) {
  if (r.driver_in.bytes() < offsetof(mlx5_ib_create_srq, uidx))
    return refusal::bytes("mlx5_ib_create_srq", r.driver_in.bytes(),
                          offsetof(mlx5_ib_create_srq, uidx));
  if (int err = r.driver_in.read(cmd); err != 0) return err;
  constexpr uint32_t signature = 1;
  if (cmd.reserved0 != 0 || cmd.reserved1 != 0 || (cmd.flags & ~signature) != 0)
    return refusal::bits("mlx5_ib_create_srq.flags", cmd.flags, signature);
  return (cmd.uidx & ~0xffffffu) != 0 ? refusal::most("uidx", cmd.uidx, 0xffffff) : 0;
}

// As mlx5_ib sizes the ring, which the client library has laid out before it asks.
int size(hca::Hca& h, const SrqRequest& q, SrqSpec& s) {
  const Profile& p = h.config.profile;
  constexpr uint32_t link_bytes = 16, segment_bytes = 16, least_bytes = 32;
  const uint32_t max_sge = (p.max_rq_desc_bytes - link_bytes) / segment_bytes;
  if (q.max_wr >= p.max_qp_wr)
    return hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::srq_wr, q.max_wr, p.max_qp_wr - 1});
  if (q.max_sge > max_sge)
    return hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::srq_sge, q.max_sge, max_sge});
  s.wqes = std::bit_ceil(q.max_wr + 1);
  uint32_t bytes = std::bit_ceil(std::max(link_bytes + q.max_sge * segment_bytes, least_bytes));
  s.wqe_shift = static_cast<uint32_t>(std::bit_width(bytes) - 1);
  return 0;
}

bool lists_fit(const Profile& p, uint32_t tags) {
  return tags != 0 && p.log_max_tags != 0 && tags < 1u << p.log_max_tags;
}

Result<SrqObject*> create(Context& context, const SrqRequest& q, const Request& r) {
  if (q.pd == nullptr)
    return Error{-refusal::text(EINVAL, "pd names no protection domain of this context")};
  mlx5_ib_create_srq cmd;
  if (int err = check_driver_part(r, cmd); err != 0) return Error{-err};
  auto made = std::make_unique<SrqObject>();
  SrqObject& srq = *made;
  srq.user_handle = q.user_handle;
  SrqSpec s;
  if (int err = size(context.hca, q, s); err != 0) return Error{-err};
  s.pd = q.pd->pdn;
  s.buf = Va{cmd.buf_addr};
  s.record = Va{cmd.db_addr};
  s.limit = q.limit;
  s.uidx = cmd.uidx;
  s.xrc = q.xrcd != nullptr;
  if (s.xrc) s.xrcd = q.xrcd->xrcd;
  if (q.cq != nullptr) s.cq = q.cq->cqn;
  // As mlx5_ib, which asks for twice the power of two below.
  if (q.tags != 0) s.tags = 2 * std::bit_floor(q.tags);
  s.owner = static_cast<Object*>(&srq);
  srq.max_wr = s.wqes - 1;
  srq.max_sge = (1u << s.wqe_shift) / 16 - 1;
  const QueuePins::Ring ring{s.buf, uint64_t{s.wqes} << s.wqe_shift};
  if (int err = srq.pins.take(context.record_pages, ring, {}, s.record); err != 0)
    return Error{-err};
  EventFile* async = context.default_async;
  if (async != nullptr) {
    if (int err = async->hold(); err != 0) return Error{-err};
  }
  Result<uint32_t> srqn = hca::create_srq(context.hca, s, &context);
  if (!srqn) {
    if (async != nullptr) async->let_go();
    return Error{-refusal::of(srqn.error())};
  }
  srq.srqn = *srqn;
  srq.matches_tags = s.tags != 0;
  srq.async = async;
  context.add(std::move(made), {q.pd, q.cq, q.xrcd});
  int err = r.driver_out.write(mlx5_ib_create_srq_resp{*srqn, 0});
  if (context.keep_unless(err, srq) != 0) return Error{-err};
  return &srq;
}

int answer(Context& context, const Result<SrqObject*>& srq, const Request& r) {
  if (!srq) return refusal::of(srq.error());
  ib_uverbs_create_srq_resp resp{(*srq)->handle, (*srq)->max_wr, (*srq)->max_sge, (*srq)->srqn};
  return context.keep_unless(r.out.write(&resp, sizeof resp), **srq);
}

}  // namespace

int SrqObject::release(Context& context) {
  if (int err = hca::destroy_srq(context.hca, srqn); err != 0) return err;
  if (async != nullptr) {
    async->withdraw_posted(user_handle, event_srq_err, event_srq_limit);
    async->let_go();
  }
  return 0;
}

namespace {

// What both commands ask for.
template <typename Command>
SrqRequest plain_request(Context& context, const Command& cmd) {
  return {context.find<PdObject>(cmd.pd_handle),
          nullptr,
          nullptr,
          cmd.user_handle,
          cmd.max_wr,
          cmd.max_sge,
          cmd.srq_limit,
          0};
}

}  // namespace

int cmd_create_srq(Context& context, const Request& r) {
  ib_uverbs_create_srq cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  return answer(context, create(context, plain_request(context, cmd), r), r);
}

int cmd_create_xsrq(Context& context, const Request& r) {
  ib_uverbs_create_xsrq cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  SrqRequest q = plain_request(context, cmd);
  switch (cmd.srq_type) {
    case IB_UVERBS_SRQT_BASIC:
      break;
    case IB_UVERBS_SRQT_XRC:
      q.cq = context.find<CqObject>(cmd.cq_handle);
      q.xrcd = context.find<XrcdObject>(cmd.xrcd_handle);
      if (q.cq == nullptr) return refusal::absent("cq", cmd.cq_handle);
      if (q.xrcd == nullptr) return refusal::absent("xrcd", cmd.xrcd_handle);
      break;
    case IB_UVERBS_SRQT_TM:
      q.cq = context.find<CqObject>(cmd.cq_handle);
      q.tags = cmd.max_num_tags;
      if (q.cq == nullptr) return refusal::absent("cq", cmd.cq_handle);
      if (!lists_fit(context.hca.config.profile, q.tags))
        return refusal::range("tm_cap.max_num_tags", q.tags, 1,
                              (1u << context.hca.config.profile.log_max_tags) - 1);
      break;
    default:
      return refusal::most("srq_type", cmd.srq_type, IB_UVERBS_SRQT_TM);
  }
  return answer(context, create(context, q, r), r);
}

int cmd_modify_srq(Context& context, const Request& r) {
  constexpr uint32_t mask_max_wr = 1, mask_limit = 2;
  ib_uverbs_modify_srq cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  const auto* srq = context.find<SrqObject>(cmd.srq_handle);
  if (srq == nullptr) return refusal::absent("srq_handle", cmd.srq_handle);
  // As mlx5_ib: a queue keeps its size.
  if ((cmd.attr_mask & mask_max_wr) != 0)
    return refusal::bits("srq_attr_mask (a queue keeps its size)", cmd.attr_mask, mask_limit);
  if ((cmd.attr_mask & mask_limit) == 0) return 0;
  return hca::set_srq_limit(context.hca, srq->srqn, cmd.srq_limit);
}

int cmd_query_srq(Context& context, const Request& r) {
  ib_uverbs_query_srq cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  const auto* srq = context.find<SrqObject>(cmd.srq_handle);
  if (srq == nullptr) return refusal::absent("srq_handle", cmd.srq_handle);
  Result<uint32_t> limit = hca::query_srq_limit(context.hca, srq->srqn);
  if (!limit) return refusal::of(limit.error());
  return r.out.write(ib_uverbs_query_srq_resp{srq->max_wr, srq->max_sge, *limit, 0});
}

int cmd_destroy_srq(Context& context, const Request& r) {
  ib_uverbs_destroy_srq cmd;
  if (int err = r.in.read(cmd); err != 0) return err;
  if (context.object(cmd.srq_handle) == nullptr)
    return refusal::absent("srq_handle", cmd.srq_handle, ENOENT);
  auto* srq = context.find<SrqObject>(cmd.srq_handle);
  if (srq == nullptr) return refusal::absent("srq_handle", cmd.srq_handle);
  if (srq->users != 0)
    return hca::refuse_verb(context.hca, -EBUSY, {hca::VerbRefusal::srq_busy, srq->users});
  if (srq->async != nullptr)
    srq->async_posted -=
        srq->async->withdraw_posted(srq->user_handle, event_srq_err, event_srq_limit);
  ib_uverbs_destroy_srq_resp resp{srq->async_posted};
  if (int err = context.destroy(*srq); err != 0) return err;
  return r.out.write(resp);
}

}  // namespace kilim::vhca::uverbs
