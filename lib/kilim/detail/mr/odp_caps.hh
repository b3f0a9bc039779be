// SPDX-License-Identifier: BSD-3-Clause
// A device's capabilities for on-demand paging (ODP): in general, and by transport and operation.
// Pure values, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::mr {

// In the order of the documents' per_transport_caps.
enum class OdpTransport : uint8_t { rc, uc, ud, dc, xrc, raw_ethernet };
inline constexpr std::size_t odp_transports = 6;

// In the bits of ibv_odp_transport_cap_bits.
struct OdpOperation {
  static constexpr uint32_t send = 1u << 0;
  static constexpr uint32_t recv = 1u << 1;
  static constexpr uint32_t write = 1u << 2;
  static constexpr uint32_t read = 1u << 3;
  static constexpr uint32_t atomic = 1u << 4;
  static constexpr uint32_t srq_recv = 1u << 5;
};
inline constexpr std::size_t odp_operations = 6;

// ibv_query_device_ex(3), odp_caps; DC: mlx5dv_query_device(3).
struct OdpCaps {
  bool supported = false;  // IBV_ODP_SUPPORT
  bool implicit = false;   // IBV_ODP_SUPPORT_IMPLICIT: regions over the whole address space
  // OdpOperation bits by transport; nullopt: not reported, as always for raw Ethernet.
  std::array<std::optional<uint32_t>, odp_transports> operations{};

  [[nodiscard]] const std::optional<uint32_t>& of(OdpTransport t) const noexcept {
    return operations[static_cast<std::size_t>(t)];
  }
};

// What on-demand memory is going to be used for.
struct OdpUse {
  OdpTransport transport = OdpTransport::rc;
  uint32_t operations = 0;  // OdpOperation bits
};

// EOPNOTSUPP with a sentence that names the first missing capability: first the general ones, then
// those of `uses` in order. A capability that is not reported counts as missing.
Status odp_refusal(const OdpCaps& caps, bool implicit, std::span<const OdpUse> uses);

// A table for people: a line of general capabilities, then a row for each transport.
std::string odp_table(const OdpCaps& caps);

}  // namespace kilim::inline v1::mr
