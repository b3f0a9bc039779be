// SPDX-License-Identifier: BSD-3-Clause
// Lint rules of keys that a peer on the wire uses: between the UMR that changes a key and a request
// that names it lies a message that told the peer so. Adapter's lock held. Never allocates.
#include <cstring>

#include "vhca/lint/lint.hh"

namespace kilim::vhca::lint {

using prm::lint::Rule;

// By a message that waited for the change: one behind a fence, of the same queue.
bool Lint::peer_may_know(LintQueue& q, const LintWqe& change) const noexcept {
  const uint64_t done = q.place_of(q.qp->sq.ci);
  return done > 0 && q.executed(change) &&
         q.fenced(change.at, done - 1, prm::ctrl::waits_for_local);
}

// Whether a queue has an open change of the key that the peer cannot know of.
bool Lint::check_arrival(const wq::Qp& qp, LintQueue& q, LintKey k) noexcept {
  bool found = false;
  q.each_open(q.announced, [&](const LintWqe& w) {
    found = w.names(k.index(), true) && w.gives(k.key) && !peer_may_know(q, w);
    if (!found) return true;
    const std::size_t from = (w.at & (q.qp->sq.wqebbs - 1)) * wqebb_bytes;
    const std::size_t bytes = std::min<std::size_t>(
        {std::size_t{w.wqebbs} * wqebb_bytes, straight_.size(), q.copy.size() - from});
    const Bytes umr{q.copy.data() + from, bytes};
    tell({Subject::Kind::request, qp.qpn.value(), static_cast<uint16_t>(w.at), umr,
          queue_kind(q.qp->type)},
         {Rule::wire_key, {k.key, w.at & 0xffff, qp.qpn.value()}});
    return false;
  });
  return found;
}

const prm::lint::RuleRow* Lint::arrives(const wq::Qp& qp, const tpt::Segment& range,
                                        uint8_t right) noexcept {
  const Pdn pd = qp.type == QpType::xrc_tgt && qp.srq != nullptr ? qp.srq->spec.pd : qp.spec.pd;
  const prm::lint::RuleRow* row = nullptr;
  if (Finding f; find_hole(range, {pd, qp.qpn.value(), right}, f)) {
    tell({Subject::Kind::request, qp.qpn.value()}, f);
    row = &prm::lint::row_of(f.rule);
  }
  LintWqe used;
  add_key(used, range.key, LintKey::Use::remote, around_.profile->max_indirection);
  for (uint8_t i = 0; i < used.keys; i++) {
    for (const auto& q : queues_) {
      if (q->works() && check_arrival(qp, *q, used.key[i]))
        row = &prm::lint::row_of(Rule::wire_key);
    }
  }
  return mode_ == LintMode::error ? row : nullptr;
}

// A message that comes in several packets, or a READ that is still being answered. Who knows a tag
// that goes gets a refusal: nothing to wait for.
bool Lint::find_peer_use(LintKey change, Finding& f) const noexcept {
  if (change.frees) return false;
  bool found = false;
  const auto uses = [&](uint32_t key) {
    LintWqe used;
    add_key(used, key, LintKey::Use::remote, around_.profile->max_indirection);
    return used.uses(change.key);
  };
  const auto look = [&](const wq::Qp& qp) {
    if (found || !qp.rc) return;
    uint32_t key = qp.rc->write_rkey;
    found = qp.rc->receiving == wq::RcWire::Receiving::write && uses(key);
    for (const wq::RcAnswer& a : qp.rc->answers) {
      if (found || !a.pending || a.atomic || !uses(a.rkey)) continue;
      key = a.rkey;
      found = true;
    }
    if (found) f = {Rule::wire_in_flight, {key, qp.qpn.value()}};
  };
  around_.qps->for_each([&](const wq::Qp& qp) {
    look(qp);
    for (const std::unique_ptr<wq::Qp>& connection : qp.connections) look(*connection);
  });
  return found;
}

}  // namespace kilim::vhca::lint
