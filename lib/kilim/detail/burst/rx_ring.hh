// SPDX-License-Identifier: BSD-3-Clause
// RxRing: the producer's side of a receive queue whose WQEs are one buffer of the arena each, for
// one packet or, cut into strides, for many; or begin with one (rx_chain.hh). Length and key are
// written once; a refill writes addresses only. Owner: the queue's worker. Never allocates from a
// heap, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/prm/data_seg.hh"

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace kilim::inline v1::burst {

// How a buffer is cut for several packets: each begins at a stride of its own.
struct RxStrides {
  uint8_t log_bytes = 0;  // of a stride, at least 6; 0: a buffer is for one packet
  uint8_t log_count = 0;  // of a buffer

  [[nodiscard]] uint32_t count() const noexcept { return 1u << log_count; }
  [[nodiscard]] uint32_t bytes() const noexcept { return 1u << (log_bytes + log_count); }
};

// The place for packets: buffers of `arena` from their `head_lines`-th line on, under `key`.
struct RxPlace {
  pool::Arena arena;
  Lkey key;                 // of the arena, for this device
  uint16_t head_lines = 0;  // 64-byte lines left free before the data
  uint32_t length = 0;      // bytes of data; 0: up to the buffer's end
  RxStrides strides;        // then without head_lines

  [[nodiscard]] uint32_t head_bytes() const noexcept {
    return head_lines * static_cast<uint32_t>(cacheline_bytes);
  }
  // Bytes of a buffer that the device may fill.
  [[nodiscard]] uint32_t room() const noexcept {
    if (strides.log_bytes != 0) return strides.bytes();
    return length != 0 ? length : arena.room() - head_bytes();
  }
};

class RxRing {
 public:
  // `indices` keeps the buffer of each WQE: one entry per WQE; it outlives the ring.
  RxRing(const queue::RqGeometry& geometry, std::span<uint32_t> indices,
         const RxPlace& place) noexcept
      : geometry_(geometry),
        segments_(geometry.buf + (place.strides.log_bytes != 0 ? octoword_bytes : 0)),
        indices_(indices.data()),
        mask_(geometry.wqe_count - 1),
        stride_(place.arena.stride()),
        sides_(place.arena.sides(place.head_bytes())),
        first_(place.arena.first_address().value() + place.head_bytes()) {
    KILIM_ASSERT(queue::is_power_of_two(geometry.wqe_count) &&
                 indices.size() >= geometry.wqe_count);
    KILIM_ASSERT(geometry.stride >= octoword_bytes && geometry.stride % octoword_bytes == 0);
    const auto before = static_cast<std::size_t>(segments_ - geometry.buf);
    for (uint32_t i = 0; i < geometry.wqe_count; i++) {
      std::byte* const segment = segments_ + std::size_t{i} * geometry.stride;
      queue::store_pointer(segment, 0, place.room(), place.key);
      if (geometry.stride > before + octoword_bytes)
        queue::store_pointer(segment + octoword_bytes, 0, 0, Lkey{prm::list_end_lkey});
    }
  }
  RxRing(RxRing&&) = default;
  RxRing& operator=(RxRing&&) = default;
  RxRing(const RxRing&) = delete;
  RxRing& operator=(const RxRing&) = delete;

  [[nodiscard]] const queue::RqGeometry& geometry() const noexcept { return geometry_; }
  // Receives that can be posted now, and those posted and not retired.
  [[nodiscard]] uint32_t room() const noexcept { return geometry_.wqe_count - (pi_ - ci_); }
  [[nodiscard]] uint32_t posted() const noexcept { return pi_ - ci_; }
  // Side records of packets that begin where those of the queue do, by a buffer's index.
  [[nodiscard]] pool::SideRecord* sides() const noexcept { return sides_; }
  // Number of the WQE that is posted next.
  [[nodiscard]] uint32_t next() const noexcept { return pi_; }

  // The buffers of the oldest receives, as far as they lie in a row.
  [[nodiscard]] std::span<const uint32_t> oldest() const noexcept {
    const uint32_t at = ci_ & mask_;
    const uint32_t to_end = mask_ + 1 - at, all = posted();
    return {indices_ + at, all < to_end ? all : to_end};
  }
  // The counter of the oldest receive.
  [[nodiscard]] uint16_t oldest_counter() const noexcept { return static_cast<uint16_t>(ci_); }
  // The buffer of the WQE at `counter` (from a CQE).
  [[nodiscard]] uint32_t index(uint16_t counter) const noexcept {
    return indices_[counter & mask_];
  }
  // Frees the WQE at `counter` (from a CQE) and all before it, as receives complete in order.
  // Returns its buffer.
  uint32_t retire(uint16_t counter) noexcept {
    owner_.check();
    ci_ += static_cast<uint16_t>(counter - ci_) + 1u;
    KILIM_ASSERT(pi_ - ci_ <= geometry_.wqe_count);
    return indices_[counter & mask_];
  }

  // Frees the `count` oldest WQEs: a completion each, in order.
  void retire_oldest(uint32_t count) noexcept {
    owner_.check();
    KILIM_ASSERT(count <= posted());
    ci_ += count;
  }

  // Posts `most` buffers, of which there is room, and rings. Returns how many; fewer: the pool is
  // empty. Always inlined, as what it calls, into a burst that may have wider vectors than this.
  template <Simd S = Simd::base>
  [[gnu::always_inline]] uint32_t refill(pool::BufferCache& cache, uint32_t most) noexcept {
    owner_.check();
    const uint32_t to_end = mask_ + 1 - (pi_ & mask_);
    const uint32_t posted =
        most <= to_end ? post_row<S>(cache, most) : post_over_end(cache, most, to_end);
    if (posted != 0) ring();
    return posted;
  }

  // Called when the queue pair went through RESET: calls visit(buffer) for what was posted, and
  // empties the ring.
  template <typename Visit>
  void reset(Visit&& visit) noexcept {
    owner_.check();
    for (; ci_ != pi_; ci_++) visit(indices_[ci_ & mask_]);
    pi_ = ci_ = 0;
    record_store(geometry_.record, be32{0});
  }
  // Lets another worker use the queue from now on; the two never use it at the same time.
  void release_owner() noexcept { owner_.release(); }

 private:
  // Fills so many WQEs from the next one on, which lie in a row, as long as there are buffers;
  // returns how many.
  template <Simd S>
  [[gnu::always_inline]] uint32_t post_row(pool::BufferCache& cache, uint32_t count) noexcept {
    const uint32_t at = pi_ & mask_;
    const uint32_t* from = cache.alloc_in_place(count);
    if (from == nullptr) [[unlikely]] {
      count = cache.alloc_indices({indices_ + at, count});
      from = indices_ + at;
    }
    put<S>(at, from, count);
    pi_ += count;
    return count;
  }
  // Posts WQEs of which only the first `to_end` lie before the ring's end.
  [[gnu::noinline]] uint32_t post_over_end(pool::BufferCache& cache, uint32_t count,
                                           uint32_t to_end) noexcept {
    const uint32_t posted = post_row<Simd::base>(cache, to_end);
    return posted < to_end ? posted : posted + post_row<Simd::base>(cache, count - to_end);
  }
  void ring() noexcept {
    before_doorbell_record();
    record_store(geometry_.record, be32{pi_ & 0xffff});
  }
#if defined(__SSE4_1__)
  // Keeps the indices of four buffers, and writes their addresses.
  struct FourOf {
    __m128i first, stride;
    [[gnu::always_inline]] void put(std::byte* to, std::size_t step, uint32_t* kept,
                                    const uint32_t* from) const noexcept {
      const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(kept), four);
      store(to, step, _mm_cvtepu32_epi64(four));
      store(to + 2 * step, step, _mm_unpackhi_epi32(four, _mm_setzero_si128()));
    }
    [[gnu::always_inline]] void store(std::byte* to, std::size_t step, __m128i two) const noexcept {
      const __m128i order = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
      const __m128i host = _mm_add_epi64(_mm_mul_epu32(two, stride), first);
      const __m128i big = _mm_shuffle_epi8(host, order);
      _mm_storel_pd(reinterpret_cast<double*>(to), _mm_castsi128_pd(big));
      _mm_storeh_pd(reinterpret_cast<double*>(to + step), _mm_castsi128_pd(big));
    }
  };
  // FourOf for AVX2.
  struct WideFourOf {
    __m256i first, stride;
    KILIM_AVX2 [[gnu::always_inline]] void put(std::byte* to, std::size_t step, uint32_t* kept,
                                               const uint32_t* from) const noexcept {
      const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(kept), four);
      const __m256i order = _mm256_broadcastsi128_si256(
          _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
      const __m256i host =
          _mm256_add_epi64(_mm256_mul_epu32(_mm256_cvtepu32_epi64(four), stride), first);
      const __m256i big = _mm256_shuffle_epi8(host, order);
      const __m128d low = _mm_castsi128_pd(_mm256_castsi256_si128(big));
      const __m128d high = _mm_castsi128_pd(_mm256_extracti128_si256(big, 1));
      _mm_storel_pd(reinterpret_cast<double*>(to), low);
      _mm_storeh_pd(reinterpret_cast<double*>(to + step), low);
      _mm_storel_pd(reinterpret_cast<double*>(to + 2 * step), high);
      _mm_storeh_pd(reinterpret_cast<double*>(to + 3 * step), high);
    }
  };
  // A multiple of four, of WQEs that lie `step` bytes apart.
  [[gnu::always_inline]] void put_fours(std::size_t step, std::byte* to, uint32_t* kept,
                                        const uint32_t* from, uint32_t count) const noexcept {
    const FourOf four{_mm_set1_epi64x(static_cast<long long>(first_)), _mm_set1_epi64x(stride_)};
    for (const uint32_t* const end = from + count; from != end; from += 4, kept += 4) {
      four.put(to, step, kept, from);
      to += 4 * step;
    }
  }
  KILIM_AVX2 void put_wide_fours(std::size_t step, std::byte* to, uint32_t* kept,
                                 const uint32_t* from, uint32_t count) const noexcept {
    const WideFourOf four{_mm256_set1_epi64x(static_cast<long long>(first_)),
                          _mm256_set1_epi64x(stride_)};
    for (const uint32_t* const end = from + count; from != end; from += 4, kept += 4) {
      four.put(to, step, kept, from);
      to += 4 * step;
    }
  }
#endif
  // Keeps the indices of `count` buffers for the WQEs from number `at` on, and writes their
  // addresses there.
  template <Simd S>
  [[gnu::always_inline]] void put_by(std::size_t step, uint32_t at, const uint32_t* from,
                                     uint32_t count) const noexcept {
    constexpr std::size_t address = offsetof(prm::DataSeg, addr);
    std::byte* const to = segments_ + std::size_t{at} * step + address;
    uint32_t* const kept = indices_ + at;
    uint32_t i = 0;
#if defined(__SSE4_1__)
    i = count & ~3u;
    if constexpr (S == Simd::avx2)
      put_wide_fours(step, to, kept, from, i);
    else
      put_fours(step, to, kept, from, i);
#endif
    for (; i < count; i++) {
      kept[i] = from[i];
      queue::store_word(to + i * step, be64{first_ + std::size_t{from[i]} * stride_});
    }
  }
  // Writes WQEs of any size. A function of its own, so that the distance of WQEs with one segment
  // is a constant in the other.
  [[gnu::noinline]] void put_long(uint32_t at, const uint32_t* from,
                                  uint32_t count) const noexcept {
    put_by<Simd::base>(geometry_.stride, at, from, count);
  }
  template <Simd S>
  [[gnu::always_inline]] void put(uint32_t at, const uint32_t* from,
                                  uint32_t count) const noexcept {
    if (geometry_.stride != octoword_bytes) [[unlikely]]
      return put_long(at, from, count);
    put_by<S>(octoword_bytes, at, from, count);
  }

  queue::RqGeometry geometry_;
  std::byte* segments_;  // the first WQE's data segment; those of striding queues open with a link
  uint32_t* indices_;
  uint32_t mask_;
  uint32_t stride_;  // from one buffer to the next
  pool::SideRecord* sides_;
  uint64_t first_;  // address of the data in buffer 0
  uint32_t pi_ = 0;
  uint32_t ci_ = 0;
  Owner owner_;
};

}  // namespace kilim::inline v1::burst
