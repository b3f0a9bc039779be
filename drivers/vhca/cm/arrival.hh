// SPDX-License-Identifier: BSD-3-Clause
// What the functions for incoming messages share: requests make ids (receive_requests.cc), all else
// is about ids that are there (receive.cc). Owner: the agent; adapter's lock held.
#pragma once

#include "vhca/cm/agent_state.hh"

namespace kilim::vhca::cm {

// A message of 256 bytes and the way back to who sent it, whoever that is.
struct Arrival {
  const Route& back;
  std::span<const std::byte> mad;
  uint64_t now;
  bool own;  // sent by this agent
};

// cm_issue_rej(): a REJ to who sent it.
void refuse(AgentState&, const Arrival&, const Refusal&) noexcept;
// The peer has forgotten the connection `old`, since the queue pair of it is in another one: that
// is refused, and `old` ends (cm_match_req(), cm_rep_handler()).
void refuse_stale(AgentState&, const Arrival&, About, Connection& old) noexcept;

void got_req(AgentState&, const Arrival&) noexcept;
void got_sidr_req(AgentState&, const Arrival&) noexcept;

}  // namespace kilim::vhca::cm
