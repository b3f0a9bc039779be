// SPDX-License-Identifier: BSD-3-Clause
// What a burst does besides moving packets. A template argument: each configuration is compiled to
// a function of its own, and a queue's function is chosen once, when it starts (burst/select.hh).
// At most three bits for a direction; a fourth needs a benchmark and a decision record
// (doc/decisions/0006). Pure values, any thread.
#pragma once

#include <cstdint>

namespace kilim::burst {

struct RxConfig {
  bool side = false;       // write the side record: hash, packet type, checksums
  bool vlan = false;       // and the stripped VLAN tag in it
  bool timestamp = false;  // and the time of arrival
  friend constexpr bool operator==(RxConfig, RxConfig) noexcept = default;
};
inline constexpr uint32_t rx_configs = 8;
// A configuration's number, 0 to rx_configs - 1, and the configuration of a number.
constexpr uint32_t number_of(RxConfig c) noexcept {
  return (c.side ? 1u : 0u) | (c.vlan ? 2u : 0u) | (c.timestamp ? 4u : 0u);
}
constexpr RxConfig rx_config(uint32_t number) noexcept {
  return {.side = (number & 1) != 0, .vlan = (number & 2) != 0, .timestamp = (number & 4) != 0};
}

struct TxConfig {
  bool multi_seg = false;  // packets of several handles (Handle::more)
  bool gathered = false;   // packets headed by a key (Handle::key)
  friend constexpr bool operator==(TxConfig, TxConfig) noexcept = default;
};
inline constexpr uint32_t tx_configs = 4;
// The same for transmit: 0 to tx_configs - 1.
constexpr uint32_t number_of(TxConfig c) noexcept {
  return (c.multi_seg ? 1u : 0u) | (c.gathered ? 2u : 0u);
}
constexpr TxConfig tx_config(uint32_t number) noexcept {
  return {.multi_seg = (number & 1) != 0, .gathered = (number & 2) != 0};
}

}  // namespace kilim::burst
