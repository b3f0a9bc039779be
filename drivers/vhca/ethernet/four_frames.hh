// SPDX-License-Identifier: BSD-3-Clause
// Four frames of one shape (describe.hh) at a time, as they lie in a wire's ring: whether both sums
// of each are right. What the shape says of the sums is worked out once. Owner: one row of frames.
// Pure, frames are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/ethernet/describe.hh"

namespace kilim::vhca::ethernet {

// How the bytes that the upper layer's checksum covers are added up: 16 at a time, and the last 1
// to 16 of them as two words, of which the first counts where there are more than eight.
struct CoveredWords {
  uint64_t pseudo;        // of the pseudo header, but for the addresses
  uint64_t sixteens;      // 0: it is another way
  uint32_t front, tail;   // where the two words lie in the frame
  uint64_t front_counts;  // mask
  uint32_t tail_shift;    // bits of the last word that were counted before
};

[[nodiscard]] inline CoveredWords words_of(const FrameShape& s) noexcept {
  using ipv4_frame::l4_at;
  constexpr uint32_t at_once = 16, word = 8;
  CoveredWords w{};
  if (s.covered <= at_once || s.has_sum != 0) return w;
  w.pseudo = s.pseudo;
  w.sixteens = (s.covered - 1) / at_once;
  const auto behind = static_cast<uint32_t>(l4_at + w.sixteens * at_once);
  const auto rest = static_cast<uint32_t>(s.covered - w.sixteens * at_once);
  const bool both = rest > word;
  w.front = both ? behind : static_cast<uint32_t>(l4_at);
  w.front_counts = both ? ~uint64_t{0} : 0;
  w.tail = static_cast<uint32_t>(l4_at + s.covered - word);
  w.tail_shift = (both ? 2 * word - rest : word - rest) * 8;
  return w;
}

// Of one UDP frame of that shape; a sum that was not made is right.
[[gnu::always_inline]] inline bool sums_are_right(const std::byte* f,
                                                  const CoveredWords& w) noexcept {
  using namespace ipv4_frame;
  const auto addresses = load<uint64_t>(f + addresses_at);
  uint64_t header = load<uint32_t>(f + addresses_at - 4);
  uint64_t sum = addresses, left = w.sixteens;
  const std::byte* at = f + l4_at;
  const uint64_t front = load<uint64_t>(f + w.front) & w.front_counts;
  const uint64_t tail = load<uint64_t>(f + w.tail) >> w.tail_shift;
  asm("addq %[word], %[sum]\n\t"
      "adcq %[addresses], %[sum]\n\t"
      "adcq $0, %[sum]"
      : [sum] "+&r"(header)
      : [word] "m"(*reinterpret_cast<const MayAlias*>(f + ip_at)), [addresses] "r"(addresses)
      : "cc");
  // The carry goes through the loop: lea and dec leave it.
  asm("addq %[pseudo], %[sum]\n\t"
      "adcq %[front], %[sum]\n\t"
      "adcq %[tail], %[sum]\n"
      "1:\n\t"
      "adcq (%[at]), %[sum]\n\t"
      "adcq 8(%[at]), %[sum]\n\t"
      "leaq 16(%[at]), %[at]\n\t"
      "decq %[left]\n\t"
      "jnz 1b\n\t"
      "adcq $0, %[sum]"
      : [sum] "+&r"(sum), [at] "+&r"(at), [left] "+&r"(left)
      : [pseudo] "r"(w.pseudo), [front] "r"(front), [tail] "r"(tail)
      : "cc", "memory");
  if (!all_ones(header)) [[unlikely]]
    return false;
  return all_ones(sum) || load<uint16_t>(f + udp_sum_at) == 0;
}

// Of four, each `step` bytes behind the other. A call, as what is known of the shape fills the
// registers.
[[gnu::noinline]] inline bool sums_of_four_are_right(const std::byte* f, std::size_t step,
                                                     const CoveredWords& covered) noexcept {
  const CoveredWords w = covered;
  for (const std::byte* const end = f + 4 * step; f != end; f += step)
    if (!sums_are_right(f, w)) return false;
  return true;
}

// The same where the checksum covers 26 to 32 bytes, an even number, as in the smallest frames: 24
// of them, and the last 8, of which those count that were not counted before.
struct ShortCovered {
  uint64_t pseudo, tail_counts;
  std::size_t tail;
  uint64_t inverse, most;  // of all_ones()
};
[[nodiscard]] inline bool covers_few(const FrameShape& s) noexcept {
  return s.has_sum == 0 && s.covered >= 26 && s.covered <= 32 && s.covered % 2 == 0;
}
[[nodiscard]] inline ShortCovered short_words_of(const FrameShape& s) noexcept {
  using namespace ipv4_frame;
  const uint32_t counted_before = 32 - s.covered;
  ShortCovered w{s.pseudo, ~uint64_t{0} << 8 * counted_before, l4_at + s.covered - 8,
                 all_ones_inverse, all_ones_most};
  asm("" : "+r"(w.inverse), "+r"(w.most));  // numbers that are not to be loaded for each frame
  return w;
}
[[gnu::always_inline]] inline bool sums_are_right(const std::byte* f,
                                                  const ShortCovered& w) noexcept {
  using namespace ipv4_frame;
  static_assert(ip_at == 14 && addresses_at == 26 && l4_at == 34);
  struct [[gnu::may_alias]] Bytes {
    std::byte b[58];
  };
  const auto& bytes = *reinterpret_cast<const Bytes*>(f);
  const uint64_t tail = load<uint64_t>(f + w.tail) & w.tail_counts;
  uint64_t header, sum;
  asm("movq 26(%[f]), %[sum]\n\t"
      "movl 22(%[f]), %k[header]\n\t"
      "addq 14(%[f]), %[header]\n\t"
      "adcq %[sum], %[header]\n\t"
      "adcq $0, %[header]\n\t"
      "addq %[pseudo], %[sum]\n\t"
      "adcq 34(%[f]), %[sum]\n\t"
      "adcq 42(%[f]), %[sum]\n\t"
      "adcq 50(%[f]), %[sum]\n\t"
      "adcq %[tail], %[sum]\n\t"
      "adcq $0, %[sum]"
      : [header] "=&r"(header), [sum] "=&r"(sum)
      : [f] "r"(f), [pseudo] "rm"(w.pseudo), [tail] "r"(tail), "m"(bytes)
      : "cc");
  if (header * w.inverse > w.most) [[unlikely]]
    return false;
  return sum * w.inverse <= w.most || load<uint16_t>(f + udp_sum_at) == 0;
}
[[gnu::always_inline]] inline bool sums_of_four_are_right(const std::byte* f, std::size_t step,
                                                          const ShortCovered& w) noexcept {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, f += step)
    if (!sums_are_right(f, w)) return false;
  return true;
}

// What a completion says of such a frame where sums_are_right(): hds_ip_ext.
inline constexpr uint8_t all_sums_ok = prm::cqe::l2_ok | prm::cqe::l3_ok | prm::cqe::l4_ok;

}  // namespace kilim::vhca::ethernet
