// SPDX-License-Identifier: BSD-3-Clause
// Be: a big-endian integer in memory, as devices and wires write it. Conversions are explicit:
// construct it from a host integer, read it by .host(). Trivial, so it may lie in device memory.
// Any thread.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace kilim::inline v1 {

// The bytes of `v` in reverse order.
template <std::unsigned_integral T>
constexpr T swap_bytes(T v) noexcept {
  if constexpr (sizeof(T) == 1) {
    return v;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(v);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(v);
  } else {
    static_assert(sizeof(T) == 8);
    return __builtin_bswap64(v);
  }
}

template <std::unsigned_integral T>
class Be {
 public:
  using value_type = T;

  Be() = default;
  constexpr explicit Be(T host) noexcept : raw_(swap(host)) {}

  // The value in the byte order of this machine.
  [[nodiscard]] constexpr T host() const noexcept { return swap(raw_); }
  // The bytes as an integer, not converted: for atomic stores of a word in device order.
  [[nodiscard]] constexpr T raw() const noexcept { return raw_; }
  // The reverse of raw(): `raw` is in device order already.
  [[nodiscard]] static constexpr Be from_raw(T raw) noexcept {
    Be b{};
    b.raw_ = raw;
    return b;
  }

  friend constexpr Be operator|(Be a, Be b) noexcept {
    return from_raw(static_cast<T>(a.raw_ | b.raw_));
  }
  friend constexpr Be operator&(Be a, Be b) noexcept {
    return from_raw(static_cast<T>(a.raw_ & b.raw_));
  }
  constexpr Be& operator|=(Be b) noexcept { return *this = *this | b; }
  friend constexpr bool operator==(Be a, Be b) noexcept = default;

 private:
  static constexpr T swap(T v) noexcept {
    if constexpr (std::endian::native == std::endian::little) return swap_bytes(v);
    return v;
  }
  T raw_;
};

// A word of eight bytes in memory: the four of `first`, then the four of `second`.
constexpr Be<uint64_t> eight_of(Be<uint32_t> first, Be<uint32_t> second) noexcept {
  if constexpr (std::endian::native == std::endian::little)
    return Be<uint64_t>::from_raw(uint64_t{second.raw()} << 32 | first.raw());
  return Be<uint64_t>{uint64_t{first.host()} << 32 | second.host()};
}

using be16 = Be<uint16_t>;
using be32 = Be<uint32_t>;
using be64 = Be<uint64_t>;

static_assert(sizeof(be16) == 2 && sizeof(be32) == 4 && sizeof(be64) == 8);

}  // namespace kilim::inline v1
