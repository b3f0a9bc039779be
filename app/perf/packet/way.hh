// SPDX-License-Identifier: BSD-3-Clause
// Way: how packets are forwarded, on Kilim's side and by the floor loop alike. Pure values.
#pragma once

#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/simd.hh"

namespace kilim::perf {

struct Way {
  burst::Simd simd = burst::Simd::base;
  bool multi_packet = false;  // several packets a send WQE
  burst::RxConfig received{.side = true};
  bool mac = false;  // both Ethernet addresses are written
  // By a queue of which packets may ask for something, and what each asks for.
  enum class Words : uint8_t { none, unasked, checksums, tag };
  Words words = Words::none;
};

namespace ways {
constexpr Way with_mac(Way w) noexcept {
  w.mac = true;
  return w;
}
// With VLAN tag and time of arrival in the side record.
constexpr Way with_words(Way w, Way::Words words) noexcept {
  w.words = words;
  return w;
}
constexpr Way with_all(Way w) noexcept {
  w.received = {.side = true, .vlan = true, .timestamp = true};
  return w;
}
inline constexpr Way sse{}, sse_mpw{.multi_packet = true};
inline constexpr Way avx2{.simd = burst::Simd::avx2};
inline constexpr Way avx2_mpw{.simd = burst::Simd::avx2, .multi_packet = true};
inline constexpr Way sse_mac = with_mac(sse), sse_all = with_all(sse);
inline constexpr Way avx2_mac = with_mac(avx2), avx2_mpw_mac = with_mac(avx2_mpw);
inline constexpr Way avx2_unasked = with_words(avx2_mpw, Way::Words::unasked);
inline constexpr Way avx2_sums = with_words(avx2_mpw, Way::Words::checksums);
inline constexpr Way avx2_tags = with_words(avx2_mpw, Way::Words::tag);
inline constexpr Way avx2_all = with_all(avx2_mpw);
}  // namespace ways

}  // namespace kilim::perf
