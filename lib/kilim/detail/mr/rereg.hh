// SPDX-License-Identifier: BSD-3-Clause
// A change of a registered region, and the region's state afterwards (ibv_rereg_mr).
// Pure values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::mr {

// A protection domain of a registrar; 0 is the domain of the device's queues.
using Domain = Ident<struct DomainTag, uint32_t>;

// The parts to change; the others stay.
struct Change {
  bool translation = false;
  bool domain = false;
  bool access = false;
  std::span<std::byte> memory;  // the new translation
  uint64_t page_bytes = 0;      // its pages, as register_memory() takes it
  Domain new_domain;
  uint32_t new_access = 0;
};

// rdma-core's five codes (enum ibv_rereg_mr_err_code), success, and a refusal by this library.
enum class ReregOutcome : uint8_t {
  done,
  refused,                  // by this library, before the call; the old region is valid
  input,                    // the old region is valid
  dont_fork_new,            // the old region is valid
  do_fork_old,              // the new region is valid; a forked child may lack the old memory
  command,                  // the region is undefined
  command_and_do_fork_new,  // the region is undefined
};

// Which region is valid after an outcome.
enum class Standing : uint8_t { old_region, new_region, undefined };

// By ibv_rereg_mr(3).
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

// The result of a re-registration.
struct Rereg {
  ReregOutcome outcome = ReregOutcome::done;
  Error error;  // unless the outcome is done

  [[nodiscard]] bool ok() const noexcept { return outcome == ReregOutcome::done; }
  [[nodiscard]] Standing standing() const noexcept { return standing_after(outcome); }
};

}  // namespace kilim::inline v1::mr
