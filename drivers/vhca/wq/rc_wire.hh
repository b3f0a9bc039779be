// SPDX-License-Identifier: BSD-3-Clause
// What a connected queue pair whose peer is on the wire keeps: messages under way as requester,
// what it expects and owes as responder. Owner: its queue pair; adapter's lock held. A plain
// record.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "vhca/wq/recv_wqe.hh"

namespace kilim::vhca::wq {

// A send WQE whose packets are under way. Its bytes stay in the ring and are read again.
struct RcMessage {
  enum class Kind : uint8_t { send, write, read, atomic };
  Kind kind = Kind::send;
  bool signaled = false, event = false;  // as its completion mode says
  bool rendezvous = false;               // no WQE: the oldest of TagWork
  uint8_t opcode = 0;
  uint16_t sq_index = 0;  // of the WQE's first basic block
  uint16_t wqebbs = 1;
  uint32_t first_psn = 0;
  uint32_t packets = 1;  // sequence numbers it takes; a READ's are its answer's
  uint64_t bytes = 0;
  [[nodiscard]] bool answered() const noexcept {
    return kind == Kind::read || kind == Kind::atomic;
  }
};

// A READ or an atomic as the responder remembers it: it may be asked for again.
struct RcAnswer {
  bool used = false, atomic = false;
  bool pending = false;  // packets from `next` on have to go out
  bool given = false;    // all went out once: the requester may have gone on
  uint32_t first_psn = 0, packets = 1, next = 0;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
  Pdn pd;                 // whose key it is
  uint64_t original = 0;  // of an atomic: the word before it
};

struct RcWire {
  static constexpr uint32_t messages = 64;
  static constexpr uint32_t answers_kept = 16;  // the most a profile may offer

  // Requester.
  std::array<RcMessage, messages> ring;  // `count` from `head` on, oldest first
  uint32_t head = 0, count = 0;
  uint32_t una_psn = 0;      // the oldest that is not acknowledged
  uint32_t send_psn = 0;     // the next to go out
  uint32_t new_psn = 0;      // behind the last message
  uint32_t sent_psn = 0;     // behind what ever went out
  uint16_t next_ci = 0;      // basic block of the next WQE to take
  uint8_t answers_open = 0;  // READs and atomics under way
  uint8_t retry_left = 0, rnr_left = 0;
  bool idle = false;            // nothing to send without news
  bool went_back = false;       // since the last progress
  uint64_t deadline_ns = 0;     // transport timer; 0: off
  uint64_t pause_until_ns = 0;  // RNR timer, full wire; 0: none
  // Dynamic connections: the one that runs, at either end; 0: none.
  uint64_t session = 0, last_session = 0;
  uint64_t dc_key = 0;    // initiator: of the target
  uint64_t heard_ns = 0;  // target: when the last packet came

  // Responder.
  uint32_t expected_psn = 0;
  uint32_t msn = 0;     // messages executed, 24 bits (IBTA 9.7.5.1, AETH)
  bool silent = false;  // a NAK is out: nothing more until the expected packet comes
  enum class Receiving : uint8_t { nothing, send, write } receiving = Receiving::nothing;
  uint64_t received = 0;  // bytes of the message that comes
  // Of a shared queue: taken with the message's first packet, since others take theirs meanwhile.
  bool holds_receive = false;
  RecvWqe held;
  uint64_t write_va = 0;  // of the WRITE that comes, as its first packet's RETH said
  uint32_t write_rkey = 0, write_length = 0;
  uint32_t srqn = 0;  // XRC: that the message names
  bool ack_owed = false, nak_owed = false;
  uint32_t ack_psn = 0;  // the latest SEND's or WRITE's that is owed one: never a READ's
  uint8_t nak_kind = 0, nak_value = 0;  // of the AETH (transport/roce.hh)
  uint32_t nak_psn = 0;
  std::array<RcAnswer, answers_kept> answers;  // oldest at `next_answer`
  uint32_t next_answer = 0;

  // Whether the peer has more READs and atomics under way than it may. An oldest answer that goes
  // out again does not count: the peer could not ask for this many others without having had it.
  [[nodiscard]] bool is_full() noexcept { return answer(0).pending && !answer(0).given; }
  // From the oldest packet under way to this one.
  [[nodiscard]] uint32_t packets_to(uint32_t psn) const noexcept {
    return (psn - una_psn) & 0xffffff;
  }
  [[nodiscard]] RcMessage& at(uint32_t i) noexcept { return ring[(head + i) % messages]; }
  [[nodiscard]] RcAnswer& answer(uint32_t i) noexcept {
    return answers[(next_answer + i) % answers_kept];
  }
};

}  // namespace kilim::vhca::wq
