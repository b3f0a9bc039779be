// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Work Request Operation". UMR WQEs without a list by pointer: an inline KLM list, a
// change of some fields, an invalidation. Each function appends one WQE at a cursor or returns a
// refusal and appends nothing. Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/list_writer.hh"
#include "kilim/detail/umr/request.hh"
#include "kilim/detail/umr/umr_head.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// Whether an inline list of so many octowords goes into the key and the queue.
[[gnu::always_inline]] inline Outcome check_inline(const queue::WqeCursor& c, const ListRequest& r,
                                                   uint32_t octowords, uint32_t wqebbs) noexcept {
  if (octowords == 0) return {Refusal::empty, 0, max_inline_klms};
  // The key's limit comes first, as no other form of list can exceed it.
  if (octowords > r.max_entries) return {Refusal::over_key, octowords, r.max_entries};
  if (octowords > max_inline_klms) return {Refusal::too_many_inline, octowords, max_inline_klms};
  if (!c.fits(wqebbs)) return {Refusal::no_room, wqebbs, c.room().value()};
  return {};
}

namespace detail {
[[gnu::always_inline]] inline void append_list(queue::WqeCursor& c, const ListRequest& r,
                                               std::byte* wqe, const View& v,
                                               const UmrWr& wr) noexcept {
  const uint32_t octowords = klm_octowords(v.count);
  const uint32_t wqebbs = 2 + octowords / klms_per_line;
  const auto flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks);
  store_umr_ctrl(wqe, {flags, octowords, r.mask()});
  store_mkey(wqe + wqebb_bytes, mkey_words(r, v.length));
  put(c, wqe, wqebbs);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords}, wr.flags, r.key.value());
  c.fence_next_user();
  c.advance(wqebbs, wr.id);
}
}  // namespace detail

// Appends a UMR that gives the key the view as an inline list. The next WQE of this queue may use
// the key, others after the completion. Refused: empty, long_piece, over_key, too_many_inline,
// no_room.
[[gnu::always_inline]] inline Outcome umr_list(queue::WqeCursor& c, const ListRequest& r,
                                               const View& view, const UmrWr& wr) noexcept {
  const uint32_t wqebbs = 2 + klm_octowords(view.count) / klms_per_line;
  if (const Outcome o = check_inline(c, r, view.count, wqebbs); !o.ok()) [[unlikely]]
    return view.count == 0 ? why_empty(view, max_inline_klms) : o;
  detail::WrapBuffer wrap;
  std::byte* const wqe = detail::place(c, wqebbs, wrap);
  store_klm_lines(wqe + 2 * wqebb_bytes, view.pieces, view.count);
  detail::append_list(c, r, wqe, view, wr);
  return {};
}

// Takes pieces that have not been checked: they are written, summed up and checked in one pass, by
// `by` (list_writer.hh; null: inline). Refused: likewise; with a bad piece nothing is appended.
[[gnu::always_inline]] inline Outcome umr_list(queue::WqeCursor& c, const ListRequest& r,
                                               std::span<const Piece> pieces, const UmrWr& wr,
                                               ListWriter by = nullptr) noexcept {
  const auto count = static_cast<uint32_t>(pieces.size());
  const uint32_t wqebbs = 2 + klm_octowords(count) / klms_per_line;
  if (const Outcome o = check_inline(c, r, count, wqebbs); !o.ok()) [[unlikely]]
    return o;
  detail::WrapBuffer wrap;
  std::byte* const wqe = detail::place(c, wqebbs, wrap);
  const uint64_t length = write_list_by(by, wqe + 2 * wqebb_bytes, pieces.data(), count);
  if (length == 0) [[unlikely]]
    return why_bad(pieces, max_inline_klms);
  detail::append_list(c, r, wqe, View{pieces.data(), count, length}, wr);
  return {};
}

// A change of some fields of a key; its list stays.
struct MkeyChange {
  Lkey key;             // with its present tag
  uint64_t fields = 0;  // prm::umr::mask_access, mask_len, mask_start_addr, mask_mkey, mask_free
  uint8_t new_tag = 0;
  uint8_t access = 0;  // mkey_access()
  uint8_t checks = 0;  // prm::umr::check_*
  bool free = false;   // with mask_free: the key becomes free
  uint64_t start = 0;
  uint64_t length = 0;  // at most the bytes of the list
};
inline constexpr uint64_t changeable_fields =
    prm::umr::mask_access | prm::umr::mask_len | prm::umr::mask_start_addr | prm::umr::mask_mkey |
    prm::umr::mask_free | prm::umr::mask_bsf_enable;  // bsf_enable can only be cleared

// Appends a UMR that makes the change. A change of access or length is seen by WQEs that start
// later. Refused: no_such_change, no_room.
[[gnu::always_inline]] inline Outcome change_key(queue::WqeCursor& c, const MkeyChange& k,
                                                 const UmrWr& wr) noexcept {
  if (k.fields == 0 || (k.fields & ~changeable_fields) != 0) [[unlikely]]
    return {Refusal::no_such_change, static_cast<uint32_t>(k.fields), 0};
  if (!c.fits(2)) [[unlikely]]
    return {Refusal::no_room, 2, c.room().value()};
  const bool tag = (k.fields & prm::umr::mask_mkey) != 0;
  std::byte* const first = c.line();
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords}, wr.flags, k.key.value());
  detail::store_umr_ctrl(first,
                         {static_cast<uint8_t>(prm::umr::inline_list | k.checks), 0, k.fields});
  detail::store_mkey(c.line(1),
                     {.free = k.free ? prm::mkey::free : uint8_t{0},
                      .access = k.access,
                      .qpn_mkey = prm::mkey::any_qpn << 8 | (tag ? k.new_tag : tag_of(k.key)),
                      .start = k.start,
                      .length = k.length});
  c.fence_next_user();
  c.advance(2, wr.id);
  return {};
}

// Appends a UMR that makes the key free: every later access through it fails. `key` has the present
// tag. Refused: no_room.
[[gnu::always_inline]] inline Outcome local_invalidate(queue::WqeCursor& c, Lkey key,
                                                       const UmrWr& wr) noexcept {
  return change_key(c, {.key = key, .fields = prm::umr::mask_free, .free = true}, wr);
}

}  // namespace kilim::inline v1::umr
