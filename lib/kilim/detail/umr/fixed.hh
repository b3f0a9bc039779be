// SPDX-License-Identifier: BSD-3-Clause
// PRM: "KSM". Keys whose entries all span the same power of two of bytes: the device computes the
// entry from the offset instead of searching. For page tables and rings over a pool.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/umr_head.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_limits.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// log2 of an entry's bytes: 4 KiB to 2 GiB.
inline constexpr uint8_t min_log_entity = 12;
inline constexpr uint8_t max_log_entity = 31;

// Pieces of 2^log_entity bytes each; the last one may be shorter.
struct FixedView {
  const Piece* pieces = nullptr;
  uint32_t count = 0;
  uint8_t log_entity = 0;
  uint64_t length = 0;  // the sum over all pieces
};

// Checks the pieces and fills `v`. Refused: wrong_size (a log_entity out of range, or a piece of
// another size), empty.
inline Outcome fixed_view(std::span<const Piece> pieces, uint8_t log_entity,
                          FixedView& v) noexcept {
  if (log_entity < min_log_entity || log_entity > max_log_entity)
    return {Refusal::wrong_size, log_entity, min_log_entity};
  const uint32_t size = 1u << log_entity;
  for (std::size_t i = 0; i < pieces.size(); i++) {
    const bool last = i + 1 == pieces.size();
    if (pieces[i].length != size && (!last || pieces[i].length > size || pieces[i].length == 0))
      return {Refusal::wrong_size, pieces[i].length, size};
  }
  if (pieces.empty()) return {Refusal::empty, 0, 0};
  const auto count = static_cast<uint32_t>(pieces.size());
  v = {pieces.data(), count, log_entity,
       (uint64_t{count - 1} << log_entity) + pieces.back().length};
  return {};
}

// Writes the entries; line_at(i) returns the address of the i-th 64-byte line. The device takes the
// size from the mkey, but the kernel's fault handler reads every entry as a KLM and needs its byte
// count (Linux odp.c: pagefault_single_data_segment). The last entry has the full size too, as a
// patch may put others behind it.
template <typename LineAt>
inline void store_ksm_list(const FixedView& v, LineAt line_at) noexcept {
  for (uint32_t i = 0; i < klm_octowords(v.count); i++) {
    std::byte* dst = line_at(i / klms_per_line) + std::size_t{i % klms_per_line} * octoword_bytes;
    if (i < v.count) {
      queue::store_pointer(dst, v.pieces[i].address, 1u << v.log_entity, v.pieces[i].key);
    } else {
      queue::store_zero(dst);
    }
  }
}
// Writes the list to contiguous memory from `to` on, a multiple of 64.
inline void encode_ksm_list(std::byte* to, const FixedView& v) noexcept {
  store_ksm_list(v, [to](uint32_t i) noexcept { return to + std::size_t{i} * wqebb_bytes; });
}

namespace detail {
inline bool resizes(const ListRequest& r, const FixedView& v) noexcept {
  return v.log_entity != r.log_entity;
}
inline uint64_t mask_of(const ListRequest& r, const FixedView& v) noexcept {
  return r.mask() | (resizes(r, v) ? prm::umr::mask_page_size : 0);
}
inline MkeyWords mkey_words(const ListRequest& r, const FixedView& v) noexcept {
  MkeyWords words = mkey_words(r, v.length);
  words.log_entity = resizes(r, v) ? v.log_entity : uint8_t{0};
  return words;
}
}  // namespace detail

// Appends a UMR that gives a KSM key the view as an inline list, and the view's entry size.
// Refused: keeps_entity where the device cannot change that size, and the reasons of umr_list().
inline Outcome umr_fixed(queue::WqeCursor& c, const prm::UmrLimits& limits, const ListRequest& r,
                         const FixedView& v, const UmrWr& wr) noexcept {
  const uint32_t octowords = klm_octowords(v.count);
  const uint32_t wqebbs = 2 + octowords / klms_per_line;
  if (detail::resizes(r, v) && !limits.change_entity) return {Refusal::keeps_entity, 0, 0};
  if (const Outcome o = check_inline(c, r, v.count, wqebbs); !o.ok()) return o;
  const auto flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks);
  std::byte* const first = c.line(0);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords}, wr.flags, r.key.value());
  detail::store_umr_ctrl(first, {flags, octowords, detail::mask_of(r, v)});
  detail::store_mkey(c.line(1), detail::mkey_words(r, v));
  store_ksm_list(v, [&c](uint32_t i) noexcept { return c.line(2 + i); });
  c.fence_next_user();
  c.advance(wqebbs, wr.id);
  return {};
}

}  // namespace kilim::inline v1::umr
