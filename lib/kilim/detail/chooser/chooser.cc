// SPDX-License-Identifier: BSD-3-Clause
// The ways' names, and fitting the six terms of a way's cost to six trials.
#include "kilim/detail/chooser/chooser.hh"

#include <algorithm>
#include <cstring>

namespace kilim::inline v1::chooser {
namespace {

constexpr const char* names[] = {"copy", "list", "inline", "pointer", "cached", "none"};
static_assert(std::size(names) == ways + 1);

// Piece counts, and piece sizes in bytes. The sizes are odd, so that most pieces begin within a
// cache line. They lie where the ways differ most: for tiny pieces copying wins, for huge ones all
// are equal.
constexpr uint32_t few = 4, many = 48, lots = 384;
constexpr uint32_t small_piece = 253, near_piece = near_bytes / few - 3;
constexpr uint32_t middle_piece = middle_bytes / few - 5, far_piece = 65533;
constexpr uint32_t cached_uses = 16;

uint32_t longest(const ChooserLimits& l, Way w) noexcept {
  switch (w) {
    case Way::copy:
      return l.copy_bytes >= uint64_t{few} * far_piece ? lots : 0;
    case Way::gather_list:
      return l.list_pieces;
    case Way::inline_key:
      return l.inline_pieces;
    case Way::pointer_key:
      return l.pointer_pieces;
    default:
      return std::max(l.inline_pieces, l.pointer_pieces);
  }
}

void close(ChooserLimits& l, Way w) noexcept {
  if (w == Way::copy) l.copy_bytes = 0;
  if (w == Way::gather_list) l.list_pieces = 0;
  if (w == Way::inline_key || w == Way::cached_key) l.inline_pieces = 0;
  if (w == Way::pointer_key || w == Way::cached_key) l.pointer_pieces = 0;
}

// Nanoseconds of one use; for a cached key, of one more use.
float one_use(RunTrial run, void* arg, Way w, Trial t) noexcept {
  const float once = run(arg, w, t);
  if (w != Way::cached_key || once < 0) return once;
  t.uses = cached_uses;
  const float all = run(arg, w, t);
  return all < 0 ? all : std::max((all - once) / (cached_uses - 1), 0.F);
}

float slope(float from, float to, float distance) noexcept {
  return std::max((to - from) / distance, 0.F);
}

// The least nanoseconds of one use in each trial; negative: it failed.
struct Seen {
  // `few` pieces of each size.
  float at_small = 0, at_near = 0, at_middle = 0, at_far = 0;
  float spread = 0;   // `many` pieces with as many bytes as at_middle
  float at_lots = 0;  // `lots` of small pieces
};

uint32_t pieces_spread(uint32_t most) noexcept {
  return std::min(most, many);
}

bool sample(RunTrial run, void* arg, Way w, uint32_t most, Seen& s) noexcept {
  const auto least = [&](const Trial& t, float& ns) noexcept {
    const float now = one_use(run, arg, w, t);
    if (ns == 0 || now < ns) ns = now;
  };
  const uint32_t n = pieces_spread(most);
  least({.pieces = few, .piece_bytes = small_piece}, s.at_small);
  least({.pieces = few, .piece_bytes = near_piece}, s.at_near);
  least({.pieces = few, .piece_bytes = middle_piece}, s.at_middle);
  least({.pieces = few, .piece_bytes = far_piece}, s.at_far);
  least({.pieces = n, .piece_bytes = few * middle_piece / n}, s.spread);
  if (most >= lots) least({.pieces = lots, .piece_bytes = small_piece}, s.at_lots);
  return s.at_small >= 0 && s.at_near >= 0 && s.at_middle >= 0 && s.at_far >= 0 && s.spread >= 0 &&
         s.at_lots >= 0;
}

WayCost fit(uint32_t most, const Seen& s) noexcept {
  constexpr auto bytes_between = [](uint32_t a, uint32_t b) {
    return static_cast<float>(few * (b - a));
  };
  WayCost c;
  c.piece = slope(s.at_middle, s.spread, static_cast<float>(pieces_spread(most) - few));
  c.near = slope(s.at_small, s.at_near, bytes_between(small_piece, near_piece));
  c.middle = slope(s.at_near, s.at_middle, bytes_between(near_piece, middle_piece));
  c.far = slope(s.at_middle, s.at_far, bytes_between(middle_piece, far_piece));
  const float rest = s.at_small - c.piece * few - c.near * few * small_piece;
  c.fixed = std::max(rest, 1.F);
  c.more = c.piece;
  if (most < lots) return c;
  const float some =
      s.at_middle + c.piece * (near_pieces - few) + c.far * (lots * small_piece - middle_bytes);
  c.more = slope(some, s.at_lots, static_cast<float>(lots - near_pieces));
  return c;
}

}  // namespace

const char* name_of(Way w) noexcept {
  return names[std::min(static_cast<uint32_t>(w), ways)];
}

Way way_named(const char* name) noexcept {
  for (uint32_t i = 0; i < ways; i++)
    if (std::strcmp(name, names[i]) == 0) return static_cast<Way>(i);
  return Way::none;
}

// Two passes over all ways, so that a disturbance of the machine does not hit both trials of one.
ChooserCosts calibrate(ChooserLimits& limits, RunTrial run, void* arg) noexcept {
  ChooserCosts costs{};
  std::array<Seen, ways> seen{};
  std::array<uint32_t, ways> most{};
  for (uint32_t i = 0; i < ways; i++) most[i] = longest(limits, static_cast<Way>(i));
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < ways; i++) {
      const Way w = static_cast<Way>(i);
      if (most[i] > few && sample(run, arg, w, most[i], seen[i])) continue;
      most[i] = 0;
      close(limits, w);
    }
  }
  for (uint32_t i = 0; i < ways; i++)
    if (most[i] != 0) costs[i] = fit(most[i], seen[i]);
  return costs;
}

}  // namespace kilim::inline v1::chooser
