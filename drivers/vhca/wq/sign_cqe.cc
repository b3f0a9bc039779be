// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Signature Error CQE". Adapter's lock held. Never allocates.
#include "vhca/wq/sign_cqe.hh"

#include <cstring>

#include "kilim/prm/bsf_seg.hh"
#include "vhca/core/journal.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::wq {

namespace {

bool write_one(EngineContext& context, Qp& qp, Cq& cq, const tpt::SignError& e) noexcept {
  auto high = [](uint64_t v) { return be32{static_cast<uint32_t>(v >> 32)}; };
  auto low = [](uint64_t v) { return be32{static_cast<uint32_t>(v)}; };
  prm::SigErrCqe err{};
  err.expected_high = high(e.expected);
  err.expected_low = low(e.expected);
  err.actual_high = high(e.actual);
  err.actual_low = low(e.actual);
  err.syndrome = be16{e.syndrome};
  err.type = e.transaction ? prm::sig_err::transaction : prm::sig_err::block;
  err.domain = e.domain;
  err.mkey = be32{e.key};
  err.offset = be64{e.offset};
  prm::Cqe cqe;
  static_assert(sizeof(cqe) == sizeof(err));
  std::memcpy(&cqe, &err, sizeof(cqe));
  context.journal->sign_error(e.key, e.domain, e.syndrome, e.offset);
  context.journal->cqe(cq.cqn, qp.qpn, static_cast<uint8_t>(prm::CqeOpcode::sig_err), 0, 0);
  return write_cqe(context, cq, cqe, prm::CqeOpcode::sig_err, false);
}

}  // namespace

void write_sign_errors(EngineContext& context, Qp& qp, Cq& cq, SignEnd end) noexcept {
  tpt::SignErrors& errors = context.keys->sign_errors();
  uint8_t left = 0;
  bool written = true;
  for (uint8_t i = 0; i < errors.count; i++) {
    const tpt::SignError e = errors.list[i];
    const bool mine = end == SignEnd::both || e.at_target == (end == SignEnd::target);
    if (mine)
      written = write_one(context, qp, cq, e) && written;
    else
      errors.list[left++] = e;
  }
  errors.count = left;
  if (!written) fatal_qp(context, qp, "no place for a wrong signature in the CQ");
}

void stop_drained(EngineContext& context, Qp& qp) noexcept {
  qp.draining = false;
  if (qp.state != QpState::rts) return;
  qp.state = QpState::sqd;
  qp.sq_drained = true;
  raise(context, qp, event::sq_drained);
}

}  // namespace kilim::vhca::wq
