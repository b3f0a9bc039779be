// SPDX-License-Identifier: BSD-3-Clause
// What an agent has and the steps that its calls, its messages and its timers share. Owner: the
// agent; adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vhca/cm/agent.hh"
#include "vhca/cm/id_table.hh"
#include "vhca/cm/messages.hh"
#include "vhca/cm/outbox.hh"
#include "vhca/cm/transitions.hh"

namespace kilim::vhca::cm {

// A wire that was full is tried again after that.
inline constexpr uint64_t full_pause_ns = 50'000;

struct Listener {
  uint64_t service_id;
  Observer* observer;
  uint64_t cookie;
};

struct AgentState {
  AgentState(const Config& c, Port& p) : config(c), port(p), ids(c.most_ids, c.seed) {}

  Config config;
  Port& port;
  Counts counts;
  IdTable ids;
  Outbox outbox;
  std::vector<Listener> listeners;  // by service id
  bool blocked = false;             // the wire was full at the last try
  uint64_t try_again_ns = 0;        // then
  uint64_t look_ns = ~uint64_t{0};  // when peers are looked for next
};

// Null: nobody listens.
Listener* find_listener(AgentState&, uint64_t service_id) noexcept;

Names names_of(const AgentState&, const Connection&) noexcept;
Sender sender_of(const AgentState&, const Connection&) noexcept;

// Hands a message to the port or the outbox.
void post(AgentState&, const Route&, const Mad&, uint64_t now) noexcept;
// What c.mad holds, along the connection's route.
void post(AgentState&, Connection&, uint64_t now) noexcept;

// Carries out a row: the state, the timer, what is said besides. c.mad is what goes again from now
// on, and is sent where the row says `resend`.
void take_row(AgentState&, Connection&, const Row&, uint64_t now) noexcept;
// Which message of the peer's a REJ is about that an id in this state sends (cm_format_rej()).
About about_of(State) noexcept;
// Says good-bye as the table has it, and frees the place.
void remove(AgentState&, Connection&, uint64_t now) noexcept;
// Sends DREQ where there is a connection.
void begin_disconnect(AgentState&, Connection&, std::span<const std::byte> private_data,
                      uint64_t now) noexcept;
// An event of `c` with its id and cookie, nothing else.
Event event_of(const AgentState&, const Connection&, EventKind) noexcept;
// Tells the observer, if there is one. `c` may be gone afterwards.
Answer report(const Connection&, const Event&) noexcept;

// A message, from the wire or from the own port.
void receive(AgentState&, const Route& back, std::span<const std::byte> mad, uint64_t now,
             bool own) noexcept;
// Timers that are due; how many.
std::size_t run_timers(AgentState&, uint64_t now) noexcept;

// The peer's process is looked for from now on, where an id in its state waits for it
// (lost_peers.cc).
void watch_peer(AgentState&, Connection&, uint64_t now) noexcept;
// Looks for all of them when the time has come, and says what the kernels of the dead would have
// said; how many have gone.
std::size_t look_for_peers(AgentState&, uint64_t now) noexcept;

}  // namespace kilim::vhca::cm
