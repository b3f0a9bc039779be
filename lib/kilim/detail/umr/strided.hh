// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Repeat Block". A key over blocks at equal distances: each repetition takes one block of
// every entry in turn, and every entry advances by its stride. Counts and strides have 16 bits;
// larger ones are refused, never truncated. Owner: the queue's worker. Never allocates, blocks or
// logs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/list_memory.hh"
#include "kilim/detail/umr/umr_head.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/umr_limits.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// Blocks of `bytes` at `address`, `address` + `stride`, and so on; all in bytes.
struct StridedEntry {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t stride = 0;
  Lkey key;
};

// `repeat` repetitions of the entries. The caller owns the entries.
struct StridedView {
  const StridedEntry* entries = nullptr;
  uint32_t count = 0;
  uint32_t repeat = 0;
  // True where an entry lies in an on-demand region: such a view is refused. The kernel's fault
  // handler reads the list's header as an entry under key 0x400, so a missing page never arrives
  // (Linux odp.c: pagefault_single_data_segment).
  bool on_demand = false;

  [[nodiscard]] constexpr uint64_t repetition_bytes() const noexcept {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += entries[i].bytes;
    return sum;
  }
  [[nodiscard]] constexpr uint64_t length() const noexcept { return repetition_bytes() * repeat; }
  // Octowords of the encoded list: a header, the entries, padding.
  [[nodiscard]] constexpr uint32_t octowords() const noexcept { return klm_octowords(count + 1); }
};

// Checks whether the device has strided lists and their fields can hold the view.
inline Outcome check_strided(const prm::UmrLimits& limits, const StridedView& v) noexcept {
  constexpr uint32_t most = 0xffff;
  if (v.count == 0 || v.repeat == 0) return {Refusal::empty, v.count, 0};
  if (!limits.repeated_block) return {Refusal::no_repeat, 0, 0};
  if (v.on_demand) return {Refusal::on_demand, 0, 0};
  if (v.count > most) return {Refusal::too_many_blocks, v.count, most};
  for (uint32_t i = 0; i < v.count; i++) {
    const StridedEntry& e = v.entries[i];
    if (e.bytes == 0) return {Refusal::empty, i, 0};
    if (e.bytes > most) return {Refusal::long_block, e.bytes, most};
    if (e.stride > most) return {Refusal::long_stride, e.stride, most};
  }
  if (const uint64_t sum = v.repetition_bytes(); sum >> 32 != 0)
    return {Refusal::long_repetition, static_cast<uint32_t>(sum >> 20), 4095};
  return {};
}

namespace detail {
inline void store_repeat_head(std::byte* dst, const StridedView& v, uint64_t bytes) noexcept {
  store_words(dst, be64{bytes << 32 | prm::repeat_block_op},
              be64{uint64_t{v.repeat} << 32 | v.count});
}
inline void store_repeat_entry(std::byte* dst, const StridedEntry& e) noexcept {
  store_words(dst,
              be64{uint64_t{e.stride} << 48 | uint64_t{e.bytes} << 32 | uint64_t{e.key.value()}},
              be64{e.address});
}
}  // namespace detail

// Writes a checked view; segment_at(i) returns the address of the i-th octoword.
template <typename SegmentAt>
inline void store_strided_list(const StridedView& v, SegmentAt segment_at) noexcept {
  detail::store_repeat_head(segment_at(0), v, v.repetition_bytes());
  for (uint32_t i = 0; i < v.count; i++)
    detail::store_repeat_entry(segment_at(i + 1), v.entries[i]);
  for (uint32_t i = v.count + 1; i < v.octowords(); i++) queue::store_zero(segment_at(i));
}

// Writes the list to contiguous memory from `to` on.
inline void encode_strided_list(std::byte* to, const StridedView& v) noexcept {
  store_strided_list(v, [to](uint32_t i) noexcept { return to + std::size_t{i} * octoword_bytes; });
}

// Appends a UMR that gives the key the view as an inline list of up to 51 entries. Refused: the
// reasons of check_strided() and umr_list().
inline Outcome umr_strided(queue::WqeCursor& c, const prm::UmrLimits& limits, const ListRequest& r,
                           const StridedView& v, const UmrWr& wr) noexcept {
  if (const Outcome o = check_strided(limits, v); !o.ok()) return o;
  const uint32_t octowords = v.octowords();
  const uint32_t wqebbs = 2 + octowords / klms_per_line;
  if (const Outcome o = check_inline(c, r, v.count + 1, wqebbs); !o.ok()) return o;
  const auto flags = static_cast<uint8_t>(prm::umr::inline_list | r.checks);
  std::byte* const first = c.line(0);
  c.control(prm::Opcode::umr, Octowords{umr_head_octowords + octowords}, wr.flags, r.key.value());
  detail::store_umr_ctrl(first, {flags, octowords, r.mask()});
  detail::store_mkey(c.line(1), detail::mkey_words(r, v.length()));
  store_strided_list(v, [&c](uint32_t i) noexcept { return c.segment(umr_head_octowords + i); });
  c.fence_next_user();
  c.advance(wqebbs, wr.id);
  return {};
}

// Visits the view's blocks in order as pieces, splitting blocks longer than a piece may be.
// take(key, address, bytes) returns whether to go on.
template <typename Take>
inline bool for_each_piece(const StridedView& v, Take take) noexcept {
  constexpr uint64_t most = prm::umr::max_piece_bytes;
  for (uint64_t repetition = 0; repetition < v.repeat; repetition++) {
    for (uint32_t i = 0; i < v.count; i++) {
      const StridedEntry& e = v.entries[i];
      const uint64_t at = e.address + repetition * e.stride;
      for (uint64_t done = 0; done < e.bytes; done += most) {
        const uint64_t left = e.bytes - done;
        if (!take(e.key, at + done, static_cast<uint32_t>(left < most ? left : most))) return false;
      }
    }
  }
  return true;
}
// The number of pieces that for_each_piece() visits.
constexpr uint64_t pieces_of(const StridedView& v) noexcept {
  constexpr uint64_t most = prm::umr::max_piece_bytes;
  uint64_t n = 0;
  for (uint32_t i = 0; i < v.count; i++) n += (v.entries[i].bytes + most - 1) / most;
  return n * v.repeat;
}

}  // namespace kilim::inline v1::umr
