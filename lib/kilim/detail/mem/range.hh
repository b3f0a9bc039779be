// SPDX-License-Identifier: BSD-3-Clause
// Range: memory of this process in pages of one size on one NUMA node; and functions that find the
// ranges of EAL's memory. Values; set-up only; any thread, except where a function says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::mem {

struct Range {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  uint64_t page_bytes = 0;
  int socket = -1;  // NUMA node, -1 where unknown

  [[nodiscard]] std::span<std::byte> span() const noexcept { return {base, bytes}; }
};

// Every contiguous run of memory that EAL holds now, external memory included, in the order of
// addresses. Takes EAL's memory lock (rte_memseg_contig_walk()).
[[nodiscard]] std::vector<Range> eal_runs();

// Cuts `memory` where its page size changes; the ranges together are exactly `memory`, in the order
// of addresses. ENOENT: not all of it is EAL's.
[[nodiscard]] Result<std::vector<Range>> runs_of(std::span<std::byte> memory);

// For callers that hold EAL's memory lock, as its memory event callbacks do. eal_runs_locked(): as
// eal_runs(). runs_in_locked(): the parts of `memory` that EAL holds, with gaps where it holds
// none.
[[nodiscard]] std::vector<Range> eal_runs_locked();
[[nodiscard]] std::vector<Range> runs_in_locked(std::span<std::byte> memory);

}  // namespace kilim::inline v1::mem
