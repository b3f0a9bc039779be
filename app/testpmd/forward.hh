// SPDX-License-Identifier: BSD-3-Clause
// A forwarding mode (Engine) is one function in a file of its own and a row in fwd_table.cc. It
// works on a Stream: one receive queue and one transmit queue, served by one worker. No mode copies
// payload unless the command line lets split do so.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kilim/base/counter.hh"
#include "kilim/chooser/packet_plan.hh"
#include "kilim/pool/pool.hh"
#include "kilim/port/port.hh"
#include "options.hh"

namespace kilim::testpmd {

inline constexpr uint32_t max_burst = 512;

struct Stream {
  uint32_t (*run)(Stream& s) noexcept = nullptr;  // the engine's
  port::Port* rx = nullptr;                       // null in mode txonly
  port::Port* tx = nullptr;                       // null in mode rxonly
  uint32_t rx_queue = 0;
  uint32_t tx_queue = 0;
  uint32_t tx_port = 0;                  // number of tx
  pool::BufferCache* cache = nullptr;    // of the worker
  pool::BufferCache* headers = nullptr;  // of the worker; modes umr and split
  uint32_t burst = 32;
  uint32_t pieces = 1;               // handles of the longest packet
  chooser::PacketPlan plan;          // split: how its packets are sent
  Mac peer{};                        // of tx: where mac and txonly send
  uint32_t tx_length = 0;            // txonly
  uint64_t tx_limit = 0;             // txonly: packets to send in all; 0: no end
  std::vector<pool::Handle> chains;  // memory for the handles of PacketGather::collect()
  std::array<pool::Handle, max_burst> packets{};  // of the round under way
  bool draining = false;  // set by a message to the worker: nothing more is received

  Counter forwarded;         // packets sent, or received in mode rxonly
  Counter dropped;           // packets received that the transmit queue did not accept
  Counter idle_since_drain;  // rounds without work after draining began
  std::array<Counter, chooser::ways> sent_by;  // split: packets that were to go each way
};

struct Engine {
  const char* name;
  const char* help;
  bool receives;
  bool transmits;
  bool gathered;
  // One round of a stream; returns its work. The contract of worker::Poller::fn.
  uint32_t (*run)(Stream& s) noexcept;
  bool splits = false;  // receives headers into buffers of their own
};

std::span<const Engine* const> engines() noexcept;
const Engine* find_engine(std::string_view name) noexcept;

extern const Engine io_engine, mac_engine, macswap_engine, rxonly_engine, split_engine,
    txonly_engine, umr_engine;

// Whole packets in a row of handles.
inline uint32_t count_packets(std::span<const pool::Handle> handles) noexcept {
  uint32_t n = 0;
  for (const pool::Handle h : handles) n += h.has(pool::Handle::more) ? 0 : 1;
  return n;
}

// How many handles the stream may receive now so that all of them can be sent: a burst of packets,
// or none if one might not fit.
inline uint32_t sendable(Stream& s) noexcept {
  if (s.draining) {
    s.tx->reclaim(s.tx_queue);
    return 0;
  }
  const uint32_t want = std::min(s.burst * s.pieces, max_burst);
  uint32_t room = s.tx->tx_room(s.tx_queue);
  if (room < want) {
    s.tx->reclaim(s.tx_queue);
    room = s.tx->tx_room(s.tx_queue);
  }
  if (room < s.pieces) return 0;
  return room < want ? room : want;
}

// Sends packets; those that the queue does not accept are dropped and counted.
inline void send_or_drop(Stream& s, std::span<const pool::Handle> packets) noexcept {
  const uint32_t sent = s.tx->tx(s.tx_queue, packets);
  s.forwarded.add(s.pieces == 1 ? sent : count_packets(packets.first(sent)));
  if (sent == packets.size()) return;
  s.dropped.add(count_packets(packets.subspan(sent)));
  s.cache->free(packets.subspan(sent));
}

// Receives packets, calls `edit` with each packet's first bytes, and sends them.
template <typename Edit>
uint32_t forward(Stream& s, Edit edit) noexcept {
  const uint32_t limit = sendable(s);
  if (limit == 0) return 0;
  std::array<pool::Handle, max_burst>& packets = s.packets;
  const uint32_t n = s.rx->rx(s.rx_queue, std::span(packets).first(limit));
  if (n == 0) {
    s.tx->reclaim(s.tx_queue);
    return 0;
  }
  const pool::Arena& arena = s.cache->arena();
  bool first = true;
  for (uint32_t i = 0; i < n; i++) {
    if (first) edit(arena.bytes(packets[i]));
    first = !packets[i].has(pool::Handle::more);
  }
  send_or_drop(s, std::span(packets).first(n));
  return n;
}

}  // namespace kilim::testpmd
