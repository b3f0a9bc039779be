// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Control Segment", "Memory Key Context Segment". The first two 64-byte blocks of a UMR
// WQE, the same for all forms, and the pointer segment of a list by pointer.
// Owner: the queue's worker. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/fence.hh"
#include "kilim/detail/umr/request.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// Octowords before the list: control 1, UMR control 3, mkey context 4.
inline constexpr uint32_t umr_head_octowords = 8;
// Entries of the longest inline list: a WQE has at most 63 octowords, and lists are padded to a
// multiple of four entries.
inline constexpr uint32_t max_inline_klms = (prm::max_ds - umr_head_octowords) / 4 * 4;
static_assert(max_inline_klms == 52);
// Blocks of a WQE with a list by pointer: two of head, one of pointer.
inline constexpr uint32_t pointer_wqebbs = 3;

namespace detail {
inline void store_words(std::byte* dst, be64 a, be64 b) noexcept {
  queue::store_word(dst, a);
  queue::store_word(dst + 8, b);
}

// A WQE is written in the ring, or into a WrapBuffer and copied by put() where it would cross the
// ring's end. The control segment is written last, straight into the ring.
inline constexpr uint32_t max_wqebbs = 2 + max_inline_klms / 4;
struct alignas(wqebb_bytes) WrapBuffer {
  std::byte bytes[std::size_t{max_wqebbs} * wqebb_bytes];
};
[[gnu::always_inline]] inline std::byte* place(const queue::WqeCursor& c, uint32_t wqebbs,
                                               WrapBuffer& wrap) noexcept {
  if (c.straight(wqebbs)) [[likely]]
    return c.line();
  return wrap.bytes;
}
[[gnu::always_inline]] inline void put(const queue::WqeCursor& c, const std::byte* wqe,
                                       uint32_t wqebbs) noexcept {
  if (wqe == c.line()) [[likely]]
    return;
  std::memcpy(c.line() + octoword_bytes, wqe + octoword_bytes, wqebb_bytes - octoword_bytes);
  for (uint32_t i = 1; i < wqebbs; i++)
    std::memcpy(c.line(i), wqe + std::size_t{i} * wqebb_bytes, wqebb_bytes);
}

// Fields of the UMR control segment.
struct UmrWords {
  uint8_t flags;  // prm::umr::inline_list ...
  uint32_t octowords;
  uint64_t mask;
  uint64_t offset = 0;  // first octoword, if `flags` has has_translation_offset
};
// Writes the first block except the control segment: UmrCtrlSeg of prm/umr_seg.hh.
[[gnu::always_inline]] inline void store_umr_ctrl(std::byte* line, const UmrWords& u) noexcept {
  store_words(line + 16,
              be64{uint64_t{u.flags} << 56 | uint64_t{u.octowords} << 16 | (u.offset & 0xffff)},
              be64{u.mask});
  store_words(line + 32, be64{u.offset >> 16 << 32}, be64{0});
  queue::store_zero(line + 48);
}

// Fields of the second block, the mkey context.
struct MkeyWords {
  uint8_t free;
  uint8_t access;
  uint32_t qpn_mkey;
  uint64_t start;
  uint64_t length;
  uint8_t log_entity = 0;
  uint32_t flags = 0;  // of the word flags_pd; no UMR changes the protection domain
};
// Writes the second block: MkeyContextSeg of prm/umr_seg.hh.
[[gnu::always_inline]] inline void store_mkey(std::byte* line, const MkeyWords& k) noexcept {
  store_words(line, be64{uint64_t{k.free} << 56 | uint64_t{k.access} << 40 | uint64_t{k.qpn_mkey}},
              be64{k.flags});
  store_words(line + 16, be64{k.start}, be64{k.length});
  queue::store_zero(line + 32);
  store_words(line + 48, be64{0}, be64{uint64_t{k.log_entity} << 32});
}
// A second block of zeroes, for WQEs whose mask is 0.
[[gnu::always_inline]] inline void store_no_mkey(std::byte* line) noexcept {
  queue::store_zero(line);
  queue::store_zero(line + 16);
  queue::store_zero(line + 32);
  queue::store_zero(line + 48);
}

// The mkey context of a request, for a key of `length` bytes.
constexpr MkeyWords mkey_words(const ListRequest& r, uint64_t length) noexcept {
  return {.free = 0,
          .access = r.access,
          .qpn_mkey = prm::mkey::any_qpn << 8 | r.new_tag,
          .start = r.has_start ? r.start : 0,
          .length = length};
}

// Writes the third block of a WQE with a list by pointer; the device reads the pointer only.
[[gnu::always_inline]] inline void store_list_pointer(std::byte* line, uint64_t address, Lkey key,
                                                      uint32_t octowords) noexcept {
  queue::store_pointer(line, address, octowords * octoword_bytes, key);
  queue::store_zero(line + 16);
  queue::store_zero(line + 32);
  queue::store_zero(line + 48);
}
}  // namespace detail

}  // namespace kilim::inline v1::umr
