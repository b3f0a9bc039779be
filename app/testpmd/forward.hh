// SPDX-License-Identifier: BSD-3-Clause
// A forwarding mode is one function in a file of its own and a row in fwd_table.cc. A stream is
// what it works on: one receive queue and one transmit queue, served by one worker. No mode copies
// payload.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kilim/base/counter.hh"
#include "kilim/pool/pool.hh"
#include "kilim/port/port.hh"
#include "options.hh"

namespace kilim::testpmd {

inline constexpr uint32_t max_burst = 512;

struct Stream {
  uint32_t (*turn)(Stream& s) noexcept = nullptr;  // the engine's
  port::Port* rx = nullptr;                        // null in mode txonly
  port::Port* tx = nullptr;                        // null in mode rxonly
  uint32_t rx_queue = 0;
  uint32_t tx_queue = 0;
  uint32_t tx_port = 0;            // number of tx
  pool::Stash* stash = nullptr;    // of the worker
  pool::Stash* headers = nullptr;  // of the worker; mode umr
  uint32_t burst = 32;
  Mac peer{};                        // of tx: where mac and txonly send
  uint32_t tx_length = 0;            // txonly
  uint64_t tx_limit = 0;             // txonly: packets to send in all; 0: no end
  std::vector<pool::Handle> chains;  // umr: room for what a weaver may hand out
  bool draining = false;             // set by a message to the worker: nothing new is taken in

  Counter forwarded;         // packets done with: sent, or received in mode rxonly
  Counter dropped;           // received and not taken by the transmit queue
  Counter idle_since_drain;  // rounds without work after draining began
};

struct Engine {
  const char* name;
  const char* help;
  bool receives;
  bool transmits;
  bool woven;
  // One turn of a stream; what it did. Same contract as a worker::Poller.
  uint32_t (*turn)(Stream& s) noexcept;
};

std::span<const Engine* const> engines() noexcept;
const Engine* find_engine(std::string_view name) noexcept;

extern const Engine io_engine, mac_engine, macswap_engine, rxonly_engine, txonly_engine, umr_engine;

// Packets that the stream may receive now such that all of them can be sent.
inline uint32_t sendable(Stream& s) noexcept {
  if (s.draining) {
    s.tx->reclaim(s.tx_queue);
    return 0;
  }
  uint32_t room = s.tx->tx_room(s.tx_queue);
  if (room < s.burst) {
    s.tx->reclaim(s.tx_queue);
    room = s.tx->tx_room(s.tx_queue);
  }
  return room < s.burst ? room : s.burst;
}

// Sends one-piece packets; what the queue does not take is dropped and counted.
inline void send_or_drop(Stream& s, std::span<const pool::Handle> packets) noexcept {
  const uint32_t sent = s.tx->tx(s.tx_queue, packets);
  s.forwarded.add(sent);
  if (sent == packets.size()) return;
  s.dropped.add(packets.size() - sent);
  s.stash->free(packets.subspan(sent));
}

// Receives, lets `edit` look at each packet's first bytes, sends.
template <typename Edit>
uint32_t forward(Stream& s, Edit edit) noexcept {
  pool::Handle packets[max_burst];
  const uint32_t limit = sendable(s);
  if (limit == 0) return 0;
  const uint32_t n = s.rx->rx(s.rx_queue, {packets, limit});
  if (n == 0) {
    s.tx->reclaim(s.tx_queue);
    return 0;
  }
  const pool::Arena& arena = s.stash->arena();
  for (uint32_t i = 0; i < n; i++) edit(arena.bytes(packets[i]));
  send_or_drop(s, {packets, n});
  return n;
}

}  // namespace kilim::testpmd
