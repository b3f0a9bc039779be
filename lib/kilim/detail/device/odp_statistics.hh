// SPDX-License-Identifier: BSD-3-Clause
// Statistics of on-demand paging under the names of the vendor's documents: a standard set of seven
// and a debug set of four, of the whole device since it was registered.
// Pure values, any thread. What the running kernel lacks is "not reported", never 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace kilim::inline v1::device {

// The documents' names, as sysfs files have them (drivers/mlx5/odp_files.hh).
enum class OdpCounter : uint8_t {
  invalidations_faults_contentions,
  num_invalidation_pages,
  num_invalidations,
  num_page_fault_pages,
  num_page_faults,
  num_prefetches_handled,
  num_prefetch_pages,
  num_failed_resolutions,  // the debug set begins
  num_mrs_not_found,
  num_odp_mr_pages,
  num_odp_mrs,
};
inline constexpr std::size_t odp_counters = 11;
inline constexpr std::size_t odp_standard_counters = 7;

inline constexpr std::array<const char*, odp_counters> odp_counter_names{
    "invalidations_faults_contentions",
    "num_invalidation_pages",
    "num_invalidations",
    "num_page_fault_pages",
    "num_page_faults",
    "num_prefetches_handled",
    "num_prefetch_pages",
    "num_failed_resolutions",
    "num_mrs_not_found",
    "num_odp_mr_pages",
    "num_odp_mrs",
};

// A reading; nullopt: not reported.
struct OdpStatistics {
  std::array<std::optional<uint64_t>, odp_counters> values{};

  [[nodiscard]] const std::optional<uint64_t>& of(OdpCounter c) const noexcept {
    return values[static_cast<std::size_t>(c)];
  }
};

}  // namespace kilim::inline v1::device
