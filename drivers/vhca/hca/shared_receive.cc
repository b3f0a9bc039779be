// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_SRQ", "CREATE_XRC_SRQ", "CREATE_XRQ", "ALLOC_XRCD". Adapter's lock held.
#include <bit>
#include <cerrno>
#include <memory>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/memory/probe.hh"
#include "vhca/transport/responder_wire.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint32_t srq_record_bytes = 4;

bool has_cq(const SrqSpec& s) noexcept {
  return s.xrc || s.tags != 0;
}

// Null: nothing to object to.
const char* objection(const Hca& h, const SrqSpec& s) noexcept {
  const Profile& p = h.config.profile;
  if (!h.pd_exists(s.pd)) return "no such protection domain";
  if (!std::has_single_bit(s.wqes) || s.wqes > p.max_qp_wr) return "size of a shared receive queue";
  if (s.wqe_shift < 5 || 1u << s.wqe_shift > p.max_rq_desc_bytes) return "size of a receive WQE";
  if (s.limit >= s.wqes) return "a limit beyond the queue";
  if (s.record.value() % 4 != 0) return "doorbell record not aligned";
  if (s.xrc && h.xrcds.at(s.xrcd) == nullptr) return "no such XRC domain";
  if (s.tags != 0 && (s.xrc || !std::has_single_bit(s.tags) || s.tags > 1u << p.log_max_tags))
    return "size of a matching list";
  if (has_cq(s) && h.cqs.at(s.cq.value()) == nullptr) return "no such completion queue";
  return nullptr;
}

void count_users(Hca& h, const wq::Srq& srq, uint32_t by) noexcept {
  h.pds.at(srq.spec.pd.value())->users += by;
  if (srq.cq != nullptr) srq.cq->users += by;
  if (srq.spec.xrc) h.xrcds.at(srq.spec.xrcd)->users += by;
}

Xrcd* xrcd_of(const Hca& h, const XrcdSpec& s, uint32_t& number) {
  Xrcd* found = nullptr;
  h.xrcds.for_each([&](Xrcd& x) {
    if (x.by_file && x.device == s.device && x.inode == s.inode) found = &x;
  });
  if (found != nullptr) number = found->number;
  return found;
}

}  // namespace

Result<uint32_t> create_srq(Hca& h, const SrqSpec& s, EventSink* sink) {
  if (const char* why = objection(h, s)) return Error{EINVAL, why};
  // The adapter only reads both (Linux drivers/infiniband/hw/mlx5/srq.c, create_srq_user()).
  int rc = memory::probe_range(s.buf, uint64_t{s.wqes} << s.wqe_shift, false);
  if (rc == 0) rc = memory::probe_range(s.record, srq_record_bytes, false);
  if (rc != 0) return Error{-rc, "the memory of the shared receive queue is not there"};
  uint32_t number = 0;
  wq::Srq* srq = h.srqs.create(number);
  if (srq == nullptr) return Error{ENOMEM, "the adapter has no more shared receive queues"};
  srq->srqn = number;
  srq->spec = s;
  srq->sink = sink;
  srq->cq = has_cq(s) ? h.cqs.at(s.cq.value()) : nullptr;
  if (s.tags != 0) srq->tags = std::make_unique<wq::TagList>(s.tags);
  count_users(h, *srq, 1);
  if (h.lint) h.lint->add(*srq);
  return number;
}

int set_srq_limit(Hca& h, uint32_t srqn, uint32_t limit) {
  wq::Srq* srq = h.srqs.at(srqn);
  if (srq == nullptr) return refusal::absent("srqn", srqn);
  if (limit >= srq->spec.wqes) return refusal::most("srq_limit", limit, srq->spec.wqes - 1);
  srq->limit = limit;
  wq::check_limit(h.context, *srq);
  return 0;
}

Result<uint32_t> query_srq_limit(const Hca& h, uint32_t srqn) {
  const wq::Srq* srq = h.srqs.at(srqn);
  if (srq == nullptr) return Error{EINVAL, "no such shared receive queue"};
  return uint32_t{srq->limit};
}

int destroy_srq(Hca& h, uint32_t srqn) {
  wq::Srq* srq = h.srqs.at(srqn);
  if (srq == nullptr) return refusal::absent("srqn", srqn);
  if (srq->users != 0) return refusal::busy("the shared receive queue", srq->users);
  // XRC targets answer for a queue only while a request names it.
  h.qps.for_each([&](wq::Qp& qp) {
    if (qp.srq != srq) return;
    transport::forget_shared(qp);
    qp.srq = nullptr;
    qp.recv_cq = nullptr;
  });
  count_users(h, *srq, ~0u);
  if (h.lint) h.lint->remove(*srq);
  h.srqs.destroy(srqn);
  return 0;
}

Result<uint32_t> open_xrcd(Hca& h, const XrcdSpec& s) {
  uint32_t number = 0;
  Xrcd* x = s.by_file ? xrcd_of(h, s, number) : nullptr;
  if (x != nullptr && s.exclusive) return Error{EINVAL, "the file has an XRC domain already"};
  if (x == nullptr && s.by_file && !s.create) return Error{EAGAIN, "the file has no XRC domain"};
  if (x == nullptr) {
    x = h.xrcds.create(number);
    if (x == nullptr) return Error{ENOMEM, "the adapter has no more XRC domains"};
    *x = {number, 0, 0, s.by_file, s.device, s.inode};
  }
  x->opens++;
  return number;
}

int close_xrcd(Hca& h, uint32_t xrcd) {
  Xrcd* x = h.xrcds.at(xrcd);
  if (x == nullptr) return refusal::absent("xrcd", xrcd);
  if (x->opens == 1 && x->users != 0) return refusal::busy("the XRC domain", x->users);
  if (--x->opens == 0) h.xrcds.destroy(xrcd);
  return 0;
}

}  // namespace kilim::vhca::hca
