// SPDX-License-Identifier: BSD-3-Clause
// Ident: a number with a type of its own, so that an lkey cannot be passed for an rkey or a QPN for
// a CQN. For numbers that the device assigns, addresses and units. Pure values, any thread, without
// run-time cost.
#pragma once

#include <compare>
#include <cstdint>

namespace kilim::inline v1 {

// Tag only makes the type distinct; T holds the number.
template <typename Tag, typename T>
class Ident {
 public:
  using value_type = T;
  Ident() = default;
  constexpr explicit Ident(T v) noexcept : v_(v) {}
  [[nodiscard]] constexpr T value() const noexcept { return v_; }
  friend constexpr auto operator<=>(Ident, Ident) noexcept = default;

 private:
  T v_ = 0;
};

using Qpn = Ident<struct QpnTag, uint32_t>;              // 24 bits
using Cqn = Ident<struct CqnTag, uint32_t>;              // 24 bits
using Pdn = Ident<struct PdnTag, uint32_t>;              // 24 bits
using MkeyIndex = Ident<struct MkeyIndexTag, uint32_t>;  // 24 bits: a key without its tag
using Lkey = Ident<struct LkeyTag, uint32_t>;            // index << 8 | tag, for local use
using Rkey = Ident<struct RkeyTag, uint32_t>;            // index << 8 | tag, for a remote peer
using Va = Ident<struct VaTag, uint64_t>;                // an address of this process
using Iova = Ident<struct IovaTag, uint64_t>;            // an address as a key understands it

// A key's two parts (PRM: "Memory Key"): the index, which the device assigns, in bits 31:8, and the
// tag, which each bind changes, in bits 7:0.
constexpr MkeyIndex index_of(Lkey k) noexcept {
  return MkeyIndex{k.value() >> 8};
}
constexpr MkeyIndex index_of(Rkey k) noexcept {
  return MkeyIndex{k.value() >> 8};
}
constexpr uint8_t tag_of(Lkey k) noexcept {
  return static_cast<uint8_t>(k.value());
}
constexpr uint8_t tag_of(Rkey k) noexcept {
  return static_cast<uint8_t>(k.value());
}

}  // namespace kilim::inline v1
