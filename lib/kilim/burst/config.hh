// SPDX-License-Identifier: BSD-3-Clause
// What a burst does besides moving packets. A template argument: each configuration is compiled to
// a function of its own, and a queue's function is chosen once, when it starts (burst/select.hh).
// Receive has three bits, every combination of which is compiled; transmit has rows, as many
// (doc/decisions/0006, 0031): a ninth of either needs a benchmark and a decision record. Pure
// values, any thread.
#pragma once

#include <array>
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
  bool multi_seg = false;     // packets of several handles (Handle::more)
  bool gathered = false;      // packets headed by a key (Handle::key)
  bool multi_packet = false;  // several packets a WQE, where the device has it
  bool offloads = false;      // what a packet's word asks for (Handle::offload), inlined headers
  bool two_pools = false;     // header buffers have a pool of their own and go back there
  friend constexpr bool operator==(TxConfig, TxConfig) noexcept = default;
};

// Those that are compiled (doc/decisions/0031). A packet of several pieces or with a key has a WQE
// of its own, so that multi_packet excludes these two; a key has no first bytes that could be
// inlined; packets of two pools have several pieces.
inline constexpr std::array tx_rows{
    TxConfig{},
    TxConfig{.multi_seg = true},
    TxConfig{.gathered = true},
    TxConfig{.multi_seg = true, .gathered = true},
    TxConfig{.multi_packet = true},
    TxConfig{.offloads = true},
    TxConfig{.multi_seg = true, .offloads = true},
    TxConfig{.multi_packet = true, .offloads = true},
    TxConfig{.multi_seg = true, .two_pools = true},
    TxConfig{.multi_seg = true, .gathered = true, .two_pools = true},
    TxConfig{.multi_seg = true, .offloads = true, .two_pools = true},
};
inline constexpr auto tx_configs = static_cast<uint32_t>(tx_rows.size());
// The configuration of a number, 0 to tx_configs - 1.
constexpr TxConfig tx_config(uint32_t number) noexcept {
  return tx_rows[number];
}
// True: bursts of this configuration exist.
constexpr bool has_bursts(TxConfig c) noexcept {
  for (const TxConfig& row : tx_rows)
    if (row == c) return true;
  return false;
}

}  // namespace kilim::burst
