// SPDX-License-Identifier: BSD-3-Clause
// What a burst does besides moving packets. A template argument: each configuration is compiled to
// a function of its own, and a queue's function is chosen once, when it starts (burst/select.hh).
// Both directions have rows (doc/decisions/0062, 0031): a further one needs a benchmark and
// a decision record. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

namespace kilim::inline v1::burst {

struct RxConfig {
  bool side = false;       // write the side record: hash, packet type, checksums
  bool vlan = false;       // and the stripped VLAN tag in it
  bool timestamp = false;  // and the time of arrival
  bool mark = false;       // and the mark of a flow rule
  bool tunnel = false;     // and packet types of the headers inside VXLAN and GRE
  bool lro = false;        // the device joins TCP segments: mend their headers, say their size
  friend constexpr bool operator==(RxConfig, RxConfig) noexcept = default;
};

// The configurations that are compiled. A request is served by the first row that has all of it
// (doc/decisions/0062); a row that tells more than was asked costs some instructions.
inline constexpr std::array rx_rows{
    RxConfig{},
    RxConfig{.side = true},
    RxConfig{.side = true, .vlan = true},
    RxConfig{.side = true, .timestamp = true},
    RxConfig{.side = true, .vlan = true, .timestamp = true},
    RxConfig{.side = true, .mark = true},
    RxConfig{.side = true, .tunnel = true},
    RxConfig{.side = true, .vlan = true, .timestamp = true, .mark = true},
    RxConfig{.side = true, .vlan = true, .timestamp = true, .mark = true, .tunnel = true},
    RxConfig{
        .side = true, .vlan = true, .timestamp = true, .mark = true, .tunnel = true, .lro = true},
};
inline constexpr auto rx_configs = static_cast<uint32_t>(rx_rows.size());
// The configuration of a number, 0 to rx_configs - 1.
constexpr RxConfig rx_config(uint32_t number) noexcept {
  return rx_rows[number];
}
// The row that serves a configuration. Without side records there is nothing to be asked for.
constexpr RxConfig serving(RxConfig c) noexcept {
  if (!c.side) return {};
  for (const RxConfig& r : rx_rows)
    if (r.side && r.vlan >= c.vlan && r.timestamp >= c.timestamp && r.mark >= c.mark &&
        r.tunnel >= c.tunnel && r.lro >= c.lro)
      return r;
  return rx_rows.back();  // never: it has everything
}
static_assert(serving({.side = true, .vlan = true}) == RxConfig{.side = true, .vlan = true});
static_assert(serving({.side = true, .timestamp = true, .lro = true}) == rx_rows.back());

struct TxConfig {
  bool multi_seg = false;     // packets of several handles (Handle::more)
  bool gathered = false;      // packets headed by a key (Handle::key)
  bool multi_packet = false;  // several packets a WQE, where the device has it
  bool offloads = false;      // what a packet's word asks for (Handle::offload), inlined headers
  bool two_pools = false;     // header buffers have a pool of their own and go back there
  friend constexpr bool operator==(TxConfig, TxConfig) noexcept = default;
};

// The configurations that are compiled (doc/decisions/0031). A packet of several pieces or with a
// key has a WQE of its own, so that multi_packet excludes these two; a key has no first bytes that
// could be inlined; packets of two pools have several pieces.
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

}  // namespace kilim::inline v1::burst
