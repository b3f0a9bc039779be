// SPDX-License-Identifier: BSD-3-Clause
// Checksums a byte at a time, by tables. Pure values, any thread.
#include "vhca/tpt/signature_value.hh"

#include <array>
#include <bit>
#include <cstring>

#include "kilim/detail/base/be.hh"

namespace kilim::vhca::tpt {

namespace {

template <typename T>
using Table = std::array<T, 256>;

// Bits of a byte come lowest first.
template <typename T>
constexpr Table<T> reflected(T polynomial) noexcept {
  Table<T> t{};
  for (unsigned i = 0; i < 256; i++) {
    T c = i;
    for (int bit = 0; bit < 8; bit++) c = (c & 1) != 0 ? c >> 1 ^ polynomial : c >> 1;
    t[i] = c;
  }
  return t;
}
constexpr Table<uint16_t> highest_first(uint16_t polynomial) noexcept {
  Table<uint16_t> t{};
  for (unsigned i = 0; i < 256; i++) {
    unsigned c = i << 8;
    for (int bit = 0; bit < 8; bit++) c = (c & 0x8000) != 0 ? c << 1 ^ polynomial : c << 1;
    t[i] = static_cast<uint16_t>(c);
  }
  return t;
}

constexpr auto t10 = highest_first(0x8bb7);
constexpr auto ethernet = reflected(uint32_t{0xedb88320});
constexpr auto castagnoli = reflected(uint32_t{0x82f63b78});
constexpr auto xp10 = reflected(uint64_t{0x9a6c9329ac4bc9b5});

template <typename T>
uint64_t run(const Table<T>& table, uint64_t state, std::span<const std::byte> data) noexcept {
  auto c = static_cast<T>(state);
  for (std::byte b : data) c = static_cast<T>(c >> 8 ^ table[(c ^ std::to_integer<T>(b)) & 0xff]);
  return c;
}

uint64_t run_t10(uint64_t state, std::span<const std::byte> data) noexcept {
  auto c = static_cast<uint16_t>(state);
  for (std::byte b : data)
    c = static_cast<uint16_t>(c << 8 ^ t10[(c >> 8 ^ std::to_integer<unsigned>(b)) & 0xff]);
  return c;
}

uint64_t fold(uint64_t sum) noexcept {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

constexpr bool half(const SignDomain& d) noexcept {
  return d.kind == SignKind::crc32 || d.kind == SignKind::crc32c;
}

}  // namespace

RunningSum::RunningSum(SignKind kind, uint64_t seed) noexcept : kind_(kind), state_(seed) {}

void RunningSum::add(std::span<const std::byte> data) noexcept {
  switch (kind_) {
    case SignKind::none:
      return;
    case SignKind::dif_crc:
      state_ = run_t10(state_, data);
      return;
    case SignKind::dif_checksum:
      for (std::byte b : data) {
        state_ += std::to_integer<uint64_t>(b) << (odd_ ? 0 : 8);
        odd_ = !odd_;
      }
      state_ = fold(state_);
      return;
    case SignKind::crc32:
      state_ = run(ethernet, state_, data);
      return;
    case SignKind::crc32c:
      state_ = run(castagnoli, state_, data);
      return;
    case SignKind::crc64:
      state_ = run(xp10, state_, data);
  }
}

uint64_t RunningSum::value() const noexcept {
  switch (kind_) {
    case SignKind::none:
    case SignKind::dif_crc:
      return state_;
    case SignKind::dif_checksum:
      return ~state_ & 0xffff;
    case SignKind::crc32:
    case SignKind::crc32c:
      return ~state_ & 0xffffffff;
    case SignKind::crc64:
      break;
  }
  return ~state_;
}

// CRCs lie with their lowest byte first, as their bits are sent.
uint64_t load_signature(const SignDomain& d, const std::byte* at) noexcept {
  uint64_t raw = 0;
  std::memcpy(&raw, at, d.bytes());
  if (d.dif()) return be64::from_raw(raw).host();
  return half(d) ? raw << 32 : raw;
}

void store_signature(const SignDomain& d, uint64_t value, std::byte* at) noexcept {
  uint64_t raw = half(d) ? value >> 32 : value;
  if (d.dif()) raw = be64{value}.raw();
  std::memcpy(at, &raw, d.bytes());
}

uint64_t make_signature(const SignDomain& d, const Psv& psv, uint64_t index,
                        uint64_t sum) noexcept {
  if (!d.dif()) return half(d) ? sum << 32 : sum;
  const uint64_t app = d.refresh ? d.app_tag : psv.value >> 32 & 0xffff;
  uint64_t ref = d.refresh ? d.ref_tag : psv.value & 0xffffffff;
  if (d.count_ref) ref = (ref + index) & 0xffffffff;
  return sum << 48 | app << 32 | ref;
}

uint64_t seed_of(const SignDomain& d, const Psv& psv, uint64_t index) noexcept {
  const uint64_t ones = d.dif() ? 0xffff : half(d) ? 0xffffffff : ~uint64_t{0};
  if (index > 0 || d.transaction) return d.ones ? ones : 0;
  if (d.dif()) return psv.value >> 48;
  return half(d) ? psv.value >> 32 : psv.value;
}

uint64_t spread_mask(uint8_t mask) noexcept {
  uint64_t bits = 0;
  for (unsigned i = 0; i < 8; i++) {
    if ((mask >> i & 1) != 0) bits |= uint64_t{0xff} << (8 * i);
  }
  return bits;
}

}  // namespace kilim::vhca::tpt
