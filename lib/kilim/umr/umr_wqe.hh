// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Control Segment", "Memory Key Context Segment". Builds the UMR WQEs of a reliable
// connection: a key shows a view (list form, inline), a key is invalidated.
// Appended through a WqeCursor; refused, and nothing appended, with the numbers.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/base/be.hh"
#include "kilim/base/ident.hh"
#include "kilim/base/units.hh"
#include "kilim/mr/region.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "kilim/umr/fence.hh"
#include "kilim/umr/klm_list.hh"
#include "kilim/umr/refusal.hh"
#include "kilim/umr/view.hh"

namespace kilim::umr {

// Octowords before the list: control 1, UMR control 3, mkey context 4.
inline constexpr uint32_t umr_head_octowords = 8;
// A WQE has at most 63 octowords and a list is padded to whole lines.
inline constexpr uint32_t max_inline_klms = (prm::max_ds - umr_head_octowords) / 4 * 4;
static_assert(max_inline_klms == 52);

// A key's access bits as the mkey context has them; local reading was granted when it was made.
constexpr uint8_t mkey_access(uint32_t access) noexcept {
  return static_cast<uint8_t>(
      ((access & mr::Access::local_write) != 0 ? prm::mkey::local_write : 0) |
      ((access & mr::Access::remote_write) != 0 ? prm::mkey::remote_write : 0) |
      ((access & mr::Access::remote_read) != 0 ? prm::mkey::remote_read : 0) |
      ((access & mr::Access::remote_atomic) != 0 ? prm::mkey::atomic : 0));
}

// What a key shall be. Without a start address its first byte is at 0.
struct ListRequest {
  Lkey key;                  // as it is now
  uint32_t max_entries = 0;  // of the key
  uint8_t new_tag = 0;       // the key's low byte from now on; tag_of(key) leaves it
  uint8_t access = 0;        // mkey_access()
  uint8_t checks = 0;        // prm::umr::check_*: the WQE fails where the key's state is another
  bool has_start = false;
  uint64_t start = 0;

  // The key after the UMR.
  [[nodiscard]] constexpr Lkey new_key() const noexcept {
    return Lkey{(key.value() & ~0xffu) | new_tag};
  }
};

struct UmrWr {
  uint64_t id = 0;
  uint8_t flags = queue::WrFlags::none;  // a FencePlanner's bits included
};

namespace detail {
inline void store_words(std::byte* dst, be64 a, be64 b) noexcept {
  const be64 words[2] = {a, b};
  std::memcpy(dst, words, sizeof words);
}

// Everything of the first line but the control segment.
[[gnu::always_inline]] inline void store_umr_ctrl(std::byte* line, uint8_t flags,
                                                  uint32_t octowords, uint64_t mask) noexcept {
  store_words(line + 16, be64{uint64_t{flags} << 56 | uint64_t{octowords} << 16}, be64{mask});
  queue::store_zero(line + 32);
  queue::store_zero(line + 48);
}

// The second line: a key in state `free` (0 or prm::mkey::free), usable by any queue.
struct MkeyWords {
  uint8_t free;
  uint8_t access;
  uint32_t qpn_mkey;
  uint64_t start;
  uint64_t length;
};
[[gnu::always_inline]] inline void store_mkey(std::byte* line, const MkeyWords& k) noexcept {
  store_words(line, be64{uint64_t{k.free} << 56 | uint64_t{k.access} << 40 | uint64_t{k.qpn_mkey}},
              be64{0});
  store_words(line + 16, be64{k.start}, be64{k.length});
  queue::store_zero(line + 32);
  queue::store_zero(line + 48);
}

[[gnu::always_inline]] inline Outcome check_list(const queue::WqeCursor& c, const ListRequest& r,
                                                 const View& v, uint32_t wqebbs) noexcept {
  if (v.count == 0) return {Refusal::empty, 0, max_inline_klms};
  if (v.count > max_inline_klms) return {Refusal::too_many_inline, v.count, max_inline_klms};
  if (v.count > r.max_entries) return {Refusal::over_key, v.count, r.max_entries};
  if (!c.fits(wqebbs)) return {Refusal::no_room, wqebbs, c.room().value()};
  return {};
}
}  // namespace detail

// Makes the key show the view. Usable by the next WQE of the same queue, and elsewhere after the
// completion.
[[gnu::always_inline]] inline Outcome umr_list(queue::WqeCursor& c, const ListRequest& r,
                                               const View& view, const UmrWr& wr) noexcept {
  const uint32_t octowords = klm_octowords(view.count);
  const uint32_t wqebbs = 2 + octowords / klms_per_line;
  if (const Outcome o = detail::check_list(c, r, view, wqebbs); !o.ok()) [[unlikely]]
    return o;
  constexpr uint64_t mask =
      prm::umr::mask_free | prm::umr::mask_mkey | prm::umr::mask_access | prm::umr::mask_len;
  const auto flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks);
  std::byte* const first = c.line(0);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords}, wr.flags, r.key.value());
  detail::store_umr_ctrl(first, flags, octowords,
                         r.has_start ? mask | prm::umr::mask_start_addr : mask);
  detail::store_mkey(c.line(1), {.free = 0,
                                 .access = r.access,
                                 .qpn_mkey = prm::mkey::any_qpn << 8 | r.new_tag,
                                 .start = r.has_start ? r.start : 0,
                                 .length = view.length});
  store_klm_list(view.pieces, view.count, [&c](uint32_t i) noexcept { return c.line(2 + i); });
  c.fence_next(fence_after_umr);
  c.advance(wqebbs, wr.id);
  return {};
}

// Makes the key free: no access through it from now on. `key` is its present value.
[[gnu::always_inline]] inline Outcome local_invalidate(queue::WqeCursor& c, Lkey key,
                                                       const UmrWr& wr) noexcept {
  if (!c.fits(2)) return {Refusal::no_room, 2, c.room().value()};
  std::byte* const first = c.line(0);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords}, wr.flags, key.value());
  detail::store_umr_ctrl(first, prm::umr::inline_list, 0, prm::umr::mask_free);
  detail::store_mkey(c.line(1), {.free = prm::mkey::free,
                                 .access = 0,
                                 .qpn_mkey = prm::mkey::any_qpn << 8 | tag_of(key),
                                 .start = 0,
                                 .length = 0});
  c.fence_next(fence_after_umr);
  c.advance(2, wr.id);
  return {};
}

}  // namespace kilim::umr
