// SPDX-License-Identifier: BSD-3-Clause
// Finds the burst function of a configuration. Called once, when a queue starts; from then on a
// burst costs one indirect call and no test of the configuration. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/burst/config.hh"
#include "kilim/burst/rx.hh"
#include "kilim/burst/tx.hh"

namespace kilim::burst {

using RxBurst = uint32_t (*)(RxQueue&, std::span<pool::Handle>) noexcept;
using TxBurst = uint32_t (*)(TxQueue&, std::span<const pool::Handle>) noexcept;
using TxReclaim = uint32_t (*)(TxQueue&) noexcept;

namespace detail {
template <std::size_t... I>
constexpr std::array<RxBurst, sizeof...(I)> rx_table(std::index_sequence<I...>) {
  return {&rx_burst<rx_config(I)>...};
}
template <std::size_t... I>
constexpr std::array<TxBurst, sizeof...(I)> tx_table(std::index_sequence<I...>) {
  return {&tx_burst<tx_config(I)>...};
}
template <std::size_t... I>
constexpr std::array<TxReclaim, sizeof...(I)> reclaim_table(std::index_sequence<I...>) {
  return {&tx_reclaim<tx_config(I)>...};
}
inline constexpr auto rx_bursts = rx_table(std::make_index_sequence<rx_configs>{});
inline constexpr auto tx_bursts = tx_table(std::make_index_sequence<tx_configs>{});
inline constexpr auto reclaims = reclaim_table(std::make_index_sequence<tx_configs>{});
}  // namespace detail

// The instances of rx_burst(), tx_burst() and tx_reclaim() for a configuration.
constexpr RxBurst select_rx(RxConfig c) noexcept {
  return detail::rx_bursts[number_of(c)];
}
constexpr TxBurst select_tx(TxConfig c) noexcept {
  return detail::tx_bursts[number_of(c)];
}
constexpr TxReclaim select_reclaim(TxConfig c) noexcept {
  return detail::reclaims[number_of(c)];
}

static_assert(select_rx({.side = true}) == &rx_burst<RxConfig{.side = true}>);
static_assert(select_tx({.gathered = true}) == &tx_burst<TxConfig{.gathered = true}>);
static_assert(select_tx({.multi_seg = true}) == &tx_burst<TxConfig{.multi_seg = true}>);

}  // namespace kilim::burst
