// SPDX-License-Identifier: BSD-3-Clause
// The chooser: how a layout of scattered pieces is sent for the least time: copied together, as a
// scatter/gather list, or under a key that is woven inline, by pointer, or once for many uses. What
// each way costs is measured at start-up (plan_bench.hh) or said by the caller.
// A value; one thread changes it, any may ask. choose() never allocates, blocks or logs.
#pragma once

#include <array>
#include <cstdint>

namespace kilim::umr {

enum class Way : uint8_t { copy, gather_list, inline_key, pointer_key, cached_key, none };
inline constexpr uint32_t ways = 5;  // none is none

using WayMask = uint8_t;
constexpr WayMask mask_of(Way w) noexcept {
  return static_cast<WayMask>(1u << static_cast<uint32_t>(w));
}
inline constexpr WayMask all_ways = (1u << ways) - 1;

// What is to be sent, and how often from the same pieces (their bytes may change in between).
struct Scatter {
  uint32_t pieces = 0;
  uint64_t bytes = 0;  // of all pieces
  uint32_t uses = 1;
  bool remote = false;      // a peer names the range: it lies under one key
  WayMask ways = all_ways;  // that the caller can go
};

// The longest list of each way; 0: the way is closed.
struct PlanLimits {
  uint32_t list_pieces = 0;     // data segments of one request
  uint32_t inline_pieces = 0;   // of a UMR with its list in itself
  uint32_t pointer_pieces = 0;  // of one with its list in memory: the key's entries
  uint64_t copy_bytes = 0;      // room to pack into
};

// Nanoseconds of one use: for a message, for each of its first 64 pieces and each further one, for
// each byte of its first 4 KiB, up to 64 KiB and beyond: caches are left there. Of cached_key once
// it is woven.
struct WayCost {
  float fixed = 0, piece = 0, more = 0, near = 0, middle = 0, far = 0;
};
inline constexpr uint32_t near_pieces = 64, near_bytes = 4096, middle_bytes = 65536;

using PlanCosts = std::array<WayCost, ways>;

class Plan {
 public:
  Plan(const PlanLimits& limits, const PlanCosts& costs) noexcept
      : limits_(limits), costs_(costs) {}

  // The cheapest way that is open; none: there is none.
  [[nodiscard]] Way choose(const Scatter& l) const noexcept {
    const WayMask open = open_ways(l);
    if ((open & forced_) != 0) [[unlikely]]
      return forced_way_;
    // One piece is sent where it lies: every other way does that, and more.
    if (l.pieces == 1 && (open & mask_of(Way::gather_list)) != 0) return Way::gather_list;
    const Load load{l};
    Way best = Way::none;
    float least = 0, weave = 0;  // of the keys that are woven for one use, the cheaper
    for (uint32_t i = 0; i < ways - 1; i++) {
      const Way w = static_cast<Way>(i);
      if ((open & mask_of(w)) == 0) continue;
      const float one = load.under(costs_[i]);
      if (w >= Way::inline_key && (weave == 0 || one < weave)) weave = one;
      const float all = one * load.uses;
      if (best != Way::none && all >= least) continue;
      best = w;
      least = all;
    }
    if (weave == 0 || (open & mask_of(Way::cached_key)) == 0 || l.uses < 2) return best;
    const float cached = weave + (load.uses - 1) * load.under(costs_[ways - 1]);
    return best == Way::none || cached < least ? Way::cached_key : best;
  }

  // Nanoseconds of all uses by one way, whether it is open or not.
  [[nodiscard]] float cost(Way w, const Scatter& l) const noexcept {
    const Load load{l};
    const float one = load.under(costs_[static_cast<uint32_t>(w)]);
    if (w != Way::cached_key) return one * load.uses;
    const bool fits = l.pieces <= limits_.inline_pieces;
    const Way by = fits ? Way::inline_key : Way::pointer_key;
    float weave = load.under(costs_[static_cast<uint32_t>(by)]);
    const float pointer = load.under(costs_[static_cast<uint32_t>(Way::pointer_key)]);
    if (fits && l.pieces <= limits_.pointer_pieces && pointer < weave) weave = pointer;
    return weave + (load.uses - 1) * one;
  }

  // The ways that the layout and the limits leave.
  [[nodiscard]] WayMask open_ways(const Scatter& l) const noexcept {
    const bool list = !l.remote && l.pieces <= limits_.list_pieces;
    const bool in_wqe = l.pieces <= limits_.inline_pieces;
    const bool pointed = l.pieces <= limits_.pointer_pieces;
    const auto open = static_cast<WayMask>(
        (l.bytes <= limits_.copy_bytes ? mask_of(Way::copy) : 0) |
        (list ? mask_of(Way::gather_list) : 0) | (in_wqe ? mask_of(Way::inline_key) : 0) |
        (pointed ? mask_of(Way::pointer_key) : 0) |
        (in_wqe || pointed ? mask_of(Way::cached_key) : 0));
    return l.pieces == 0 ? WayMask{0} : static_cast<WayMask>(open & l.ways);
  }

  // This way wherever it is open; none: the cheapest again.
  void force(Way w) noexcept {
    forced_ = w == Way::none ? WayMask{0} : mask_of(w);
    forced_way_ = w;
  }
  void set_cost(Way w, const WayCost& cost) noexcept { costs_[static_cast<uint32_t>(w)] = cost; }
  [[nodiscard]] const PlanCosts& costs() const noexcept { return costs_; }
  [[nodiscard]] const PlanLimits& limits() const noexcept { return limits_; }

 private:
  struct Load {
    explicit Load(const Scatter& l) noexcept : uses(static_cast<float>(l.uses)) {
      const uint32_t some = l.pieces < near_pieces ? l.pieces : near_pieces;
      pieces = static_cast<float>(some);
      more = static_cast<float>(l.pieces - some);
      const auto bytes = static_cast<int64_t>(l.bytes);
      const int64_t first = bytes < near_bytes ? bytes : near_bytes;
      const int64_t second = bytes < middle_bytes ? bytes : middle_bytes;
      near = static_cast<float>(first);
      middle = static_cast<float>(second - first);
      far = static_cast<float>(bytes - second);
    }
    [[nodiscard]] float under(const WayCost& c) const noexcept {
      return c.fixed + c.piece * pieces + c.more * more + c.near * near + c.middle * middle +
             c.far * far;
    }
    float uses, pieces, more, near, middle, far;
  };

  PlanLimits limits_;
  PlanCosts costs_;
  WayMask forced_ = 0;
  Way forced_way_ = Way::none;
};

const char* name_of(Way w) noexcept;
// none where nothing is called so.
Way way_named(const char* name) noexcept;

// A layout of equal pieces that is tried out.
struct Trial {
  uint32_t pieces = 0;
  uint32_t piece_bytes = 0;
  uint32_t uses = 1;
};
// Nanoseconds of all uses by the way; negative: it did not work.
using RunTrial = float (*)(void* arg, Way w, const Trial& trial);

// The costs of all ways that the limits leave open, from a few trials each; a way whose trials do
// not work is closed in `limits`.
PlanCosts calibrate(PlanLimits& limits, RunTrial run, void* arg) noexcept;

}  // namespace kilim::umr
