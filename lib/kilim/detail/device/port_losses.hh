// SPDX-License-Identifier: BSD-3-Clause
// Frames that a port lost where no queue counts them, by cause, under the names that mlx5 drivers
// give them in `ethtool -S` (Linux, Documentation/networking/device_drivers/ethernet/mellanox/
// mlx5/counters.rst). A virtual device has a file of each name in hw_counters/ of its port.
// Pure values, any thread. A cause that the device does not report is "not reported", never 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace kilim::inline v1::device {

enum class PortLoss : uint8_t {
  rx_discards,      // no room in front of the adapter
  rx_damaged,       // a frame that is not whole
  rx_undersize,     // a frame that is shorter than an Ethernet header
  rx_oversize,      // a frame that is longer than the port's MTU
  rx_steer_missed,  // no flow rule took the frame
  rx_down,          // the queue of the frame was not ready
  rx_cut,           // not lost: a capture holds only the beginning of the frame
  rx_returned,      // not lost: a capture's frame went back to it with its queue, unread
  tx_discards,      // taken from a queue and not sent
};
inline constexpr std::size_t port_losses = 9;

// The names with "records" are the virtual device's own: cards replay no captures.
inline constexpr std::array<const char*, port_losses> port_loss_names{
    "rx_discards_phy",      "rx_crc_errors_phy",       "rx_undersize_pkts_phy",
    "rx_oversize_pkts_phy", "rx_steer_missed_packets", "rx_if_down_packets",
    "rx_cut_records",       "rx_returned_records",     "tx_discards_phy",
};

// One reading, since the device was registered.
struct PortLosses {
  std::array<std::optional<uint64_t>, port_losses> values{};

  [[nodiscard]] std::optional<uint64_t>& of(PortLoss l) noexcept {
    return values[static_cast<std::size_t>(l)];
  }
  [[nodiscard]] const std::optional<uint64_t>& of(PortLoss l) const noexcept {
    return values[static_cast<std::size_t>(l)];
  }
};

}  // namespace kilim::inline v1::device
