// SPDX-License-Identifier: BSD-3-Clause
// ThrashDetector: detects on-demand memory with more page faults per second and region than a
// threshold. It then prefetches the watched regions and calls back.
// Owner: the control lcore, which passes in the clock and the counters.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/mr/advice_queue.hh"
#include "kilim/detail/mr/region.hh"

namespace kilim::inline v1::mr {

// Page faults since the start: of one region, or of `regions` regions together where the device
// does not count by region.
struct FaultCount {
  std::optional<Lkey> region;
  uint64_t faults = 0;
  uint64_t regions = 1;
};

class ThrashDetector {
 public:
  // A region, or all of them, thrashes.
  struct Verdict {
    std::optional<Lkey> region;  // nullopt: the mean over all regions
    uint64_t faults_per_second = 0;
  };
  struct Config {
    uint64_t faults_per_second = 1000;   // of one region; more is thrashing
    uint64_t window_ns = 1'000'000'000;  // shortest time over which faults are counted
    AdviceQueue* fetch = nullptr;        // prefetches watched regions that thrash; null: does not
    Advice advice = Advice::prefetch;    // for these prefetches
    // Called for each verdict, on the thread that calls count(); null: nobody.
    void (*say)(void* arg, const Verdict& verdict) = nullptr;
    void* arg = nullptr;
  };

  explicit ThrashDetector(const Config& config) noexcept : config_(config) {}
  // Adds and removes a region to prefetch when it thrashes. An implicit region cannot be
  // prefetched.
  void watch(const Region& region);
  void forget(const Region& region);
  // Adds a reading of a counter. True: the rate since the window's start is above the threshold.
  // The first reading of a region, and each within its window, only starts or continues the window.
  bool count(uint64_t now_ns, const FaultCount& c);
  // Verdicts so far. The owner's thread.
  [[nodiscard]] uint64_t verdicts() const noexcept { return verdicts_; }

 private:
  struct Window {
    std::optional<Lkey> region;
    uint64_t since_ns = 0;
    uint64_t faults = 0;
  };
  Window* window_of(uint64_t now_ns, const FaultCount& c);
  void fetch(const Verdict& verdict);

  const Config config_;
  std::vector<Window> windows_;
  std::vector<Region> watched_;
  uint64_t verdicts_ = 0;
};

}  // namespace kilim::inline v1::mr
