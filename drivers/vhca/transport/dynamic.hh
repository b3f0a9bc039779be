// SPDX-License-Identifier: BSD-3-Clause
// PRM: "DC Transport". Dynamic connections: where an initiator's request leads, and what a target
// keeps for each initiator that it hears. An initiator is connected to one target at a time and
// goes to the next when all is acknowledged; a target's connections are queue pairs of their own
// that no number leads to. Adapter's lock held. Never allocates but in prepare_connections().
// Packets are untrusted.
#pragma once

#include "kilim/prm/av_seg.hh"
#include "vhca/core/object_table.hh"
#include "vhca/core/verdict.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/roce_link.hh"
#include "vhca/wq/engine_context.hh"

namespace kilim::vhca::transport {

// Within the adapter.
bool leaves_by_own_gid(const wq::EngineContext&, const prm::AvSeg&) noexcept;
// The target that an address names; null: there is none here, or it does not answer.
wq::Qp* called_target(const wq::EngineContext&, const ObjectTable<wq::Qp>&,
                      const prm::AvSeg&) noexcept;
// The target hears an initiator that names this key.
Verdict open_to(wq::EngineContext&, wq::Qp& target, Qpn initiator, uint64_t key) noexcept;

// Initiator on the wire.
// Whether the request is one for the wire; if not, it is executed here, or fails here.
bool goes_out(const RoceLink&, const wq::Qp&, const wq::SendWqe&, const RequestData&) noexcept;
bool connected_to(const wq::Qp&, const RequestData&) noexcept;
// Nothing may be under way.
void connect_to(RoceLink&, wq::Qp&, const RequestData&) noexcept;
// Tells the target in each packet who it is from.
void announce(const wq::Qp&, RocePacket&) noexcept;

// Target on the wire.
void prepare_connections(wq::Qp& target);
// The connection that a request belongs to, a new one if need be; null: refused, and answered so.
wq::Qp* connection_of(RoceLink&, wq::Qp& target, const RocePacket&) noexcept;

}  // namespace kilim::vhca::transport
