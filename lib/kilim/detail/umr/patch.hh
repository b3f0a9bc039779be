// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Control Segment", translation offset. Replaces some entries of a key, in granules of
// four; its other entries, length, access and tag stay.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/fixed.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/list_memory.hh"
#include "kilim/detail/umr/list_writer.hh"
#include "kilim/detail/umr/pointer_wqe.hh"
#include "kilim/detail/umr/umr_head.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_limits.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// Which entries to replace. Their number is a multiple of four unless they are the key's last.
struct Patch {
  Lkey key;                  // with its present tag, which stays
  uint32_t max_entries = 0;  // of the key
  uint32_t first = 0;        // a multiple of four
  uint8_t checks = 0;        // prm::umr::check_*
};

namespace detail {
[[gnu::always_inline]] inline Outcome check_patch(const prm::UmrLimits& limits, const Patch& p,
                                                  uint32_t count) noexcept {
  constexpr uint32_t granule = klms_per_line;
  if (count == 0) return {Refusal::empty, 0, 0};
  if (p.first % granule != 0) return {Refusal::off_granule, p.first, granule};
  if (count > p.max_entries || p.first > p.max_entries - count)
    return {Refusal::over_key, p.first + count, p.max_entries};
  if (count % granule != 0 && p.first + count != p.max_entries)
    return {Refusal::off_granule, count, granule};
  if (p.first > 0xffff && !limits.extended_offset)
    return {Refusal::offset_too_far, p.first, 0xffff};
  return {};
}

// Pieces that nobody has looked at.
struct Unseen {
  const Piece* pieces;
  uint32_t count;
};

template <typename AnyView>
[[gnu::always_inline]] inline Outcome patch_inline(queue::WqeCursor& c,
                                                   const prm::UmrLimits& limits, const Patch& p,
                                                   const AnyView& v, const UmrWr& wr) noexcept {
  const uint32_t octowords = klm_octowords(v.count);
  const uint32_t wqebbs = 2 + octowords / klms_per_line;
  if (const Outcome o = check_patch(limits, p, v.count); !o.ok()) [[unlikely]] {
    if constexpr (std::is_same_v<AnyView, View>) return v.count == 0 ? why_empty(v, 0) : o;
    return o;
  }
  if (octowords > max_inline_klms) [[unlikely]]
    return {Refusal::too_many_inline, v.count, max_inline_klms};
  if (!c.fits(wqebbs)) [[unlikely]]
    return {Refusal::no_room, wqebbs, c.room().value()};
  constexpr uint8_t partial = prm::umr::inline_list | prm::umr::has_translation_offset;
  WrapBuffer wrap;
  std::byte* const wqe = place(c, wqebbs, wrap);
  if constexpr (std::is_same_v<AnyView, FixedView>) {
    encode_ksm_list(wqe + 2 * wqebb_bytes, v);
  } else if constexpr (std::is_same_v<AnyView, Unseen>) {
    if (write_list_by(nullptr, wqe + 2 * wqebb_bytes, v.pieces, v.count) == 0) [[unlikely]]
      return why_bad({v.pieces, v.count}, 0);
  } else {
    store_klm_lines(wqe + 2 * wqebb_bytes, v.pieces, v.count);
  }
  store_umr_ctrl(wqe, {static_cast<uint8_t>(partial | p.checks), octowords, 0, p.first});
  store_no_mkey(wqe + wqebb_bytes);
  put(c, wqe, wqebbs);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords}, wr.flags, p.key.value());
  c.fence_next_user();
  c.advance(wqebbs, wr.id);
  return {};
}
}  // namespace detail

// Replaces entries of a KLM key by an inline list. An entry of another length than before shifts
// the addresses of everything behind it. Refused: empty, off_granule, over_key, offset_too_far,
// too_many_inline, no_room.
[[gnu::always_inline]] inline Outcome patch(queue::WqeCursor& c, const prm::UmrLimits& limits,
                                            const Patch& p, const View& v,
                                            const UmrWr& wr) noexcept {
  return detail::patch_inline(c, limits, p, v, wr);
}
// Takes pieces that have not been checked, and checks them while it writes them.
[[gnu::always_inline]] inline Outcome patch(queue::WqeCursor& c, const prm::UmrLimits& limits,
                                            const Patch& p, std::span<const Piece> pieces,
                                            const UmrWr& wr) noexcept {
  return detail::patch_inline(
      c, limits, p, detail::Unseen{pieces.data(), static_cast<uint32_t>(pieces.size())}, wr);
}
// Patches a KSM key.
[[gnu::always_inline]] inline Outcome patch_fixed(queue::WqeCursor& c, const prm::UmrLimits& limits,
                                                  const Patch& p, const FixedView& v,
                                                  const UmrWr& wr) noexcept {
  return detail::patch_inline(c, limits, p, v, wr);
}

// Replaces up to 65,532 entries by a list in memory, which stays unchanged until the UMR has
// completed. Refused: also no_pointer, misaligned_list.
inline Outcome patch_by_pointer(queue::WqeCursor& c, const prm::UmrLimits& limits, const Patch& p,
                                const StoredList& list, const UmrWr& wr) noexcept {
  const auto off = static_cast<uint32_t>(list.address % prm::umr::list_alignment);
  if (!limits.pointer_lists) return {Refusal::no_pointer, 0, 0};
  if (off != 0) return {Refusal::misaligned_list, off, 0};
  if (list.octowords % klms_per_line != 0)
    return {Refusal::off_granule, list.octowords, klms_per_line};
  if (list.octowords > prm::umr::max_list_octowords)
    return {Refusal::over_key, list.octowords, prm::umr::max_list_octowords};
  const uint32_t room = p.max_entries > p.first ? p.max_entries - p.first : 0;
  const uint32_t count = list.octowords < room ? list.octowords : room;
  if (list.octowords > round_up(room, klms_per_line))
    return {Refusal::over_key, p.first + list.octowords, p.max_entries};
  if (const Outcome o = detail::check_patch(limits, p, count); !o.ok()) return o;
  if (!c.fits(pointer_wqebbs)) return {Refusal::no_room, pointer_wqebbs, c.room().value()};
  const auto flags = static_cast<uint8_t>(prm::umr::has_translation_offset | p.checks);
  std::byte* const first = c.line();
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + 1}, wr.flags, p.key.value());
  detail::store_umr_ctrl(first, {flags, list.octowords, 0, p.first});
  detail::store_no_mkey(c.line(1));
  detail::store_list_pointer(c.line(2), list.address, list.key, list.octowords);
  c.fence_next_user();
  c.advance(pointer_wqebbs, wr.id);
  return {};
}

}  // namespace kilim::inline v1::umr
