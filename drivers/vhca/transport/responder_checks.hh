// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", responder. The rules of a queue that a request reaches, each once:
// what it may do, whose keys it names, what it receives into, how it is refused. Requests come by a
// call (responder.hh) or packet by packet (responder_wire.hh). Adapter's lock held. Never
// allocates.
#pragma once

#include <cstdint>

#include "kilim/prm/cqe.hh"
#include "vhca/core/verdict.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::transport {

// States in which a queue answers requests.
constexpr bool answers(const wq::Qp& qp) noexcept {
  return qp.state == QpState::rtr || qp.state == QpState::rts || qp.state == QpState::sqd ||
         qp.state == QpState::sqe;
}

// The first packet that reaches a queue in RTR.
void establish(wq::EngineContext&, wq::Qp&) noexcept;

// A refused request that used up no receive WQE: the queue goes to ERR and says so by an event. An
// unreliable connection drops it without a word.
Verdict refuse(wq::EngineContext&, wq::Qp&, Verdict to_requester) noexcept;
// It names memory that it may not use: a remote access error.
Verdict refuse_range(wq::EngineContext&, wq::Qp&, const tpt::SegmentList& asked,
                     const char* why) noexcept;

// Whether the queue's attributes allow it; what it refuses is refused already.
Verdict admit_write(wq::EngineContext&, wq::Qp&) noexcept;
Verdict admit_read(wq::EngineContext&, wq::Qp&) noexcept;
Verdict admit_atomic(wq::EngineContext&, wq::Qp&, uint64_t va) noexcept;

// Whose keys a request may name: an XRC target answers on behalf of the queue that it names.
Pdn remote_pd(const wq::Qp&) noexcept;
// A remote range with the right that it needs.
tpt::SegmentList remote_range(const wq::Qp&, const tpt::Segment&, uint8_t right) noexcept;
// Whether the range may be used so; if not, it is refused already.
Verdict admit_range(wq::EngineContext&, wq::Qp&, const tpt::Segment&, uint8_t right) noexcept;

// A request to an XRC target names the shared queue on whose behalf it is answered.
Verdict aim_at_srq(wq::EngineContext&, wq::Qp& target, uint32_t srqn) noexcept;

// Brings the range's pages in; not done: they are on their way, or cannot come.
Verdict page_in_range(wq::EngineContext&, wq::Qp&, const tpt::Segment&, uint8_t right) noexcept;
// What the requester hears of a page of this queue's memory that was not there: as if there were no
// receive WQE, again after the timer.
Verdict page_missed(const wq::Qp&) noexcept;

// The word of an atomic: its place, then its change.
Verdict find_word(wq::EngineContext&, wq::Qp&, uint32_t rkey, uint64_t va,
                  tpt::Piece& word) noexcept;
struct WordChange {
  bool add = false;  // else compare and swap
  uint64_t swap_add = 0, compare = 0;
};
Verdict change_word(wq::EngineContext&, wq::Qp&, const tpt::Piece& word, const WordChange&,
                    uint64_t& old) noexcept;

// Takes a receive WQE for a request that needs one.
Verdict claim_receive(wq::EngineContext&, wq::Qp&, wq::RecvWqe&) noexcept;
// From here on it belongs to the message under way, and others may take theirs meanwhile.
void hold_receive(wq::EngineContext&, wq::Qp&, const wq::RecvWqe&) noexcept;
// The receive WQE of the message fails as `mine` says. Returns what the requester hears: `theirs`,
// for the same reason.
Verdict fail_receive(wq::EngineContext&, wq::Qp&, const wq::RecvWqe&, Verdict mine,
                     prm::Syndrome theirs) noexcept;
// SEND with invalidate: of the key in `imm_raw`.
Verdict invalidate_received(wq::EngineContext&, wq::Qp&, const wq::RecvWqe&,
                            uint32_t imm_raw) noexcept;

struct Received {
  prm::CqeOpcode op = prm::CqeOpcode::resp_send;
  uint64_t bytes = 0;
  uint32_t imm_raw = 0;  // as it came
  bool solicited = false;
  bool in_entry = false;  // the data waits in EngineContext::entry_data
};
// The receive WQE is used up and completed.
void finish_receive(wq::EngineContext&, wq::Qp&, const wq::RecvWqe&, const Received&) noexcept;

}  // namespace kilim::vhca::transport
