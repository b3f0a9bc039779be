// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Control Segment", "Memory Key Context Segment". The first two basic blocks of a UMR
// WQE, the same for all forms, and the pointer to a list that lies elsewhere.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/base/be.hh"
#include "kilim/base/units.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"
#include "kilim/queue/sge.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "kilim/umr/fence.hh"
#include "kilim/umr/request.hh"

namespace kilim::umr {

// Octowords before the list: control 1, UMR control 3, mkey context 4.
inline constexpr uint32_t umr_head_octowords = 8;
// A WQE has at most 63 octowords and a list is padded to whole lines.
inline constexpr uint32_t max_inline_klms = (prm::max_ds - umr_head_octowords) / 4 * 4;
static_assert(max_inline_klms == 52);
// Basic blocks of a WQE whose list lies elsewhere: the head, and the pointer in a block of its own.
inline constexpr uint32_t pointer_wqebbs = 3;

namespace detail {
inline void store_words(std::byte* dst, be64 a, be64 b) noexcept {
  queue::store_word(dst, a);
  queue::store_word(dst + 8, b);
}

// Where a WQE is written: in the ring, or beside it where it would wrap, and then it is copied.
// The control segment comes last, and into the ring.
inline constexpr uint32_t max_wqebbs = 2 + max_inline_klms / 4;
struct alignas(wqebb_bytes) Aside {
  std::byte bytes[std::size_t{max_wqebbs} * wqebb_bytes];
};
[[gnu::always_inline]] inline std::byte* place(const queue::WqeCursor& c, uint32_t wqebbs,
                                               Aside& aside) noexcept {
  if (c.straight(wqebbs)) [[likely]]
    return c.line();
  return aside.bytes;
}
[[gnu::always_inline]] inline void put(const queue::WqeCursor& c, const std::byte* wqe,
                                       uint32_t wqebbs) noexcept {
  if (wqe == c.line()) [[likely]]
    return;
  std::memcpy(c.line() + octoword_bytes, wqe + octoword_bytes, wqebb_bytes - octoword_bytes);
  for (uint32_t i = 1; i < wqebbs; i++)
    std::memcpy(c.line(i), wqe + std::size_t{i} * wqebb_bytes, wqebb_bytes);
}

// Of the UMR control segment: which octowords of the key's list, and which fields of its context.
struct UmrWords {
  uint8_t flags;  // prm::umr::inline_list ...
  uint32_t octowords;
  uint64_t mask;
  uint64_t offset = 0;  // octowords, where `flags` has has_translation_offset
};
// Everything of the first line but the control segment.
[[gnu::always_inline]] inline void store_umr_ctrl(std::byte* line, const UmrWords& u) noexcept {
  store_words(line + 16,
              be64{uint64_t{u.flags} << 56 | uint64_t{u.octowords} << 16 | (u.offset & 0xffff)},
              be64{u.mask});
  store_words(line + 32, be64{u.offset >> 16 << 32}, be64{0});
  queue::store_zero(line + 48);
}

// The second line: a key in state `free` (0 or prm::mkey::free), usable by any queue.
struct MkeyWords {
  uint8_t free;
  uint8_t access;
  uint32_t qpn_mkey;
  uint64_t start;
  uint64_t length;
  uint8_t log_entity = 0;
  uint32_t flags = 0;  // beside the protection domain, which no UMR changes
};
[[gnu::always_inline]] inline void store_mkey(std::byte* line, const MkeyWords& k) noexcept {
  store_words(line, be64{uint64_t{k.free} << 56 | uint64_t{k.access} << 40 | uint64_t{k.qpn_mkey}},
              be64{k.flags});
  store_words(line + 16, be64{k.start}, be64{k.length});
  queue::store_zero(line + 32);
  store_words(line + 48, be64{0}, be64{uint64_t{k.log_entity} << 32});
}
// A context of which the mask takes nothing.
[[gnu::always_inline]] inline void store_no_mkey(std::byte* line) noexcept {
  queue::store_zero(line);
  queue::store_zero(line + 16);
  queue::store_zero(line + 32);
  queue::store_zero(line + 48);
}

// The context of a key that shall be as `r` says and `length` bytes long.
constexpr MkeyWords mkey_words(const ListRequest& r, uint64_t length) noexcept {
  return {.free = 0,
          .access = r.access,
          .qpn_mkey = prm::mkey::any_qpn << 8 | r.new_tag,
          .start = r.has_start ? r.start : 0,
          .length = length};
}

// The third block of a WQE whose list lies elsewhere. Nothing behind the pointer is read.
[[gnu::always_inline]] inline void store_list_pointer(std::byte* line, uint64_t address, Lkey key,
                                                      uint32_t octowords) noexcept {
  queue::store_pointer(line, address, octowords * octoword_bytes, key);
  queue::store_zero(line + 16);
  queue::store_zero(line + 32);
  queue::store_zero(line + 48);
}
}  // namespace detail

}  // namespace kilim::umr
