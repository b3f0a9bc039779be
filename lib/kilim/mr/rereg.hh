// SPDX-License-Identifier: BSD-3-Clause
// A change of a registered region, and the state it is in afterwards.
// Pure values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/base/ident.hh"
#include "kilim/base/result.hh"

namespace kilim::mr {

// A protection domain of a registrar; 0 is the one that its device's queues are in.
using Domain = Ident<struct DomainTag, uint32_t>;

// Each alone or together with the others; what is not named stays.
struct Change {
  bool translation = false;
  bool domain = false;
  bool access = false;
  std::span<std::byte> memory;  // the new translation
  uint64_t page_bytes = 0;      // its pages, as register_memory() takes it
  Domain new_domain;
  uint32_t new_access = 0;
};

// rdma-core's five codes, success, and what this library refuses before it asks.
enum class ReregOutcome : uint8_t {
  done,
  refused,                  // the old region stands
  input,                    // the old region stands
  dont_fork_new,            // the old region stands
  do_fork_old,              // the new region stands; a fork may still miss the old memory
  command,                  // undefined
  command_and_do_fork_new,  // undefined
};

// Which region holds after an outcome.
enum class Standing : uint8_t { old_region, new_region, undefined };

constexpr Standing standing_after(ReregOutcome o) noexcept {
  switch (o) {
    case ReregOutcome::done:
    case ReregOutcome::do_fork_old:
      return Standing::new_region;
    case ReregOutcome::command:
    case ReregOutcome::command_and_do_fork_new:
      return Standing::undefined;
    default:
      return Standing::old_region;
  }
}

struct Rereg {
  ReregOutcome outcome = ReregOutcome::done;
  Error error;  // of every outcome but done

  [[nodiscard]] bool ok() const noexcept { return outcome == ReregOutcome::done; }
  [[nodiscard]] Standing standing() const noexcept { return standing_after(outcome); }
};

}  // namespace kilim::mr
