// SPDX-License-Identifier: BSD-3-Clause
// Send requests that fail by themselves, as a card may fail any, so that a client's recovery can be
// watched. Values, fixed when the adapter is made; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "kilim/detail/base/result.hh"

namespace kilim::vhca {

// Which ones, counted from 1 over all queues as the adapter takes requests up.
struct RequestFaults {
  uint64_t next = 0;   // 0: none
  uint64_t every = 0;  // from there on each so-manieth; 0: only that one

  // Whether it is the next one that fails, where `taken` have been taken up.
  [[nodiscard]] constexpr bool strikes_next(uint64_t taken) const noexcept {
    return next != 0 && taken + 1 >= next;
  }
  // Says whether the request that was taken up as the `taken`-th fails. Each fails once.
  [[nodiscard]] constexpr bool strikes(uint64_t taken) noexcept {
    if (next == 0 || taken < next) return false;
    next = every == 0 ? 0 : taken + every;
    return true;
  }
};

// "wqe@N" or "wqe@N+M", N and M from 1. EINVAL for another word.
Result<RequestFaults> find_request_faults(std::string_view word);

}  // namespace kilim::vhca
