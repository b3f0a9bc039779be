// SPDX-License-Identifier: BSD-3-Clause
// Ident: numbers that the hardware assigns, each a type of its own: an lkey is not an rkey, a QPN
// is not a CQN. Pure values, any thread, without run-time cost.
#pragma once

#include <compare>
#include <cstdint>

namespace kilim {

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

}  // namespace kilim
