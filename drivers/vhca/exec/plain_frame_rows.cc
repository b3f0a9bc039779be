// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Never allocates; WQEs are untrusted.
#include "vhca/exec/plain_frame_rows.hh"

#include <algorithm>
#include <cstring>
#include <span>

#include "kilim/detail/base/units.hh"
#include "vhca/memory/dma_fours.hh"

namespace kilim::vhca::exec {

namespace {

// Where frames of one length and key come from, and where they go: into the wire's ring in one
// piece. A plain record, so that a loop has it in registers.
struct Way {
  uint64_t length_and_key = 0;  // as it lies in a segment
  uint64_t bytes = 0;           // 0: it is not plain, or not four of them fit
  uint64_t start = 0, va = 0, last_offset = 0;
  std::size_t step = 0;
  std::byte* to = nullptr;  // where the first one goes, behind its length
  uint64_t fours = 0;       // so many times four of them fit
};

// Of at most so many frames.
[[gnu::noinline]] Way way_of(Sending& s, uint64_t length_and_key, uint64_t frames) noexcept {
  const uint64_t host = be64::from_raw(length_and_key).host(), bytes = host >> 32;
  const bool plain = bytes >= wire::ether_header_bytes && bytes <= s.longest && bytes <= s.len;
  if (!plain || static_cast<uint32_t>(host) != s.key) return {};
  const std::size_t step = wire::FrameRing::Writer::step_of(bytes);
  const std::span<std::byte> piece = s.out.piece(frames * step);
  const uint64_t fours = std::min(piece.size() / (4 * step), frames / 4);
  if (fours == 0) return {};
  std::byte* const to = piece.data() + wire::FrameRing::Writer::length_ahead;
  return {length_and_key, bytes, s.start, s.va, s.len - bytes, step, to, fours};
}

// Four packets into the ring, the first one to `to`. False: they are not alike, or not plain;
// nothing of them is kept. `Short`: they have 32 to 64 bytes.
template <bool Short>
[[gnu::always_inline]] inline bool put_four(const Sending& s, const Way& w, std::byte* to,
                                            const memory::dma::FourSegments& d,
                                            ethernet::EthAsk ask) noexcept {
  if ((d.differs | (d.length_and_key ^ w.length_and_key)) != 0) return false;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; i++, to += w.step) {
    const uint64_t offset = be64::from_raw(d.address[i]).host() - w.start;
    if (offset > w.last_offset) return false;
    const auto length = static_cast<uint32_t>(w.bytes);
    std::memcpy(to - wire::FrameRing::Writer::length_ahead, &length, sizeof length);
    if (!(Short ? memory::dma::move_32_to_64(reinterpret_cast<uint64_t>(to), w.va + offset, w.bytes)
                : copy_frame(to, w.va + offset, w.bytes)))
      return false;
    if (ask.checksums() != 0) [[unlikely]]
      if (!write_asked(s, {to, w.bytes}, ask)) return false;
  }
  return true;
}

// What was put stays in the ring.
uint32_t keep(Sending& s, const Way& w, uint64_t fours) noexcept {
  s.out.keep_rows(fours * 4 * w.step);
  s.bytes += fours * 4 * w.bytes;
  return static_cast<uint32_t>(fours * 4);
}

constexpr uint32_t mode = flag(prm::ctrl::completion_mask);
constexpr uint32_t reserved = flag(prm::ctrl::reserved_in_fm_ce_se);

// 0: no bit differs that counts. Of a control segment these are head and flags, of an Ethernet
// segment cs_flags and inline_hdr_sz.
[[gnu::always_inline]] inline uint64_t differs(const memory::dma::FourFrameWqes& w) noexcept {
  const __m128i three = _mm_setr_epi32(-1, -1, static_cast<int>(mode | reserved), 0);
  const __m128i last = _mm_setr_epi32(-1, -1, static_cast<int>(reserved), 0);
  const __m128i ethernet = _mm_setr_epi32(0, 0xff, 0, 0xffff);
  const __m128i wrong =
      _mm_or_si128(_mm_or_si128(_mm_and_si128(w.first_three, three), _mm_and_si128(w.last, last)),
                   _mm_and_si128(w.ethernet, ethernet));
  return static_cast<uint64_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(wrong, _mm_setzero_si128())) ^
                               0xffff);
}

// SENDs at `at`, the first one's control segment being `head`: how many times four. `flags`: of the
// last of them, of which it is the last that completes.
template <bool Short>
uint64_t put_sends(const Sending& s, const Way& way, uint64_t at, be64 head,
                   uint32_t& flags) noexcept {
  const Way w = way;  // in registers
  __m128i heads = _mm_cvtsi64_si128(static_cast<int64_t>(head.raw()));
  const __m128i next = _mm_cvtsi32_si128(1 << 16);
  std::byte* to = w.to;
  uint64_t fours = w.fours;
  uint64_t last = 0;
  uint32_t of_last = 0;
  for (; fours != last; fours--, at += 4 * wqebb_bytes, to += 4 * w.step) {
    memory::dma::FourFrameWqes four = memory::dma::read_four_frame_wqes(at, heads, next);
    four.data.differs |= differs(four);
    const uint32_t asked = four.last_flags & mode;
    if (asked != 0) [[unlikely]] {
      if (asked == flag(prm::ctrl::cq_update_and_event)) break;
      if ((asked & flag(prm::ctrl::cq_update)) != 0) last = fours - 1;
    }
    if (!put_four<Short>(s, w, to, four.data, {})) break;
    of_last = asked;
  }
  flags = of_last;
  return w.fours - fours;
}

template <bool Short>
uint64_t put_segments(const Sending& s, const Way& way, uint64_t at,
                      ethernet::EthAsk ask) noexcept {
  const Way w = way;  // in registers
  std::byte* to = w.to;
  uint64_t fours = w.fours;
  for (; fours != 0; fours--, at += 4 * octoword, to += 4 * w.step)
    if (!put_four<Short>(s, w, to, memory::dma::read_four_segments(at), ask)) break;
  return w.fours - fours;
}

bool is_short(const Way& w) noexcept {
  return w.bytes - 32 <= 32;
}

}  // namespace

uint32_t put_send_rows(Sending& s, uint16_t index, uint32_t most, Said& said) noexcept {
  constexpr uint32_t numbers = 0x100;  // those that differ in the last byte alone
  const uint32_t block = index & s.mask;
  most = std::min({most, s.mask + 1 - block, numbers - (index & (numbers - 1))});
  if (most < 4) return 0;
  const uint64_t at = s.wqes + uint64_t{block} * wqebb_bytes;
  const Way w = way_of(s, memory::dma::read_segment(at + 2 * octoword).length_and_key, most);
  const be64 head{s.send_head | uint64_t{index} << index_shift};
  uint32_t flags = 0;
  uint64_t fours = 0;
  if (w.bytes != 0)
    fours = is_short(w) ? put_sends<true>(s, w, at, head, flags)
                        : put_sends<false>(s, w, at, head, flags);
  if (fours == 0) s.singles = singles_behind_mixed;
  said = {s.send_head, flags, 0};
  return keep(s, w, fours);
}

uint32_t put_segment_rows(Sending& s, uint64_t at, uint64_t end, ethernet::EthAsk ask) noexcept {
  const Way w = way_of(s, memory::dma::read_segment(at).length_and_key, (end - at) / octoword);
  uint64_t fours = 0;
  if (w.bytes != 0)
    fours = is_short(w) ? put_segments<true>(s, w, at, ask) : put_segments<false>(s, w, at, ask);
  if (fours == 0) s.singles = singles_behind_mixed;
  return keep(s, w, fours);
}

}  // namespace kilim::vhca::exec
