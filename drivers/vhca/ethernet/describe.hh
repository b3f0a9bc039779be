// SPDX-License-Identifier: BSD-3-Clause
// What a completion says of the frames that most traffic is made of: TCP and UDP on IPv4 without
// options, tags or fragments. The same as describe_frame(), in fewer instructions. Pure, any
// thread; frames are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <emmintrin.h>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::vhca::ethernet {

namespace ipv4_frame {

inline constexpr std::size_t ip_at = 14, l4_at = 34, addresses_at = 26, udp_sum_at = 40;
inline constexpr uint8_t tcp = 6, udp = 17;

template <typename T>
[[gnu::always_inline]] inline T load(const std::byte* at) noexcept {
  T v;
  std::memcpy(&v, at, sizeof(v));
  return v;
}

// A sum of words in the byte order of memory, each carry added again (RFC 1071). Eight bytes are
// four words at once: 2^16 is 1 to such a sum, and so is 2^64.
[[gnu::always_inline]] inline uint64_t add(uint64_t sum, uint64_t word) noexcept {
  return __builtin_add_overflow(sum, word, &sum) ? sum + 1 : sum;
}
// A word where it lies, for an asm.
struct [[gnu::may_alias, gnu::packed]] MayAlias {
  uint64_t word;
};
// Of 16 bytes, in the fewest instructions.
[[gnu::always_inline]] inline uint64_t add_16(uint64_t sum, const std::byte* at) noexcept {
  struct [[gnu::may_alias]] Bytes {
    std::byte b[16];
  };
  const auto& bytes = *reinterpret_cast<const Bytes*>(at);
  asm("addq (%[at]), %[sum]\n\t"
      "adcq 8(%[at]), %[sum]\n\t"
      "adcq $0, %[sum]"
      : [sum] "+r"(sum)
      : [at] "r"(at), "m"(bytes)
      : "cc");
  return sum;
}

// Whether a sum, in which some word was not 0, is that of right words: all ones when it is folded
// to 16 bits, which is to say a multiple of 2^16 - 1. Multiplied by the inverse of that, the
// multiples are the smallest numbers.
inline constexpr uint64_t all_ones_most = 0x0001000100010001, all_ones_inverse = 0 - all_ones_most;
static_assert(all_ones_most == ~uint64_t{0} / 0xffff && all_ones_inverse * 0xffff == 1);
[[gnu::always_inline]] inline bool all_ones(uint64_t sum) noexcept {
  return sum * all_ones_inverse <= all_ones_most;
}

// Of at least 8 bytes, of which those behind the last whole eight are taken from the last eight.
[[gnu::always_inline]] inline uint64_t add_to(uint64_t sum, const std::byte* at,
                                              std::size_t bytes) noexcept {
  const std::byte* const end = at + bytes;
  for (const std::byte* const last = at + (bytes & ~std::size_t{15}); at != last; at += 16)
    sum = add_16(sum, at);
  if ((bytes & 8) != 0) sum = add(sum, load<uint64_t>(at));
  // 64 less eight bits for each byte that is left.
  if ((bytes & 7) != 0) sum = add(sum, load<uint64_t>(end - 8) >> ((8 - bytes) % 8 * 8));
  return sum;
}

}  // namespace ipv4_frame

// What a completion says: hds_ip_ext and l4_hdr_type_etc. 0 in the first: it is another frame, and
// nothing is said.
struct FrameWords {
  uint8_t ok = 0, type = 0;
};

// What headers say of a frame, without its addresses, ports and sums.
struct FrameShape {
  uint64_t pseudo = 0;   // of the pseudo header, but for the addresses
  uint32_t covered = 0;  // bytes that the checksum of the upper layer covers; 0: another frame
  uint32_t has_sum = 0;  // 0: that checksum is none where it is 0
  uint8_t type = 0;      // l4_hdr_type_etc
};

[[gnu::always_inline]] inline FrameShape shape_of_ipv4(std::span<const std::byte> frame) noexcept {
  using namespace ipv4_frame;
  const std::byte* f = frame.data();
  constexpr uint32_t type_and_version = 0x00450008;  // 08 00 45, little endian
  if (frame.size() < l4_at + 20) return {};
  const bool plain = (load<uint32_t>(f + 12) & 0x00ffffff) == type_and_version &&
                     (load<uint16_t>(f + 20) & be16{0x3fff}.raw()) == 0;
  if (!plain) return {};
  const uint32_t total = be16::from_raw(load<uint16_t>(f + 16)).host();
  if (total < 40 || total > frame.size() - ip_at) return {};
  const auto protocol = std::to_integer<uint8_t>(f[23]);
  FrameShape s;
  s.covered = total - 20;
  uint8_t type = prm::cqe::l4_udp;
  if (protocol == ipv4_frame::udp) {
    const uint32_t said = be16::from_raw(load<uint16_t>(f + l4_at + 4)).host();
    if (said < 8 || said > s.covered) return {};
    s.covered = said;
  } else {
    const uint32_t header = (std::to_integer<uint32_t>(f[l4_at + 12]) >> 4) * 4;
    if (protocol != ipv4_frame::tcp || header < 20 || header > s.covered) return {};
    const bool ack = (f[l4_at + 13] & std::byte{0x10}) != std::byte{0};
    type = !ack                  ? prm::cqe::l4_tcp
           : header == s.covered ? prm::cqe::l4_tcp_empty_ack
                                 : prm::cqe::l4_tcp_ack;
    s.has_sum = 1;
  }
  s.pseudo = uint64_t{be16{static_cast<uint16_t>(s.covered)}.raw()} + be16{protocol}.raw();
  s.type = static_cast<uint8_t>(prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift |
                                type << prm::cqe::l4_type_shift);
  return s;
}

// hds_ip_ext of a frame of that shape.
[[gnu::always_inline]] inline uint8_t sums_of_ipv4(const std::byte* f,
                                                   const FrameShape& s) noexcept {
  using namespace ipv4_frame;
  const auto addresses = load<uint64_t>(f + addresses_at);
  uint64_t header = add(load<uint64_t>(f + ip_at), load<uint32_t>(f + addresses_at - 4));
  header = add(header, addresses);
  unsigned ok = prm::cqe::l2_ok;
  if (all_ones(header)) ok |= prm::cqe::l3_ok;
  const uint64_t payload = add_to(add(addresses, s.pseudo), f + l4_at, s.covered);
  const bool none = (load<uint16_t>(f + udp_sum_at) | s.has_sum) == 0;
  if (none || all_ones(payload)) ok |= prm::cqe::l4_ok;
  return static_cast<uint8_t>(ok);
}

[[gnu::always_inline]] inline FrameWords describe_ipv4(std::span<const std::byte> frame) noexcept {
  const FrameShape s = shape_of_ipv4(frame);
  if (s.covered == 0) return {};
  return {sums_of_ipv4(frame.data(), s), s.type};
}

// The shape of one UDP frame, for the next ones whose headers say the same: nothing but tag of
// service, identification, time to live, addresses of IP, ports and sums differs. So it goes where
// that one went, as far as nothing else is asked.
class SameShape {
 public:
  // `shape` is that of `frame`; forgets the one before.
  void remember(std::span<const std::byte> frame, const FrameShape& shape) noexcept {
    shape_ = shape;
    size_ = 0;
    if (shape.covered == 0 || shape.has_sum != 0) return;  // no UDP
    size_ = frame.size();
    for (std::size_t i = 0; i < 2; i++) parts_[i] = part(frame.data(), i);
    udp_length_ = udp_length(frame.data());
    alignas(16) std::byte record[records_judged] = {};
    const auto length = static_cast<uint32_t>(size_);
    std::memcpy(record, &length, sizeof length);
    std::memcpy(record + length_ahead, frame.data(), sizeof record - length_ahead);
    for (std::size_t i = 0; i < 3; i++) in_record_[i] = part(record, i);
  }
  void forget() noexcept { size_ = 0; }
  // Of the frame that was to be remembered last.
  [[nodiscard]] const FrameShape& shape() const noexcept { return shape_; }
  [[nodiscard, gnu::always_inline]] bool is_that_of(
      std::span<const std::byte> frame) const noexcept {
    if (frame.size() != size_) return false;
    return alike(differing(frame.data(), 0), differing(frame.data(), 1)) &&
           udp_length(frame.data()) == udp_length_;
  }
  // Whether four frames are, which lie `step` bytes behind each other, each behind eight bytes that
  // begin with its length.
  [[nodiscard, gnu::always_inline]] bool is_that_of_four(const std::byte* f,
                                                         std::size_t step) const noexcept {
    const __m128i counts[] = {
        _mm_setr_epi8(-1, -1, -1, -1, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1),
        _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, 0, -1, -1, 0, 0, -1, -1, 0, -1),
        _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1)};
    __m128i bits[3] = {};
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; i++, f += step)
#pragma GCC unroll 3
      for (std::size_t k = 0; k < 3; k++)
        bits[k] = _mm_or_si128(bits[k], _mm_xor_si128(part(f - length_ahead, k), in_record_[k]));
    return none(_mm_or_si128(
        _mm_or_si128(_mm_and_si128(bits[0], counts[0]), _mm_and_si128(bits[1], counts[1])),
        _mm_and_si128(bits[2], counts[2])));
  }
  [[nodiscard]] std::size_t frame_bytes() const noexcept {
    return size_;
  }

 private:
  static constexpr std::size_t part_bytes = 16, udp_length_at = 38;
  // As in a wire's ring (wire/frame_ring.hh), up to the length of UDP.
  static constexpr std::size_t length_ahead = 8, records_judged = 48;
  [[gnu::always_inline]] static __m128i part(const std::byte* f, std::size_t i) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(f + i * part_bytes));
  }
  [[gnu::always_inline]] static uint16_t udp_length(const std::byte* f) noexcept {
    return ipv4_frame::load<uint16_t>(f + udp_length_at);
  }
  [[gnu::always_inline]] __m128i differing(const std::byte* f, std::size_t i) const noexcept {
    return _mm_xor_si128(part(f, i), parts_[i]);
  }
  // Whether no bit differs that counts, of bytes 0 to 15 and 16 to 31.
  [[gnu::always_inline]] static bool alike(__m128i first, __m128i second) noexcept {
    const __m128i counts[] = {
        _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0),
        _mm_setr_epi8(-1, -1, 0, 0, -1, -1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0)};
    const __m128i bits =
        _mm_or_si128(_mm_and_si128(first, counts[0]), _mm_and_si128(second, counts[1]));
    return none(bits);
  }
  [[gnu::always_inline]] static bool none(__m128i bits) noexcept {
    return _mm_movemask_epi8(_mm_cmpeq_epi8(bits, _mm_setzero_si128())) == 0xffff;
  }

  std::size_t size_ = 0;  // 0: nothing is remembered
  FrameShape shape_;
  uint16_t udp_length_ = 0;
  __m128i parts_[2]{};      // of the frame
  __m128i in_record_[3]{};  // of its record in a ring
};

}  // namespace kilim::vhca::ethernet
