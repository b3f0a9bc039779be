// SPDX-License-Identifier: BSD-3-Clause
// What the requester of a connected queue does when its packets get lost: its patience, its timer,
// sending again, giving up. Adapter's lock held. Never allocates but before it gives up.
#include <algorithm>

#include "vhca/core/address.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/requester.hh"
#include "vhca/transport/requester_wire.hh"
#include "vhca/transport/weak_wire.hh"
#include "vhca/wire/residents.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::transport {

using prm::Syndrome;

namespace {

// A signal or a debugger has stopped the peer's process, and with it the adapter that would answer
// on a machine where that is a card: who only waits is given up no sooner than there.
bool peer_is_stopped(const RoceLink& link, const wq::Qp& qp) {
  wire::Wire* wire = link.wire_of(qp);
  Mac to = qp.attr.path.dmac;
  if (wire == nullptr || qp.type == QpType::dci) return false;
  (void)mac_of_gid(qp.attr.path.dgid, to);
  const bool inside = link.member_mac != Mac{} && to == link.mac;
  bool whole = false;
  for (const wire::Resident& one : wire::residents_of(*wire, whole)) {
    const bool it = inside ? one.slot == qp.attr.dest_qpn.value() >> member_shift : one.mac == to;
    if (it) return wire::is_stopped(one);
  }
  return false;
}

// With all its patience, since a process that goes on has much to read.
void wait_for_stopped(wq::RcWire& w, const wq::Qp& qp, uint64_t now) noexcept {
  constexpr uint64_t shortest_ns = 10'000'000;  // a look opens files
  w.retry_left = qp.attr.retry_cnt;
  w.deadline_ns = now + std::max(shortest_ns, timeout_ns(qp.attr.timeout));
}

}  // namespace

void send_anew(wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  w.una_psn = w.send_psn = w.sent_psn = w.new_psn;
  w.next_ci = qp.sq.ci;
  w.answers_open = 0;
  w.pause_until_ns = 0;
}

void note_progress(RoceLink& link, wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  w.retry_left = qp.attr.retry_cnt;
  w.rnr_left = qp.attr.rnr_retry;
  w.went_back = false;
  bool timer = w.count > 0 && qp.attr.timeout != 0;
  w.deadline_ns = timer ? link.context->now_ns + timeout_ns(qp.attr.timeout) : 0;
  if (timer) link.timed.push(qp);
}

void go_back(RoceLink& link, wq::Qp& qp, bool counts) noexcept {
  wq::RcWire& w = *qp.rc;
  if (w.went_back && !counts) return;
  w.went_back = true;
  w.send_psn = w.una_psn;
  link.ready->push(qp);
}

void fail_oldest(RoceLink& link, wq::Qp& qp, Verdict verdict) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::SendWqe& wqe = link.wqe;
  if (w.at(0).rendezvous) {
    w.count = 0;
    qp.retrying = false;
    return fail_rendezvous(*link.context, qp, verdict);
  }
  if (weak_on_wire(qp) != nullptr) [[unlikely]]
    return fail_weakly(link, qp, w.at(0), verdict);
  if (wq::decode_send_at(qp, w.at(0).sq_index, wqe) != wq::Decode::ok)
    return wq::fatal_qp(*link.context, qp, "a WQE under way has changed");
  w.count = 0;
  qp.retrying = false;
  wq::fail_send(*link.context, qp, wqe, verdict);
  if (qp.state == QpState::err || qp.state == QpState::sqe) return;
  // A stream of it failed: the messages behind are begun anew, on a new connection.
  send_anew(qp);
  w.session = 0;
  note_progress(link, qp);
  link.ready->push(qp);
}

void check_timer(RoceLink& link, wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  uint64_t now = link.context->now_ns;
  if (w.pause_until_ns != 0 && w.pause_until_ns <= now) {
    w.pause_until_ns = 0;
    link.ready->push(qp);
  }
  if (w.deadline_ns == 0 || w.deadline_ns > now || w.count == 0) return;
  // Nothing has gone out that could have been answered: others fill the wire.
  if (w.sent_psn == w.una_psn) {
    w.deadline_ns = now + timeout_ns(qp.attr.timeout);
    return;
  }
  if (w.retry_left == 0 && peer_is_stopped(link, qp)) return wait_for_stopped(w, qp, now);
  if (w.retry_left == 0)
    return fail_oldest(link, qp, {Syndrome::transport_retry_exc, "the peer does not answer"});
  w.retry_left--;
  link.context->counts.add(TransportCount::local_ack_timeout_err);
  // The specification lets the timer run up to four times as long: a busy machine is no dead peer.
  unsigned tries = qp.attr.retry_cnt - std::min(w.retry_left, qp.attr.retry_cnt);
  w.deadline_ns = now + (timeout_ns(qp.attr.timeout) << std::min(tries, 2u));
  go_back(link, qp, true);
}

}  // namespace kilim::vhca::transport
