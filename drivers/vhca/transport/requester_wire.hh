// SPDX-License-Identifier: BSD-3-Clause
// InfiniBand Architecture Specification: "Reliable Connection", "Unreliable Connection", requester.
// Turns send WQEs into packets, keeps what is under way (requester_wire.cc), goes back and gives up
// (requester_retry.cc). Adapter's lock held. Never allocates.
#pragma once

#include "kilim/prm/syndrome.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

enum class RequesterStep : uint8_t {
  sent,   // a packet went out; there may be more
  idle,   // nothing to send now
  local,  // the next WQE is no request for the peer and nothing is under way: execute it here
  down,   // the queue has left its state
};
RequesterStep send_next(RoceLink&, wq::Qp&) noexcept;

// A WQE was executed here: the next one follows it.
void after_local(wq::Qp&) noexcept;

// The queue enters RTS: sequence numbers from its attributes.
void start_requester(wq::Qp&) noexcept;
// Nothing is under way any more: the next WQE begins behind all sequence numbers that were used.
void send_anew(wq::Qp&) noexcept;
// Progress was made: patience is full again, the timer runs anew.
void note_progress(RoceLink&, wq::Qp&) noexcept;
// Sends again from the oldest packet that is not acknowledged, once until there is progress.
void go_back(RoceLink&, wq::Qp&, bool counts) noexcept;
// The oldest message fails.
void fail_oldest(RoceLink&, wq::Qp&, Verdict) noexcept;
// Timers that have run out.
void check_timer(RoceLink&, wq::Qp&) noexcept;

// The WQE of a message, read again into link.wqe. False: it has changed, and the queue is in error
// now.
bool reread(RoceLink&, wq::Qp&, const wq::RcMessage&, RequestData&) noexcept;

}  // namespace kilim::vhca::transport
