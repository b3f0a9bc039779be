// SPDX-License-Identifier: BSD-3-Clause
// What became of a request: of its execution at the requester, of its arrival at the responder.
// Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/prm/syndrome.hh"

namespace kilim::vhca {

// How long a queue waits whose own memory met a page fault.
inline constexpr uint64_t page_stall_ns = 20'000;
// How often it waits for one WQE before that fails: a page may be taken away again before it is
// used, or be one that the fault handler never finds (tpt/fault_walk.hh).
inline constexpr uint16_t most_stalls = 50'000;

struct Outcome {
  enum class Kind : uint8_t {
    done,
    rnr,        // the responder has no receive WQE: again after its timer
    no_answer,  // nobody there: again after the timeout
    stall,      // a page of the requester's own memory is coming: again soon
    failed,     // with `syndrome`
  };
  Kind kind = Kind::done;
  prm::Syndrome syndrome = prm::Syndrome::none;
  uint8_t rnr_timer = 0;
  uint32_t bytes = 0;  // of a READ or an atomic, for its completion
  const char* why = "";
  bool in_entry = false;  // its answer waits in EngineContext::entry_data

  [[nodiscard]] constexpr bool ok() const noexcept { return kind == Kind::done; }
  static constexpr Outcome done(uint32_t bytes = 0) noexcept {
    return {Kind::done, prm::Syndrome::none, 0, bytes, ""};
  }
  static constexpr Outcome rnr(uint8_t timer) noexcept {
    return {Kind::rnr, prm::Syndrome::rnr_retry_exc, timer, 0, "receiver not ready"};
  }
  static constexpr Outcome stall() noexcept {
    return {Kind::stall, prm::Syndrome::local_prot, 0, 0, "pages do not stay"};
  }
  static constexpr Outcome no_answer(const char* why) noexcept {
    return {Kind::no_answer, prm::Syndrome::transport_retry_exc, 0, 0, why};
  }
  static constexpr Outcome failed(prm::Syndrome s, const char* why) noexcept {
    return {Kind::failed, s, 0, 0, why};
  }
};

// A WQE that cannot be executed as it is written.
constexpr Outcome malformed(const char* why) noexcept {
  return Outcome::failed(prm::Syndrome::local_qp_op, why);
}

}  // namespace kilim::vhca
