// SPDX-License-Identifier: BSD-3-Clause
// Four frames of one shape (describe.hh) at a time, as they lie in a wire's ring: whether both sums
// of each are right. What the shape says of the sums is worked out once. Owner: one row of frames.
// Pure, frames are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/ethernet/describe.hh"

namespace kilim::vhca {

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

// Of one UDP frame of that shape; a sum that was not made is right. `OneSixteen`: there is one
// group of 16.
template <bool OneSixteen = false>
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
  if constexpr (OneSixteen) {
    asm("addq %[pseudo], %[sum]\n\t"
        "adcq %[front], %[sum]\n\t"
        "adcq %[tail], %[sum]\n\t"
        "adcq (%[at]), %[sum]\n\t"
        "adcq 8(%[at]), %[sum]\n\t"
        "adcq $0, %[sum]"
        : [sum] "+&r"(sum)
        : [at] "r"(at), [pseudo] "rm"(w.pseudo), [front] "r"(front), [tail] "r"(tail)
        : "cc", "memory");
  } else {
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
  }
  if (!all_ones(header)) [[unlikely]]
    return false;
  return all_ones(sum) || load<uint16_t>(f + udp_sum_at) == 0;
}

// Of four, each `step` bytes behind the other.
template <bool OneSixteen = false>
[[gnu::always_inline]] inline bool sums_of_four_are_right(const std::byte* f, std::size_t step,
                                                          const CoveredWords& w) noexcept {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, f += step)
    if (!sums_are_right<OneSixteen>(f, w)) return false;
  return true;
}

// What a completion says of such a frame where sums_are_right(): hds_ip_ext.
inline constexpr uint8_t all_sums_ok = prm::cqe::l2_ok | prm::cqe::l3_ok | prm::cqe::l4_ok;

}  // namespace kilim::vhca
