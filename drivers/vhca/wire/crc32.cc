// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 eight bytes at a time ("slicing by 8", Kounavis and Berry, Intel 2005), and which way is
// taken.
#include "vhca/wire/crc32.hh"

#include <array>
#include <cstring>

namespace kilim::vhca::wire {

namespace {

constexpr uint32_t polynomial = 0xedb88320;  // of Ethernet, reflected
using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Table k says what a byte does to the sum when k more bytes have followed it.
constexpr Tables make_tables() noexcept {
  Tables t{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = (c & 1) != 0 ? c >> 1 ^ polynomial : c >> 1;
    t[0][i] = c;
  }
  for (uint32_t i = 0; i < 256; i++) {
    for (std::size_t k = 1; k < t.size(); k++) {
      t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xff];
    }
  }
  return t;
}
constexpr Tables tables = make_tables();

uint32_t add_by_tables(uint32_t state, std::span<const std::byte> bytes) noexcept {
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    v ^= state;
    state = tables[7][v & 0xff] ^ tables[6][v >> 8 & 0xff] ^ tables[5][v >> 16 & 0xff] ^
            tables[4][v >> 24 & 0xff] ^ tables[3][v >> 32 & 0xff] ^ tables[2][v >> 40 & 0xff] ^
            tables[1][v >> 48 & 0xff] ^ tables[0][v >> 56];
  }
  for (; left > 0; left--, p++) {
    state = state >> 8 ^ tables[0][(state ^ std::to_integer<uint32_t>(*p)) & 0xff];
  }
  return state;
}

}  // namespace

uint32_t crc32_add_by(crc32_fold::Way way, uint32_t state,
                      std::span<const std::byte> bytes) noexcept {
  if (bytes.size() >= crc32_fold::least && way != crc32_fold::Way::none) {
    std::array<std::byte, 16> folded;
    bytes = bytes.subspan(crc32_fold::fold(way, state, bytes, folded));
    state = add_by_tables(0, folded);
  }
  return add_by_tables(state, bytes);
}

uint32_t crc32_add(uint32_t state, std::span<const std::byte> bytes) noexcept {
  return crc32_add_by(crc32_fold::best(), state, bytes);
}

}  // namespace kilim::vhca::wire
