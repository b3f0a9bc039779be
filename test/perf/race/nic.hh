// SPDX-License-Identifier: BSD-3-Clause
// Nic: the device's side of one receive and one send queue of raw packets, over queue memory of any
// owner: it fills posted receives and completes what was sent. It reads and writes what a card
// does: doorbell records, WQEs, CQEs one by one or in compressed blocks, the first line of each
// frame; so that each driver's queues get the same. One thread; its work lies outside of what is
// measured.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/prm/cqe.hh"
#include "kilim/queue.hh"
#include "perf/race/level.hh"
#include "perf/race/sent.hh"

namespace kilim::race {

struct Rings {
  queue::RqGeometry rq;
  queue::CqGeometry rx_cq;
  queue::SqGeometry sq;
  queue::CqGeometry tx_cq;
};

// A packet as the device reports it: TCP over IPv4, whose checksums are right.
struct Packet {
  uint32_t bytes = 64;
  uint32_t hash = 0;  // 0: none was computed
  uint8_t sums = prm::cqe::l2_ok | prm::cqe::l3_ok | prm::cqe::l4_ok;
  uint8_t types = prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift | prm::cqe::l4_tcp
                                                                     << prm::cqe::l4_type_shift;
  uint8_t syndrome = 0;  // not 0: the receive fails
};

class Nic {
 public:
  explicit Nic(const Rings& rings) noexcept : rings_(rings) {}
  // What it writes from now on lies there afterwards.
  void set_level(Level level) noexcept { level_ = level; }
  // Completes what a doorbell record announced; sent() tells of it.
  void complete() noexcept;
  [[nodiscard]] const Sent& sent() const noexcept { return sent_; }

  // Receives that were filled: the number that the next frame says.
  [[nodiscard]] uint32_t filled() const noexcept { return filled_; }
  // Receives that are posted, not filled, and have an entry for their completion.
  [[nodiscard]] uint32_t room() const noexcept;
  // Packets until the end of either receive ring.
  [[nodiscard]] uint32_t to_end() const noexcept;
  // Fills a receive, of which there is one.
  void receive(const Packet& p) noexcept;
  // Fills several receives, of which there are as many, by one compressed block: the first one's
  // types and checksums are everyone's. `hashes`: the minis say the hash, else a checksum.
  void receive_block(std::span<const Packet> packets, bool hashes) noexcept;
  // To be called behind the last receive of a turn.
  void end_turn() noexcept;

 private:
  prm::Cqe& next(const queue::CqGeometry& cq, uint32_t& produced, prm::CqeOpcode op,
                 uint32_t wqe) noexcept;
  void describe(prm::Cqe& e, const Packet& p) const noexcept;
  void write_frame() noexcept;

  Rings rings_;
  Level level_ = Level::hot;
  uint32_t filled_ = 0, received_ = 0;      // receives, CQEs of them
  uint32_t completed_ = 0, signalled_ = 0;  // WQEBBs, CQEs of sends
  Sent sent_;
};

}  // namespace kilim::race
