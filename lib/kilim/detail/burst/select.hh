// SPDX-License-Identifier: BSD-3-Clause
// The burst functions that were compiled, one row for each configuration and kind of vectors, and
// the choice among them. Made once, when a queue starts; from then on a burst costs one indirect
// call and no test of the configuration. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/rx.hh"
#include "kilim/detail/burst/rx_chain.hh"
#include "kilim/detail/burst/rx_compressed.hh"
#include "kilim/detail/burst/rx_strides.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/burst/tx.hh"

namespace kilim::inline v1::burst {

using RxBurst = uint32_t (*)(RxQueue&, std::span<pool::Handle>) noexcept;
using TxBurst = uint32_t (*)(TxQueue&, std::span<const pool::Handle>) noexcept;
using TxReclaim = uint32_t (*)(TxQueue&) noexcept;

// A burst function compiled for one configuration and one kind of vectors.
struct RxVariant {
  Simd needs;
  RxConfig config;
  RxBurst burst;
};
struct TxVariant {
  Simd needs;
  TxConfig config;
  TxBurst burst;
  TxReclaim reclaim;
};

namespace detail {
template <std::size_t... I>
constexpr auto rx_table(std::index_sequence<I...>) {
  return std::array {
#if defined(__SSE4_1__)
    RxVariant{Simd::avx2, rx_config(I), &rx_burst_avx2<rx_config(I)>}...,
#endif
        RxVariant{Simd::base, rx_config(I), &rx_burst<rx_config(I)>}...
  };
}
template <std::size_t... I>
constexpr auto compressed_table(std::index_sequence<I...>) {
  return std::array {
#if defined(__SSE4_1__)
    RxVariant{Simd::avx2, rx_config(I), &rx_burst_compressed_avx2<rx_config(I)>}...,
#endif
        RxVariant{Simd::base, rx_config(I), &rx_burst_compressed<rx_config(I)>}...
  };
}
template <std::size_t... I>
constexpr auto strides_table(std::index_sequence<I...>) {
  return std::array{RxVariant{Simd::base, rx_config(I), &rx_burst_strides<rx_config(I)>}...};
}
template <std::size_t... I>
constexpr auto tx_table(std::index_sequence<I...>) {
  return std::array {
#if defined(__SSE4_1__)
    TxVariant{Simd::avx2, tx_config(I), &tx_burst_avx2<tx_config(I)>, &tx_reclaim<tx_config(I)>}...,
#endif
        TxVariant{Simd::base, tx_config(I), &tx_burst<tx_config(I)>, &tx_reclaim<tx_config(I)>}...
  };
}
template <std::size_t... I>
constexpr auto chains(std::index_sequence<I...>) {
  return std::array{RxVariant{Simd::base, rx_config(I), &rx_burst_chain<rx_config(I)>}...};
}
}  // namespace detail

// All of them; of those with one configuration the best comes first.
inline constexpr auto rx_variants = detail::rx_table(std::make_index_sequence<rx_configs>{});
// Functions for queues whose completions are compressed.
inline constexpr auto compressed_rx_variants =
    detail::compressed_table(std::make_index_sequence<rx_configs>{});
// Functions for queues whose buffers hold several packets.
inline constexpr auto strided_rx_variants =
    detail::strides_table(std::make_index_sequence<rx_configs>{});
inline constexpr auto tx_variants = detail::tx_table(std::make_index_sequence<tx_configs>{});
// Functions for queues with several buffers a receive; without vectors.
inline constexpr auto rx_chain_variants = detail::chains(std::make_index_sequence<rx_configs>{});
static_assert(max_rx_segments <= max_pieces, "what is received can be sent");

namespace detail {
template <std::size_t n>
constexpr const RxVariant& best(const std::array<RxVariant, n>& table, RxConfig c,
                                Simd have) noexcept {
  for (const RxVariant& v : table)
    if (v.config == serving(c) && v.needs <= have) return v;
  return table.back();  // never: the base has all rows
}
}  // namespace detail

// The best variant that serves a configuration and needs no more than `have` (widest_simd()). One
// of transmit is in tx_rows.
constexpr const RxVariant& select_rx(RxConfig c, Simd have) noexcept {
  return detail::best(rx_variants, c, have);
}
constexpr const RxVariant& select_rx_chain(RxConfig c) noexcept {
  return detail::best(rx_chain_variants, c, Simd::base);
}
constexpr const RxVariant& select_compressed_rx(RxConfig c, Simd have) noexcept {
  return detail::best(compressed_rx_variants, c, have);
}
constexpr const RxVariant& select_strided_rx(RxConfig c) noexcept {
  return detail::best(strided_rx_variants, c, Simd::base);
}
constexpr const TxVariant& select_tx(TxConfig c, Simd have) noexcept {
  for (const TxVariant& v : tx_variants)
    if (v.config == c && v.needs <= have) return v;
  KILIM_ASSERT(has_bursts(c));
  return tx_variants.back();
}

static_assert(select_rx({.side = true}, Simd::base).burst == &rx_burst<RxConfig{.side = true}>);
static_assert(select_compressed_rx({.side = true, .vlan = true}, Simd::base).burst ==
              &rx_burst_compressed<RxConfig{.side = true, .vlan = true}>);
static_assert(select_strided_rx({.side = true, .mark = true}).burst ==
              &rx_burst_strides<RxConfig{.side = true, .mark = true}>);
static_assert(select_tx({.gathered = true}, Simd::base).burst ==
              &tx_burst<TxConfig{.gathered = true}>);
static_assert(select_tx({.multi_seg = true}, Simd::base).reclaim ==
              &tx_reclaim<TxConfig{.multi_seg = true}>);
static_assert(select_tx({.multi_seg = true, .two_pools = true}, Simd::base).reclaim ==
              &tx_reclaim<TxConfig{.multi_seg = true, .two_pools = true}>);
static_assert(select_rx_chain({.side = true, .vlan = true}).burst ==
              &rx_burst_chain<RxConfig{.side = true, .vlan = true}>);

}  // namespace kilim::inline v1::burst
