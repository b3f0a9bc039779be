// SPDX-License-Identifier: BSD-3-Clause
// A range of this process's memory that lies in pages of one size on one NUMA node; how EAL's
// memory falls into such ranges. Values; set-up only, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/base/result.hh"

namespace kilim::mem {

struct Range {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  uint64_t page_bytes = 0;
  int socket = -1;  // NUMA node, -1 where unknown

  [[nodiscard]] std::span<std::byte> span() const noexcept { return {base, bytes}; }
};

// Every contiguous run of memory that EAL holds now, external memory included.
[[nodiscard]] std::vector<Range> eal_runs();

// `memory` cut where its pages change size: the pieces together are exactly `memory`. ENOENT where
// EAL does not know all of it.
[[nodiscard]] Result<std::vector<Range>> runs_of(std::span<std::byte> memory);

// Both for who holds EAL's memory lock: its callbacks, among others. The second: what EAL holds of
// `memory`, maybe with gaps.
[[nodiscard]] std::vector<Range> eal_runs_locked();
[[nodiscard]] std::vector<Range> runs_in_locked(std::span<std::byte> memory);

}  // namespace kilim::mem
