// SPDX-License-Identifier: BSD-3-Clause
// PRM: "RST2INIT_QP ... 2RST_QP". Adapter's lock held.
#include <algorithm>
#include <cerrno>

#include "vhca/core/journal.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/qp_transitions.hh"

namespace kilim::vhca::hca {

namespace {

bool connected(QpType t) noexcept {
  return t != QpType::ud && t != QpType::raw_packet;
}

// What the table does not say: ranges of the attributes.
int check_values(Hca& h, const wq::Qp& qp, const QpAttr& a, uint32_t mask) noexcept {
  const auto given = [&](uint32_t bit) { return (mask & bit) != 0; };
  const auto no = [&](const Refused& r) { return refuse_verb(h, -EINVAL, r); };
  const auto ports = static_cast<uint8_t>(std::max<std::size_t>(1, h.config.wires.size()));
  const uint32_t depth = h.config.profile.max_rd_atomic;
  constexpr uint8_t last_mtu = 5;
  if (given(qp_mask::port) && (a.port == 0 || a.port > ports))
    return no({VerbRefusal::modify_port, a.port, ports});
  if (given(qp_mask::pkey_index) && a.pkey_index != 0)
    return no({VerbRefusal::modify_pkey, a.pkey_index, 0});
  if (given(qp_mask::path_mtu) && (a.path_mtu < 1 || a.path_mtu > last_mtu))
    return no({VerbRefusal::modify_mtu, a.path_mtu, last_mtu});
  if (given(qp_mask::max_rd_atomic) && a.max_rd_atomic > depth)
    return no({VerbRefusal::modify_rd_atomic, a.max_rd_atomic, depth});
  if (given(qp_mask::max_dest_rd_atomic) && a.max_dest_rd_atomic > depth)
    return no({VerbRefusal::modify_dest_rd_atomic, a.max_dest_rd_atomic, depth});
  // There is no automatic path migration.
  if (given(qp_mask::alt_path)) return no({VerbRefusal::modify_alt_path});
  if (!given(qp_mask::path) || !connected(qp.type)) return 0;
  // RoCE has no addresses but GIDs.
  if (!a.path.is_global)
    return h.config.profile.lid != 0 ? 0 : no({VerbRefusal::modify_not_global});
  Gid own;
  if (port_gid(h.addresses, a.path.sgid_index, own)) return 0;
  return no({VerbRefusal::modify_sgid, a.path.sgid_index, a.path.port});
}

void store_values(wq::Qp& qp, const QpAttr& a, uint32_t mask) noexcept {
  auto take = [&](uint32_t bit, auto QpAttr::*field) {
    if ((mask & bit) != 0) qp.attr.*field = a.*field;
  };
  take(qp_mask::access, &QpAttr::access);
  take(qp_mask::pkey_index, &QpAttr::pkey_index);
  take(qp_mask::port, &QpAttr::port);
  take(qp_mask::qkey, &QpAttr::qkey);
  take(qp_mask::path, &QpAttr::path);
  take(qp_mask::path_mtu, &QpAttr::path_mtu);
  take(qp_mask::timeout, &QpAttr::timeout);
  take(qp_mask::retry_cnt, &QpAttr::retry_cnt);
  take(qp_mask::rnr_retry, &QpAttr::rnr_retry);
  take(qp_mask::rq_psn, &QpAttr::rq_psn);
  take(qp_mask::sq_psn, &QpAttr::sq_psn);
  take(qp_mask::max_rd_atomic, &QpAttr::max_rd_atomic);
  take(qp_mask::max_dest_rd_atomic, &QpAttr::max_dest_rd_atomic);
  take(qp_mask::min_rnr_timer, &QpAttr::min_rnr_timer);
  take(qp_mask::dest_qpn, &QpAttr::dest_qpn);
  take(qp_mask::rate_limit, &QpAttr::rate_limit);
  // The context keeps a logarithm, which mlx5_ib leaves alone for 0: one is under way at a time
  // (Linux drivers/infiniband/hw/mlx5/qp.c, __mlx5_ib_modify_qp: log_sra_max).
  if ((mask & qp_mask::max_rd_atomic) != 0)
    qp.attr.max_rd_atomic = std::max<uint8_t>(qp.attr.max_rd_atomic, 1);
}

// The client zeroes its doorbell record only after this returns: the engine does not look at it
// before the queue is ready again.
void to_reset(Hca& h, wq::Qp& qp) noexcept {
  forget_work(h, qp);
  wq::flush_held(h.context, qp);  // its shared queue stays
  h.context.in_error.remove(qp);
  qp.state = QpState::reset;
  qp.attr = {};
  qp.sq.ci = qp.sq.pi = 0;
  if (qp.weak) qp.weak->clear();
  qp.rq.ci = 0;
  if (h.lint) h.lint->restart(qp);
  qp.drains_on_sign_error = qp.draining = false;
  qp.send_error_told = qp.ended_by_client = false;
  qp.loopback = qp.established = qp.broken = false;
  qp.failed = {};
  qp.wait = wq::SqWait::none;
}

// What has been posted until now is not sent any more. False: flushing it has ended the queue.
bool leave_sqe(Hca& h, wq::Qp& qp) noexcept {
  wq::flush_some(h.context, qp, ~std::size_t{0});
  if (qp.state != QpState::sqe) return false;
  h.context.in_error.remove(qp);
  qp.send_error_told = false;
  return true;
}

void enter(Hca& h, wq::Qp& qp, QpState to) noexcept {
  if (to == QpState::reset) return to_reset(h, qp);
  if (to == QpState::err) {
    forget_work(h, qp);
    if (qp.state != QpState::err && qp.state != QpState::sqe) qp.ended_by_client = true;
    return wq::to_error(h.context, qp);
  }
  if (qp.state == QpState::sqe && !leave_sqe(h, qp)) return;
  if (qp.state == QpState::sqd && qp.watched != nullptr) h.lint->resumed(qp);
  qp.state = to;
  if (to == QpState::sqd) {
    qp.sq_drained = false;
    wq::note_drained(h.context, qp);
  }
  if (to == QpState::rts && transport::has_requests(qp)) h.ready.push(qp);
}

}  // namespace

int modify_qp(Hca& h, Qpn qpn, const QpAttr& a, uint32_t mask) noexcept {
  wq::Qp* found = h.qps.at(qpn.value());
  if (found == nullptr) return refusal::absent("qp_num", qpn.value());
  wq::Qp& qp = *found;
  if ((mask & qp_mask::cur_state) != 0 && a.cur_state != qp.state)
    return refuse_verb(h, -EINVAL,
                       {VerbRefusal::modify_cur_state, static_cast<uint64_t>(a.cur_state),
                        static_cast<uint64_t>(qp.state)});
  QpState to = (mask & qp_mask::state) != 0 ? a.state : qp.state;
  if (!wq::transition_allowed(qp.type, qp.state, to, mask))
    return refuse_transition(h, qp, to, mask);
  if (int rc = check_values(h, qp, a, mask); rc != 0) return rc;
  store_values(qp, a, mask);
  // Each request on a dynamic connection has its own way.
  const bool dynamic = qp.type == QpType::dci || qp.type == QpType::dct;
  if ((mask & qp_mask::path) != 0 && !dynamic)
    qp.loopback = leads_here(h.addresses, a.path, qp.attr.dest_qpn);
  // A target's context does not say how much it answers at a time.
  if (qp.type == QpType::dct)
    qp.attr.max_dest_rd_atomic = static_cast<uint8_t>(h.config.profile.max_rd_atomic);
  if ((mask & qp_mask::en_sqd_async) != 0) qp.attr.en_sqd_async_notify = a.en_sqd_async_notify;
  QpState from = qp.state;
  if ((mask & qp_mask::state) != 0) enter(h, qp, to);
  if ((mask & qp_mask::state) != 0) transport::roce_enter(h.roce, qp, from);
  return 0;
}

}  // namespace kilim::vhca::hca
