// SPDX-License-Identifier: BSD-3-Clause
// The weak order (core/order.hh) of a connection on the wire: messages go out in their order, the
// queue's own changes of keys are made late, or while messages before them are under way, wherever
// no fence forbids it. Completions stay in the ring's order. Adapter's lock held. Never allocates.
#pragma once

#include "kilim/prm/syndrome.hh"
#include "vhca/transport/roce_link.hh"
#include "vhca/wq/weak_order.hh"

namespace kilim::vhca::transport {

// Null: strict. So is an initiator of dynamic connections: what stands behind a request that failed
// it begins anew, and a change of a key is not made twice.
inline wq::WeakOrder* weak_on_wire(const wq::Qp& qp) noexcept {
  return qp.type != QpType::dci ? qp.weak.get() : nullptr;
}

// The WQE in link.wqe changes keys and is the next one: it is taken, and carried out unless it is
// late. False: a fence of its, or a WQE that failed, keeps it waiting.
bool delay_change(RoceLink&, wq::Qp&) noexcept;
// The WQE in link.wqe is the next one and is under way now, or has failed.
void note_under_way(RoceLink&, wq::Qp&) noexcept;
void note_refused(RoceLink&, wq::Qp&, Verdict) noexcept;

// Carries out what is late, and completes what is done. Nothing is late between two turns of the
// engine.
void change_keys(RoceLink&, wq::Qp&) noexcept;

// What became of a message.
void finish_weakly(RoceLink&, wq::Qp&, const wq::RcMessage&, bool in_entry) noexcept;
void fail_weakly(RoceLink&, wq::Qp&, const wq::RcMessage&, Verdict) noexcept;

}  // namespace kilim::vhca::transport
