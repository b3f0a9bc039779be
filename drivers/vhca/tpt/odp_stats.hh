// SPDX-License-Identifier: BSD-3-Clause
// Statistics of on-demand paging under the names that the vendor's documents give them: seven
// standard ones and four for debugging. Any thread counts and reads. Where files are given
// (entry/odp_files.hh) all processes that use the device count in one place, and each counter's
// text of fixed width is updated in place.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kilim::vhca::tpt {

enum class OdpCounter : uint8_t {
  // The standard set.
  invalidations_faults_contentions,  // faults dropped and prefetches restarted by invalidations
  num_invalidation_pages,
  num_invalidations,  // each region that one took pages from counts
  num_page_fault_pages,
  num_page_faults,
  num_prefetches_handled,
  num_prefetch_pages,
  // The debug set.
  num_failed_resolutions,
  num_mrs_not_found,
  num_odp_mr_pages,  // now: pages that are there
  num_odp_mrs,       // now
};
inline constexpr std::size_t odp_counters = 11;
inline constexpr std::size_t odp_standard_counters = 7;

// "num_page_faults".
const char* odp_counter_name(OdpCounter) noexcept;

// The values, which may lie in shared memory. All zero is a fresh one.
struct OdpValues {
  std::array<std::atomic<uint64_t>, odp_counters> value;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class OdpStats {
 public:
  static constexpr std::size_t text_bytes = 21;  // 20 digits or spaces and a newline

  OdpStats() noexcept : values_(&own_) {}
  OdpStats(const OdpStats&) = delete;
  OdpStats& operator=(const OdpStats&) = delete;

  // Before the first count: counts there, and shows each value in `texts` (text_bytes each; null:
  // not that one). Both outlive this.
  void use(OdpValues& values, const std::array<char*, odp_counters>& texts) noexcept;

  void add(OdpCounter c, uint64_t n) noexcept { change(c, n); }
  void sub(OdpCounter c, uint64_t n) noexcept { change(c, ~n + 1); }
  // The process ends: what it had registered is no more. After a crash it stays counted.
  void leave() noexcept;
  [[nodiscard]] uint64_t read(OdpCounter c) const noexcept {
    return values_->value[index(c)].load(std::memory_order_relaxed);
  }

  static void write_text(char* text, uint64_t value) noexcept;

 private:
  static constexpr std::size_t index(OdpCounter c) noexcept { return static_cast<std::size_t>(c); }
  void change(OdpCounter c, uint64_t by) noexcept;

  OdpValues own_{};
  OdpValues* values_;
  std::array<char*, odp_counters> texts_{};
};

}  // namespace kilim::vhca::tpt
