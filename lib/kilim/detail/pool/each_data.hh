// SPDX-License-Identifier: BSD-3-Clause
// each_data: the data of all packets of a burst, with the addresses computed two at a time. For
// applications that look into every packet. Any thread that holds the handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/handle.hh"

namespace kilim::inline v1::pool {

// The first of a handle's 64 bits that belongs to the data offset, which has the topmost bits.
inline constexpr int offset_bit = 48 + Handle::offset_shift;
static_assert(offsetof(Handle, meta) == 48 / 8);

#if defined(__SSE4_1__)

// From handles, two in a register, to where their data begins in an arena whose buffers begin at
// `first`.
class PairOfAddresses {
 public:
  PairOfAddresses(uint64_t first, uint32_t stride) noexcept
      : first_(_mm_set1_epi64x(static_cast<long long>(first))), stride_(_mm_set1_epi64x(stride)) {}

  [[nodiscard]] __m128i of(__m128i two) const noexcept {
    const __m128i offset = _mm_srli_epi64(two, offset_bit);
    return _mm_add_epi64(_mm_add_epi64(_mm_mul_epu32(two, stride_), first_), offset);
  }

 private:
  __m128i first_;
  __m128i stride_;
};

#endif

// Calls each(std::byte*) with the first byte of each handle's data, in order.
template <typename Each>
[[gnu::always_inline]] inline void each_data(const Arena& arena, std::span<const Handle> handles,
                                             Each each) noexcept {
  std::size_t i = 0;
#if defined(__SSE4_1__)
  const PairOfAddresses addresses(reinterpret_cast<uint64_t>(arena.memory().data()),
                                  arena.stride());
  for (; i + 2 <= handles.size(); i += 2) {
    const __m128i two =
        addresses.of(_mm_loadu_si128(reinterpret_cast<const __m128i*>(&handles[i])));
    each(reinterpret_cast<std::byte*>(_mm_cvtsi128_si64(two)));
    each(reinterpret_cast<std::byte*>(_mm_extract_epi64(two, 1)));
  }
#endif
  for (; i < handles.size(); i++) each(arena.data(handles[i]));
}

}  // namespace kilim::inline v1::pool
