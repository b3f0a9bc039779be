// SPDX-License-Identifier: BSD-3-Clause
// PRM: "KLM". Encodes a view as a list of KLMs, whole 64-byte lines at a time: one shuffle and one
// store a piece, the last line filled up with zeroes.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/units.hh"
#include "kilim/prm/umr_seg.hh"
#include "kilim/queue/sge.hh"
#include "kilim/umr/view.hh"

namespace kilim::umr {

inline constexpr uint32_t klms_per_line = prm::umr::granule_bytes / sizeof(prm::Klm);
static_assert(klms_per_line == 4);

// Octowords of the encoded list, padding included.
constexpr uint32_t klm_octowords(uint32_t pieces) noexcept {
  return (pieces + klms_per_line - 1) & ~(klms_per_line - 1);
}

// `line_at(i)` gives the place of the i-th line: a send queue wraps between lines.
template <typename LineAt>
[[gnu::always_inline]] inline void store_klm_list(const Piece* pieces, uint32_t count,
                                                  LineAt line_at) noexcept {
  uint32_t line = 0;
  for (; count >= klms_per_line; count -= klms_per_line, pieces += klms_per_line) {
    std::byte* dst = line_at(line++);
    queue::store_pointer(dst, pieces[0]);
    queue::store_pointer(dst + 16, pieces[1]);
    queue::store_pointer(dst + 32, pieces[2]);
    queue::store_pointer(dst + 48, pieces[3]);
  }
  if (count == 0) return;
  std::byte* dst = line_at(line);
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

// The list in memory, one line after the other.
inline void encode_klm_list(std::byte* to, const View& view) noexcept {
  store_klm_list(view.pieces, view.count,
                 [to](uint32_t i) noexcept { return to + std::size_t{i} * wqebb_bytes; });
}

}  // namespace kilim::umr
