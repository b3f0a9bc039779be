// SPDX-License-Identifier: BSD-3-Clause
// How the device says no, from a key's check to a work request's completion: the syndrome of the
// error CQE and a sentence for the journal (doc/decisions/0025). Control paths have Result.
// Pure values, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "kilim/prm/syndrome.hh"

namespace kilim::vhca {

// What a request that cannot go on now waits for, before the same is tried again.
enum class Again : uint8_t {
  never,   // nothing: it is done, or it has failed
  page,    // a page of memory that is coming
  rnr,     // a receive WQE of the responder: after the responder's timer
  answer,  // a peer that answers: after the requester's timeout
  wire,    // room on the wire; nothing has happened yet
};

// Why, in the words of cards: the hardware syndrome of an error entry, as public dumps show it
// (wq/vendor_bytes.hh says which).
namespace hardware {
inline constexpr uint8_t unknown = 0, bad_opcode = 0x01, unreadable = 0x02, umr_of_no_key = 0x08,
                         umr_too_long = 0x0f, no_inline_headers = 0x60, umr_unaligned = 0x86,
                         no_key = 0x92, other_domain = 0x93, bounds = 0x9d, unwritable = 0xa9;
}  // namespace hardware

struct [[nodiscard]] Verdict {
  // The syndrome of the error CQE. A request that waits has one too: it is written when patience
  // has run out.
  prm::Syndrome syndrome = prm::Syndrome::none;
  Again again = Again::never;
  uint8_t rnr_timer = 0;  // code of 5 bits (IBTA 9.7.5.2.8, "RNR NAK")
  uint8_t hardware = hardware::unknown;
  const char* why = "";  // lives for ever

  constexpr Verdict() noexcept = default;
  constexpr Verdict(prm::Syndrome s, const char* reason, Again a = Again::never) noexcept
      : syndrome(s), again(a), why(reason) {}
  constexpr Verdict(prm::Syndrome s, uint8_t cause, const char* reason) noexcept
      : syndrome(s), hardware(cause), why(reason) {}

  // Done, without an error.
  [[nodiscard]] constexpr bool ok() const noexcept { return syndrome == prm::Syndrome::none; }
  // An error, and nothing is waited for.
  [[nodiscard]] constexpr bool failed() const noexcept { return !ok() && again == Again::never; }
  // Whatever it waits for is not waited for.
  [[nodiscard]] constexpr Verdict given_up() const noexcept { return {syndrome, hardware, why}; }
  [[nodiscard]] constexpr bool misses_page() const noexcept { return again == Again::page; }

  // By what it says: not for the way of a request that goes well.
  constexpr bool operator==(const Verdict& o) const noexcept {
    return syndrome == o.syndrome && again == o.again && rnr_timer == o.rnr_timer &&
           std::string_view(why) == o.why;
  }

  static constexpr Verdict done() noexcept { return {}; }
  // The responder has no receive WQE; `timer` is what its NAK carries.
  static constexpr Verdict rnr(uint8_t timer) noexcept {
    Verdict v{prm::Syndrome::rnr_retry_exc, "receiver not ready", Again::rnr};
    v.rnr_timer = timer;
    return v;
  }
  // Nobody answers: ends as IBV_WC_RETRY_EXC_ERR when the queue pair's retries are used up.
  static constexpr Verdict no_answer(const char* why) noexcept {
    return {prm::Syndrome::transport_retry_exc, why, Again::answer};
  }
  static constexpr Verdict wire_full() noexcept {
    return {prm::Syndrome::transport_retry_exc, "the wire is full", Again::wire};
  }
};
// It is returned in two registers: each packet and each key of a request asks for one.
static_assert(sizeof(Verdict) == 16);

// A WQE that cannot be executed as it is written.
constexpr Verdict malformed(const char* why) noexcept {
  return {prm::Syndrome::local_qp_op, why};
}

}  // namespace kilim::vhca
