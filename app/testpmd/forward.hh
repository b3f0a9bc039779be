// SPDX-License-Identifier: BSD-3-Clause
// A forwarding mode (Engine) is one function in a file of its own and a row in fwd_table.cc. It
// works on a Stream: one receive queue and one transmit queue, served by one worker. No mode copies
// payload unless the command line lets split do so.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kilim/chooser.hh"
#include "kilim/detail/base/counter.hh"
#include "kilim/packet.hh"
#include "kilim/pool.hh"
#include "kilim/port.hh"
#include "latency.hh"
#include "options.hh"

namespace kilim::testpmd {

inline constexpr uint32_t max_burst = 512;

inline constexpr uint16_t no_ethdev = UINT16_MAX;

// Counts of a stream at one moment.
struct StreamCounts {
  uint64_t received = 0, forwarded = 0, dropped = 0, bad_ip = 0, bad_l4 = 0;
};

struct Stream {
  uint32_t (*run)(Stream& s) noexcept = nullptr;  // the engine's
  // Where packets come from: a port of Kilim, or an ethdev by mbufs of `mbufs`; neither in mode
  // txonly. Where they go to: likewise; neither in mode rxonly.
  port::Port* rx = nullptr;
  port::Port* tx = nullptr;
  uint16_t rx_ethdev = no_ethdev;
  uint16_t tx_ethdev = no_ethdev;
  const pool::MbufPool* mbufs = nullptr;  // what handles are, where an ethdev takes part
  uint32_t rx_queue = 0;
  uint32_t tx_queue = 0;
  uint32_t rx_port = 0;                  // number of rx
  uint32_t tx_port = 0;                  // number of tx
  pool::BufferCache* cache = nullptr;    // of the worker
  pool::BufferCache* headers = nullptr;  // of the worker; modes umr and split
  uint32_t burst = 32;
  uint32_t pieces = 1;                 // handles of the longest packet
  chooser::PacketPlan plan;            // split: how its packets are sent
  Mac peer{};                          // of tx: where mac and txonly send
  Mac own{};                           // of tx, an ethdev
  const ModeOptions* modes = nullptr;  // of the modes that have any; null: their defaults
  uint32_t flow = 0;                   // flowgen, txonly of many flows: the next one
  std::vector<pool::Handle> fifo;      // noisy: packets that wait
  std::vector<uint8_t> noise;          // noisy: memory that is used
  uint64_t fifo_since = 0;             // noisy: TSC of the last flush
  uint32_t tx_first = 0;               // bursts of txonly that go before the mode's own work
  uint32_t tx_length = 0;              // txonly, flowgen
  std::vector<uint32_t> tx_segments;   // txonly: bytes of each piece; empty: one
  uint64_t tx_limit = 0;               // txonly: packets to send in all; 0: no end
  std::vector<pool::Handle> chains;    // memory for the handles of PacketGather::collect()
  std::array<pool::Handle, max_burst> packets{};  // of the round under way
  bool divides = false;                           // joined TCP segments (LRO) leave as they came
  bool draining = false;  // set by a message to the worker: nothing more is received

  Counter received;        // packets
  Counter forwarded;       // packets sent, or received in mode rxonly
  Counter foreign;         // mbufs received that are of no pool of ours, freed
  Counter dropped;         // packets received that the transmit queue did not accept
  Counter bad_ip, bad_l4;  // csum: packets whose checksum the device found wrong
  Counter cycles;          // TSC cycles of rounds with work, preempted ones not counted
  std::atomic<int64_t>* budget = nullptr;      // of all streams: packets to receive; null: no end
  Latency* latency = nullptr;                  // of the worker; null: not measured
  Counter idle_since_drain;                    // rounds without work after draining began
  std::array<Counter, chooser::ways> sent_by;  // split: packets that were to go each way

  StreamCounts begun;  // where counting began; the main lcore's
  // Any thread.
  [[nodiscard]] StreamCounts counts() const noexcept {
    return {received.read(), forwarded.read(), dropped.read(), bad_ip.read(), bad_l4.read()};
  }
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
  // Sends packets of its own making, so that nobody has to begin.
  bool makes = false;
};

std::span<const Engine* const> engines() noexcept;
const Engine* find_engine(std::string_view name) noexcept;

extern const Engine io_engine, mac_engine, macswap_engine, rxonly_engine, split_engine,
    txonly_engine, umr_engine, five_tuple_swap_engine, csum_engine, flowgen_engine, icmpecho_engine,
    noisy_engine;

// The ethdev's side of receive() and transmit(), with the same contract.
uint32_t receive_mbufs(Stream& s, std::span<pool::Handle> out) noexcept;
uint32_t transmit_mbufs(Stream& s, std::span<const pool::Handle> packets) noexcept;

// Whole packets in a row of handles.
inline uint32_t count_packets(std::span<const pool::Handle> handles) noexcept {
  uint32_t n = 0;
  for (const pool::Handle h : handles) n += h.has(pool::Handle::more) ? 0 : 1;
  return n;
}

// Takes up to `handles` of what --num-packets leaves to all streams; each may be a packet. Room for
// the longest packet or none: packets of several buffers may be up to so many more.
inline std::size_t claim(Stream& s, std::size_t handles) noexcept {
  int64_t left = s.budget->load(std::memory_order_relaxed);
  int64_t take;
  do {
    if (left <= 0) return 0;
    take = std::max<int64_t>(std::min<int64_t>(left, static_cast<int64_t>(handles)), s.pieces);
  } while (!s.budget->compare_exchange_weak(left, left - take, std::memory_order_relaxed));
  return static_cast<std::size_t>(take);
}

// Adds the time since each packet's arrival, which its side record has.
void note_latency(Stream& s, std::span<const pool::Handle> packets) noexcept;

// Prints a line for each packet (`set verbose 1`), in testpmd's words (app/test-pmd/util.c).
void show_packets(const Stream& s, std::span<const pool::Handle> packets) noexcept;

// Asks the device to divide packets of joined TCP segments when they leave.
void divide_joined(const Stream& s, std::span<pool::Handle> packets) noexcept;

inline uint32_t receive(Stream& s, std::span<pool::Handle> out) noexcept {
  if (s.budget != nullptr) out = out.first(claim(s, out.size()));
  if (out.empty()) return 0;
  const uint32_t n = s.rx != nullptr ? s.rx->rx(s.rx_queue, out) : receive_mbufs(s, out);
  if (s.budget != nullptr)
    s.budget->fetch_add(static_cast<int64_t>(out.size()) - count_packets(out.first(n)),
                        std::memory_order_relaxed);
  if (n == 0) return 0;
  s.received.add(s.pieces == 1 ? n : count_packets(out.first(n)));
  if (s.divides) divide_joined(s, out.first(n));
  if (s.latency != nullptr) note_latency(s, out.first(n));
  if (s.modes != nullptr && s.modes->verbose != 0) show_packets(s, out.first(n));
  return n;
}
// Returns how many handles were taken, from the front.
inline uint32_t transmit(Stream& s, std::span<const pool::Handle> packets) noexcept {
  return s.tx != nullptr ? s.tx->tx(s.tx_queue, packets) : transmit_mbufs(s, packets);
}
inline void reclaim(Stream& s) noexcept {
  if (s.tx != nullptr) s.tx->reclaim(s.tx_queue);
}
// An ethdev says how much it takes when it takes it.
inline uint32_t tx_room(const Stream& s) noexcept {
  return s.tx != nullptr ? s.tx->tx_room(s.tx_queue) : max_burst;
}
inline const Mac& own_mac(const Stream& s) noexcept {
  return s.tx != nullptr ? s.tx->info().mac : s.own;
}

// How many handles the stream may receive now so that all of them can be sent: a burst of packets,
// or none if one might not fit.
inline uint32_t sendable(Stream& s) noexcept {
  if (s.draining) {
    reclaim(s);
    return 0;
  }
  const uint32_t want = std::min(s.burst * s.pieces, max_burst);
  uint32_t room = tx_room(s);
  if (room < want) {
    reclaim(s);
    room = tx_room(s);
  }
  if (room < s.pieces) return 0;
  return room < want ? room : want;
}

// How many packets a mode that makes them makes now: at most a burst, and no more than are to be
// sent in all.
inline uint32_t wanted(const Stream& s, uint32_t room) noexcept {
  const uint32_t want = std::min(room, s.burst);
  if (s.tx_limit == 0) return want;
  const uint64_t left = s.tx_limit - std::min(s.tx_limit, s.forwarded.read());
  return left < want ? static_cast<uint32_t>(left) : want;
}

// Sends packets; those that the queue does not accept are dropped and counted.
inline void send_or_drop(Stream& s, std::span<const pool::Handle> packets) noexcept {
  const uint32_t sent = transmit(s, packets);
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
  const uint32_t n = receive(s, std::span(packets).first(limit));
  if (n == 0) {
    reclaim(s);
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
