// SPDX-License-Identifier: BSD-3-Clause
// PRM: "KLM". Encodes pieces as a list of KLM entries in 64-byte lines: one shuffle and one store
// for each piece; the last line is padded with zeroes. Owner: the queue's worker. Never allocates,
// blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

inline constexpr uint32_t klms_per_line = prm::umr::granule_bytes / sizeof(prm::Klm);
static_assert(klms_per_line == 4);

// Octowords of the encoded list, padding included.
constexpr uint32_t klm_octowords(uint32_t pieces) noexcept {
  return (pieces + klms_per_line - 1) & ~(klms_per_line - 1);
}

namespace detail {
// A whole line.
[[gnu::always_inline]] inline void store_klm_line(std::byte* dst, const Piece* pieces) noexcept {
  queue::store_pointer(dst, pieces[0]);
  queue::store_pointer(dst + 16, pieces[1]);
  queue::store_pointer(dst + 32, pieces[2]);
  queue::store_pointer(dst + 48, pieces[3]);
}
// The last line: one to three pieces.
[[gnu::always_inline]] inline void store_klm_tail(std::byte* dst, const Piece* pieces,
                                                  uint32_t count) noexcept {
  queue::store_pointer(dst, pieces[0]);
  if (count > 1) {
    queue::store_pointer(dst + 16, pieces[1]);
  } else {
    queue::store_zero(dst + 16);
  }
  if (count > 2) {
    queue::store_pointer(dst + 32, pieces[2]);
  } else {
    queue::store_zero(dst + 32);
  }
  queue::store_zero(dst + 48);
}
}  // namespace detail

// Writes the list to contiguous lines; `to` is a multiple of 64.
[[gnu::always_inline]] inline void store_klm_lines(std::byte* to, const Piece* pieces,
                                                   uint32_t count) noexcept {
  // One index from -whole to 0 serves both pointers.
  const auto whole = static_cast<std::ptrdiff_t>(count & ~(klms_per_line - 1)) * 16;
  const auto* from_end = reinterpret_cast<const std::byte*>(pieces) + whole;
  std::byte* to_end = to + whole;
  for (std::ptrdiff_t at = -whole; at != 0; at += 64)
    detail::store_klm_line(to_end + at, reinterpret_cast<const Piece*>(from_end + at));
  if (const uint32_t rest = count % klms_per_line; rest != 0)
    detail::store_klm_tail(to_end, reinterpret_cast<const Piece*>(from_end), rest);
}

// The refusal for a view without pieces: View::of() makes such a view of a piece that is too long.
[[gnu::cold]] inline Outcome why_empty(const View& view, uint32_t limit) noexcept {
  if (view.length > prm::umr::max_piece_bytes)
    return {Refusal::long_piece, static_cast<uint32_t>(view.length), prm::umr::max_piece_bytes};
  return {Refusal::empty, 0, limit};
}

// Writes the list to memory that a list by pointer names.
inline void encode_klm_list(std::byte* to, const View& view) noexcept {
  store_klm_lines(to, view.pieces, view.count);
}

}  // namespace kilim::inline v1::umr
