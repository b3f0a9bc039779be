// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Work Request Operation", list by pointer. A key gets its list, of any kind, from
// registered memory: one WQE for up to 65,532 octowords, several with translation offsets beyond.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/list_memory.hh"
#include "kilim/detail/umr/request.hh"
#include "kilim/detail/umr/umr_head.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_limits.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// WQEs needed for a list of so many octowords.
constexpr uint32_t pointer_wqes(uint32_t octowords) noexcept {
  constexpr uint32_t most = prm::umr::max_list_octowords;
  constexpr uint32_t step = prm::umr::chained_list_octowords;
  return octowords <= most ? 1 : (octowords - most + step - 1) / step + 1;
}

namespace detail {
// Checks whether the key and the device take a list of so many octowords, padding included.
inline Outcome check_reach(const queue::WqeCursor& c, const prm::UmrLimits& limits,
                           const ListRequest& r, uint32_t octowords) noexcept {
  const uint32_t wqes = pointer_wqes(octowords);
  if (!limits.pointer_lists) return {Refusal::no_pointer, 0, 0};
  if (octowords == 0) return {Refusal::empty, 0, 0};
  if (octowords > round_up(r.max_entries, 4)) return {Refusal::over_key, octowords, r.max_entries};
  const uint32_t last = (wqes - 1) * prm::umr::chained_list_octowords;
  if (last > 0xffff && !limits.extended_offset) return {Refusal::offset_too_far, last, 0xffff};
  if (!c.fits(wqes * pointer_wqebbs))
    return {Refusal::no_room, wqes * pointer_wqebbs, c.room().value()};
  return {};
}

inline Outcome check_pointer(const queue::WqeCursor& c, const prm::UmrLimits& limits,
                             const ListRequest& r, const StoredList& list) noexcept {
  if (const Outcome o = check_reach(c, limits, r, list.octowords); !o.ok()) return o;
  const auto off = static_cast<uint32_t>(list.address % prm::umr::list_alignment);
  if (off != 0) return {Refusal::misaligned_list, off, 0};
  if (list.octowords % 4 != 0) return {Refusal::off_granule, list.octowords, 4};
  return {};
}

// Appends one WQE of a chain, not the last. The key stays free until the last part has been
// written.
inline void append_part(queue::WqeCursor& c, const ListRequest& r, const StoredList& part,
                        uint64_t offset, const UmrWr& wr) noexcept {
  const bool first = offset == 0;
  const auto flags =
      static_cast<uint8_t>(prm::umr::has_translation_offset | (first ? r.checks : 0));
  std::byte* const line = c.line(0);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + 1}, wr.flags, r.key.value());
  store_umr_ctrl(line, {flags, part.octowords, prm::umr::mask_free, offset});
  store_mkey(c.line(1), {.free = prm::mkey::free,
                         .access = 0,
                         .qpn_mkey = prm::mkey::any_qpn << 8 | tag_of(r.key),
                         .start = 0,
                         .length = 0});
  store_list_pointer(c.line(2), part.address, part.key, part.octowords);
  c.fence_next_user();
  c.advance(pointer_wqebbs, wr.id);
}
}  // namespace detail

// Appends the UMRs that give the key a list in memory, which stays unchanged until they have
// completed. Between several WQEs the key is free. Refused: no_pointer, empty, over_key,
// offset_too_far, no_room, misaligned_list, off_granule.
inline Outcome umr_by_pointer(queue::WqeCursor& c, const prm::UmrLimits& limits,
                              const ListRequest& r, const StoredList& list,
                              const UmrWr& wr) noexcept {
  if (const Outcome o = detail::check_pointer(c, limits, r, list); !o.ok()) [[unlikely]]
    return o;
  constexpr uint32_t step = prm::umr::chained_list_octowords;
  // Each part waits for the one before it by the cursor's pending fence.
  const uint8_t behind = FencePlanner{limits.fence}.before_umr(MkeyUse::quiet);
  StoredList part = list;
  uint32_t offset = 0;
  for (; list.octowords - offset > prm::umr::max_list_octowords; offset += step) {
    part.octowords = step;
    detail::append_part(c, r, part, offset,
                        {wr.id, offset == 0 ? prm::ctrl::fence_of(wr.flags) : behind});
    part.address += uint64_t{step} * octoword_bytes;
  }
  part.octowords = list.octowords - offset;
  const bool chained = offset != 0;
  const auto flags = chained ? prm::umr::has_translation_offset : r.checks;
  const auto rest = static_cast<uint8_t>(wr.flags & ~prm::ctrl::fence_mask);
  const auto fm = chained ? static_cast<uint8_t>(rest | behind) : wr.flags;
  std::byte* const first = c.line(0);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + 1}, fm, r.key.value());
  detail::store_umr_ctrl(first, {flags, part.octowords, r.mask(), offset});
  detail::store_mkey(c.line(1), detail::mkey_words(r, list.length));
  detail::store_list_pointer(c.line(2), part.address, part.key, part.octowords);
  c.fence_next_user();
  c.advance(pointer_wqebbs, wr.id);
  return {};
}

}  // namespace kilim::inline v1::umr
