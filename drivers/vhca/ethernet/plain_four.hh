// SPDX-License-Identifier: BSD-3-Clause
// Four frames of one length and one description into the next four receive WQEs of a queue, where
// those are alike: what plain_rx.cc does for one frame, with one look at what is equal. Adapter's
// lock held. Never allocates. Frames and WQEs are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/data_seg.hh"
#include "vhca/ethernet/describe.hh"
#include "vhca/ethernet/plain_taking.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_fours.hh"
#include "vhca/memory/dma_inline.hh"

namespace kilim::vhca::ethernet {

// As they lie in the ring, each `step` bytes behind the other.
struct FourFrames {
  const std::byte* first;
  std::size_t step, bytes;
};

// Where the next four receive WQEs want a frame each; false: they differ, or are not plain.
[[gnu::always_inline]] inline bool find_four_places(const Taking& t, std::size_t bytes,
                                                    std::array<uint64_t, 4>& to) noexcept {
  if (t.left_of_run() < 4) return false;
  const memory::dma::FourSegments s = memory::dma::read_four_segments(t.wqe);
  const uint64_t length_and_key = be64::from_raw(s.length_and_key).host();
  const auto room = static_cast<uint32_t>(length_and_key >> 32);
  const bool fits = (room & prm::inline_flag) == 0 && room >= bytes && bytes <= t.len;
  if (s.differs != 0 || !fits || static_cast<uint32_t>(length_and_key) != t.key) return false;
  const uint64_t most = t.len - bytes;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; i++) {
    const uint64_t offset = be64::from_raw(s.address[i]).host() - t.start;
    if (offset > most) return false;
    to[i] = t.va + offset;
  }
  return true;
}

[[gnu::always_inline]] inline bool copy_four(const std::array<uint64_t, 4>& to,
                                             const FourFrames& f) noexcept {
  auto from = reinterpret_cast<uint64_t>(f.first);
  if (f.bytes - 32 <= 32) [[likely]] {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; i++, from += f.step)
      if (!memory::dma::move_32_to_64(to[i], from, f.bytes)) return false;
    return true;
  }
  for (std::size_t i = 0; i < 4; i++, from += f.step)
    if (!memory::dma::copy_within(Va{to[i]}, Va{from}, f.bytes)) return false;
  return true;
}

// How many entries were written: less than four where their memory is gone.
[[gnu::always_inline]] inline unsigned put_four_entries(Taking& t, std::size_t bytes,
                                                        FrameWords words) noexcept {
  t.entry.hds_ip_ext = words.ok;
  t.entry.l4_hdr_type_etc = words.type;
  t.entry.byte_cnt = be32{static_cast<uint32_t>(bytes)};
  const auto* words_of_entry = reinterpret_cast<const __m128i*>(&t.entry);
  const memory::dma::Entry entry{_mm_load_si128(words_of_entry), _mm_load_si128(words_of_entry + 1),
                                 _mm_load_si128(words_of_entry + 2), t.entry.timestamp.raw()};
  const uint64_t slot = t.slot, last = t.last;
  unsigned i = 0;
#pragma GCC unroll 4
  for (; i < 4; i++)
    if (!memory::dma::give_entry(slot + i * sizeof(prm::Cqe), entry, last + i * Taking::next_last))
      break;
  t.slot += i * sizeof(prm::Cqe);
  t.wqe += i * Taking::wqe_bytes;
  t.last += i * Taking::next_last;
  return i;
}

// How many were taken. 0: they are not plain, or not alike, and nothing but bytes behind unused
// WQEs has changed.
[[gnu::always_inline]] inline unsigned take_four(Taking& t, const FourFrames& f,
                                                 FrameWords words) noexcept {
  std::array<uint64_t, 4> to;
  if (t.holds || !find_four_places(t, f.bytes, to) || !copy_four(to, f)) return 0;
  return put_four_entries(t, f.bytes, words);
}

}  // namespace kilim::vhca::ethernet
