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
// The configuration of a number, 0 to rx_configs - 1.
constexpr RxConfig rx_config(uint32_t number) noexcept {
  return {.side = (number & 1) != 0, .vlan = (number & 2) != 0, .timestamp = (number & 4) != 0};
}

struct TxConfig {
  bool multi_seg = false;  // packets of several handles (Handle::more)
  bool gathered = false;   // packets headed by a key (Handle::key)
  bool multi_packet =
      false;  // several packets a WQE, where the device has it; without the other two
  // Header buffers have a pool of their own and go back there. No bit for all configurations, but
  // two rows more: with multi_seg only (doc/decisions/0035).
  bool two_pools = false;
  friend constexpr bool operator==(TxConfig, TxConfig) noexcept = default;
};
inline constexpr uint32_t tx_configs = 8;
// The same for transmit: 0 to tx_configs - 1.
constexpr TxConfig tx_config(uint32_t number) noexcept {
  return {.multi_seg = (number & 1) != 0,
          .gathered = (number & 2) != 0,
          .multi_packet = (number & 4) != 0,
          .two_pools = false};
}

}  // namespace kilim::burst
