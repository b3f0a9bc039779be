// SPDX-License-Identifier: BSD-3-Clause
// Notices on-demand memory whose pages come and go too often: more faults per second and region
// than a threshold. It then fetches the regions that are watched, or says so.
// Owner: the control lcore; the clock and the counters are handed in.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kilim/base/ident.hh"
#include "kilim/mr/advice_queue.hh"
#include "kilim/mr/region.hh"

namespace kilim::mr {

// A number of faults since the beginning: of one region, where a device counts by region; else of
// all together, and how many those are.
struct FaultCount {
  std::optional<Lkey> region;
  uint64_t faults = 0;
  uint64_t regions = 1;
};

class ThrashDetector {
 public:
  struct Verdict {
    std::optional<Lkey> region;  // none: the mean of all
    uint64_t faults_per_second = 0;
  };
  struct Config {
    uint64_t faults_per_second = 1000;   // of one region; more is thrashing
    uint64_t window_ns = 1'000'000'000;  // over which they are counted, at least
    AdviceQueue* fetch = nullptr;        // where fetching the watched regions is asked for
    Advice advice = Advice::prefetch;    // how
    void (*say)(void* arg, const Verdict& verdict) = nullptr;
    void* arg = nullptr;
  };

  explicit ThrashDetector(const Config& config) noexcept : config_(config) {}
  // Regions to fetch when they thrash; an implicit one cannot be.
  void watch(const Region& region);
  void forget(const Region& region);
  // True where that was thrashing. The first count of a region, and each until its window is over,
  // is only remembered.
  bool count(uint64_t now_ns, const FaultCount& c);
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

}  // namespace kilim::mr
