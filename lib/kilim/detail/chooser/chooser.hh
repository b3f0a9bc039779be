// SPDX-License-Identifier: BSD-3-Clause
// Chooser: picks the cheapest way to send scattered pieces: copied together, as a scatter/gather
// list, or under an mkey bound inline, by pointer, or once for many uses. The costs are measured at
// start-up (chooser_bench.hh) or given by the caller.
// A value; one thread changes it, any may call choose(), which never allocates, blocks or logs.
#pragma once

#include <array>
#include <cstdint>

namespace kilim::inline v1::chooser {

// copy: into one buffer. gather_list: data segments of one request. inline_key, pointer_key: an
// mkey bound for one use. cached_key: one bound for all uses.
enum class Way : uint8_t { copy, gather_list, inline_key, pointer_key, cached_key, none };
inline constexpr uint32_t ways = 5;  // without Way::none

using WayMask = uint8_t;
constexpr WayMask mask_of(Way w) noexcept {
  return static_cast<WayMask>(1u << static_cast<uint32_t>(w));
}
inline constexpr WayMask all_ways = (1u << ways) - 1;

// A message to be sent, and how often from the same addresses; the bytes may change in between.
struct Scatter {
  uint32_t pieces = 0;
  uint64_t bytes = 0;  // of all pieces
  uint32_t uses = 1;
  bool remote = false;      // a peer reads or writes it: it needs one key
  WayMask ways = all_ways;  // ways that the caller can use
};

// The longest list of each way; 0: the way cannot be used.
struct ChooserLimits {
  uint32_t list_pieces = 0;     // data segments of one request
  uint32_t inline_pieces = 0;   // entries of a UMR with an inline list
  uint32_t pointer_pieces = 0;  // entries of the mkey, for a list by pointer
  uint64_t copy_bytes = 0;      // bytes of the buffer to copy into
};

// Nanoseconds of one use: for the message, for each of its first 64 pieces and each further one,
// for each of its first 4 KiB, up to 64 KiB and beyond, where it leaves the caches. For cached_key
// without the bind.
struct WayCost {
  float fixed = 0, piece = 0, more = 0, near = 0, middle = 0, far = 0;
};
inline constexpr uint32_t near_pieces = 64, near_bytes = 4096, middle_bytes = 65536;

using ChooserCosts = std::array<WayCost, ways>;

class Chooser {
 public:
  Chooser(const ChooserLimits& limits, const ChooserCosts& costs) noexcept
      : limits_(limits), costs_(costs) {}

  // The cheapest way that can be used; Way::none: no way can.
  [[nodiscard]] Way choose(const Scatter& l) const noexcept {
    const WayMask open = open_ways(l);
    if ((open & forced_) != 0) [[unlikely]]
      return forced_way_;
    // One piece needs neither copy nor key: every other way does the same and more.
    if (l.pieces == 1 && (open & mask_of(Way::gather_list)) != 0) return Way::gather_list;
    const Load load{l};
    Way best = Way::none;
    float least = 0, bind = 0;  // bind: the cheaper of the ways that bind for one use
    for (uint32_t i = 0; i < ways - 1; i++) {
      const Way w = static_cast<Way>(i);
      if ((open & mask_of(w)) == 0) continue;
      const float one = load.under(costs_[i]);
      if (w >= Way::inline_key && (bind == 0 || one < bind)) bind = one;
      const float all = one * load.uses;
      if (best != Way::none && all >= least) continue;
      best = w;
      least = all;
    }
    if (bind == 0 || (open & mask_of(Way::cached_key)) == 0 || l.uses < 2) return best;
    const float cached = bind + (load.uses - 1) * load.under(costs_[ways - 1]);
    return best == Way::none || cached < least ? Way::cached_key : best;
  }

  // Nanoseconds of all uses by one way, even if it cannot be used.
  [[nodiscard]] float cost(Way w, const Scatter& l) const noexcept {
    const Load load{l};
    const float one = load.under(costs_[static_cast<uint32_t>(w)]);
    if (w != Way::cached_key) return one * load.uses;
    const bool fits = l.pieces <= limits_.inline_pieces;
    const Way by = fits ? Way::inline_key : Way::pointer_key;
    float bind = load.under(costs_[static_cast<uint32_t>(by)]);
    const float pointer = load.under(costs_[static_cast<uint32_t>(Way::pointer_key)]);
    if (fits && l.pieces <= limits_.pointer_pieces && pointer < bind) bind = pointer;
    return bind + (load.uses - 1) * one;
  }

  // The ways that layout, caller and limits allow.
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

  // Makes choose() return this way wherever it can be used; Way::none: the cheapest again.
  void force(Way w) noexcept {
    forced_ = w == Way::none ? WayMask{0} : mask_of(w);
    forced_way_ = w;
  }
  void set_cost(Way w, const WayCost& cost) noexcept { costs_[static_cast<uint32_t>(w)] = cost; }
  [[nodiscard]] const ChooserCosts& costs() const noexcept { return costs_; }
  [[nodiscard]] const ChooserLimits& limits() const noexcept { return limits_; }

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

  ChooserLimits limits_;
  ChooserCosts costs_;
  WayMask forced_ = 0;
  Way forced_way_ = Way::none;
};

// The name in options and texts.
const char* name_of(Way w) noexcept;
// Way::none for an unknown name.
Way way_named(const char* name) noexcept;

// A layout of equal pieces to be measured.
struct Trial {
  uint32_t pieces = 0;
  uint32_t piece_bytes = 0;
  uint32_t uses = 1;
};
// Measures one way: nanoseconds of all uses; negative: it failed.
using RunTrial = float (*)(void* arg, Way w, const Trial& trial);

// Measures every way that the limits allow by a few trials. A way whose trials fail is closed in
// `limits`.
ChooserCosts calibrate(ChooserLimits& limits, RunTrial run, void* arg) noexcept;

}  // namespace kilim::inline v1::chooser
