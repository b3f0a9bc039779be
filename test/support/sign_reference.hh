// SPDX-License-Identifier: BSD-3-Clause
// Signed blocks as the standards define them, bit by bit and without a table: what the adapter's
// are compared with. Pure values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kilim::test::blocks {

using Bytes = std::vector<uint8_t>;

enum class Sign : uint8_t { none, dif_crc, dif_checksum, crc32, crc32c, crc64 };

struct Domain {
  Sign sign = Sign::none;
  uint32_t block = 0;
  bool ones = true;
  bool count_ref = true;
  uint16_t app = 0;
  uint32_t ref = 0;
  [[nodiscard]] bool dif() const { return sign == Sign::dif_crc || sign == Sign::dif_checksum; }
  [[nodiscard]] bool half() const { return sign == Sign::crc32 || sign == Sign::crc32c; }
  [[nodiscard]] uint32_t bytes() const { return sign == Sign::none ? 0 : half() ? 4 : 8; }
};

// Lowest bit first.
inline uint64_t crc_reflected(uint64_t polynomial, unsigned width, bool ones, const uint8_t* p,
                              std::size_t n) {
  const uint64_t all = ~uint64_t{0} >> (64 - width);
  uint64_t c = ones ? all : 0;
  for (std::size_t i = 0; i < 8 * n; i++) {
    const bool bit = ((c ^ (p[i / 8] >> (i % 8))) & 1) != 0;
    c = bit ? c >> 1 ^ polynomial : c >> 1;
  }
  return c ^ all;
}
inline uint64_t crc_t10(bool ones, const uint8_t* p, std::size_t n) {
  uint32_t c = ones ? 0xffff : 0;
  for (std::size_t i = 0; i < 8 * n; i++) {
    const uint32_t bit = (c >> 15 ^ p[i / 8] >> (7 - i % 8)) & 1;
    c = (c << 1 ^ (bit != 0 ? 0x8bb7 : 0)) & 0xffff;
  }
  return c;
}
inline uint64_t internet_checksum(bool ones, const uint8_t* p, std::size_t n) {
  uint32_t sum = ones ? 0xffff : 0;
  for (std::size_t i = 0; i < n; i++) {
    sum += i % 2 == 0 ? p[i] << 8 : p[i];
    if (sum > 0xffff) sum -= 0xffff;
  }
  return ~sum & 0xffff;
}

inline uint64_t sum_of(const Domain& d, const uint8_t* p, std::size_t n) {
  switch (d.sign) {
    case Sign::dif_crc:
      return crc_t10(d.ones, p, n);
    case Sign::dif_checksum:
      return internet_checksum(d.ones, p, n);
    case Sign::crc32:
      return crc_reflected(0xedb88320, 32, d.ones, p, n);
    case Sign::crc32c:
      return crc_reflected(0x82f63b78, 32, d.ones, p, n);
    case Sign::crc64:
      return crc_reflected(0x9a6c9329ac4bc9b5, 64, d.ones, p, n);
    case Sign::none:
      break;
  }
  return 0;
}

// As masks and CQEs have it: the highest byte first.
inline uint64_t signature_of(const Domain& d, uint64_t index, const uint8_t* block) {
  const uint64_t sum = sum_of(d, block, d.block);
  if (!d.dif()) return d.half() ? sum << 32 : sum;
  const auto ref = static_cast<uint32_t>(d.ref + (d.count_ref ? index : 0));
  return sum << 48 | uint64_t{d.app} << 32 | ref;
}
inline void put_signature(const Domain& d, uint64_t v, Bytes& to) {
  if (d.half()) v >>= 32;
  for (uint32_t i = 0; i < d.bytes(); i++)
    to.push_back(static_cast<uint8_t>(v >> (d.dif() ? 56 - 8 * i : 8 * i)));
}
inline uint64_t get_signature(const Domain& d, const uint8_t* p) {
  uint64_t v = 0;
  for (uint32_t i = 0; i < d.bytes(); i++) v |= uint64_t{p[i]} << (d.dif() ? 56 - 8 * i : 8 * i);
  return d.half() ? v << 32 : v;
}

// What a stream of a domain consists of.
struct Parts {
  Bytes data;
  std::vector<uint64_t> signatures;  // of whole blocks
};
inline Parts split(const Domain& d, const Bytes& stream) {
  Parts p;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t left = stream.size() - at;
    const std::size_t n = d.block == 0 ? left : std::min<std::size_t>(left, d.block);
    p.data.insert(p.data.end(), stream.begin() + static_cast<long>(at),
                  stream.begin() + static_cast<long>(at + n));
    at += n;
    if (n != d.block || d.block == 0) continue;
    p.signatures.push_back(get_signature(d, stream.data() + at));
    at += d.bytes();
  }
  return p;
}
// The stream over data; bytes of `copy` are those of `given`.
inline Bytes join(const Domain& d, const Bytes& data, uint64_t copy = 0,
                  const std::vector<uint64_t>& given = {}) {
  Bytes to;
  for (std::size_t at = 0, i = 0; at < data.size(); i++) {
    const std::size_t left = data.size() - at;
    const std::size_t n = d.block == 0 ? left : std::min<std::size_t>(left, d.block);
    to.insert(to.end(), data.begin() + static_cast<long>(at),
              data.begin() + static_cast<long>(at + n));
    if (n == d.block && d.block != 0) {
      const uint64_t made = signature_of(d, i, data.data() + at);
      put_signature(d, i < given.size() ? (given[i] & copy) | (made & ~copy) : made, to);
    }
    at += n;
  }
  return to;
}

inline uint64_t bits_of(uint8_t mask) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < 8; i++) bits |= (mask >> i & 1) != 0 ? uint64_t{0xff} << (8 * i) : 0;
  return bits;
}

}  // namespace kilim::test::blocks
