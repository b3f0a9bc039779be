// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQ Events". When a completion queue wakes its client: armed for any entry or for solicited
// ones, moderated by a count and a period; and its last event, that of an error. Adapter's lock
// held. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/wq/cq.hh"
#include "vhca/wq/engine_context.hh"

namespace kilim::vhca::wq {

// Client address of a word of the doorbell record (prm::record_arm ...).
inline uint64_t record_word(const Cq& cq, std::size_t n) noexcept {
  return cq.spec.record.value() + 4 * n;
}

// An entry was written, or time has passed: raises the event that an armed queue waits for, unless
// moderation holds it back.
void fire_if_due(const EngineContext&, Cq&) noexcept;
// An event of the queue, armed or not: a WQE asked for it with its entry.
void raise_event(const EngineContext&, Cq&) noexcept;

// The client may have asked for an event: reads the arm word, fires at once where entries wait.
// `rang`: a doorbell for events has come to the queue's page, this queue's or another's. True: it
// was another word than before, or the first request of a queue whose record could not be marked.
bool check_arm(EngineContext&, Cq&, bool rang) noexcept;

// When an armed CQ's event is due at the latest, because its period ends; UINT64_MAX: none waits.
uint64_t event_deadline(const Cq&) noexcept;
// Raises the event if it is due by now.
void check_period(EngineContext&, Cq&) noexcept;

// Puts the CQ into error: event IBV_EVENT_CQ_ERR once.
void fail_cq(EngineContext&, Cq&, const char* why) noexcept;

}  // namespace kilim::vhca::wq
