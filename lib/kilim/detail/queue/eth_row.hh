// SPDX-License-Identifier: BSD-3-Clause
// EthRow: SENDs of frames of one piece each on a raw packet queue, one after the other without a
// look at anything but their data segments: three stores of 16 bytes a WQE. The WQEs are those that
// eth_send() writes. Owner: the queue's worker. Never allocates, blocks or logs. For processors
// with SSE4.1; others use eth_send().
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::queue {

class EthRow {
 public:
  static constexpr uint32_t least = 1;  // packets
  [[nodiscard]] static std::size_t most(const WqeCursor& c) noexcept { return c.row(); }

  // At the cursor's place; the cursor has no pending fence. `offload` and `flags` are those of
  // eth_send(), the same in all WQEs.
  EthRow(const WqeCursor& c, uint8_t offload, uint8_t flags) noexcept
      : at_(c.line()), control_(first_control(c, flags)), eth_(eth_segment(offload)) {
    KILIM_ASSERT(!c.has_pending_fence());
  }

  // Writes the next WQE, whose data segment is `data`, as it lies in memory. The caller counts: at
  // most most() in all, then close().
  void put(__m128i data) noexcept { put(data, eth_); }
  // Writes the next WQE with an Ethernet segment of its own.
  void put(__m128i data, __m128i eth) noexcept {
    // The WQE's index in the byte order of the device, in the middle of the first word.
    const __m128i order = _mm_setr_epi8(-1, 1, 0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    auto* wqe = reinterpret_cast<__m128i*>(at_);
    _mm_store_si128(wqe, _mm_shuffle_epi8(control_, order));
    _mm_store_si128(wqe + 1, eth);
    _mm_store_si128(wqe + 2, data);
    control_ = _mm_add_epi16(control_, _mm_cvtsi32_si128(1));
    at_ += wqebb_bytes;
  }
  // Appends the WQEs of `packets` packets.
  static void close(WqeCursor& c, uint32_t packets) noexcept { c.advance_row(packets); }

  // A control segment, but for its first word: index (15:0, counted in host order) and opcode
  // (23:16).
  static __m128i first_control(const WqeCursor& c, uint8_t flags) noexcept {
    const uint32_t first =
        (c.position() & 0xffff) | uint32_t{static_cast<uint8_t>(prm::Opcode::send)} << 16;
    const uint32_t qpn_ds = be32{c.qpn().value() << 8 | octowords}.raw();
    return _mm_setr_epi32(static_cast<int>(first), static_cast<int>(qpn_ds),
                          static_cast<int>(be32{flags}.raw()), 0);
  }
  static __m128i eth_segment(uint8_t offload) noexcept {
    alignas(16) std::byte segment[octoword_bytes];
    store_eth(segment, offload);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(segment));
  }

 private:
  static constexpr uint32_t octowords = 3;
  std::byte* at_;
  __m128i control_;
  __m128i eth_;
};

// EthRow for AVX2: control and Ethernet segment are one store.
class WideEthRow {
 public:
  static constexpr uint32_t least = EthRow::least;
  [[nodiscard]] static std::size_t most(const WqeCursor& c) noexcept { return EthRow::most(c); }

  [[gnu::target("avx2")]] WideEthRow(const WqeCursor& c, uint8_t offload, uint8_t flags) noexcept
      : at_(c.line()),
        heads_(_mm256_inserti128_si256(_mm256_castsi128_si256(EthRow::first_control(c, flags)),
                                       EthRow::eth_segment(offload), 1)) {
    KILIM_ASSERT(!c.has_pending_fence());
  }

  [[gnu::target("avx2")]] void put(__m128i data) noexcept {
    const __m256i order = _mm256_setr_epi8(-1, 1, 0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0,
                                           1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    auto* wqe = reinterpret_cast<__m256i*>(at_);
    _mm256_store_si256(wqe, _mm256_shuffle_epi8(heads_, order));
    _mm_store_si128(reinterpret_cast<__m128i*>(wqe + 1), data);
    heads_ = _mm256_add_epi16(heads_, _mm256_setr_epi32(1, 0, 0, 0, 0, 0, 0, 0));
    at_ += wqebb_bytes;
  }
  // Four WQEs: the data segments of the first and third, and of the second and fourth.
  [[gnu::target("avx2")]] void put_four(__m256i odd, __m256i even) noexcept {
    put(_mm256_castsi256_si128(odd));
    put(_mm256_castsi256_si128(even));
    put(_mm256_extracti128_si256(odd, 1));
    put(_mm256_extracti128_si256(even, 1));
  }
  static void close(WqeCursor& c, uint32_t packets) noexcept { c.advance_row(packets); }

 private:
  std::byte* at_;
  __m256i heads_;  // the control segment as EthRow has it, and the Ethernet segment
};

}  // namespace kilim::inline v1::queue

#endif
