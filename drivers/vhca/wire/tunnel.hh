// SPDX-License-Identifier: BSD-3-Clause
// What lies in a tunnel: VXLAN (RFC 7348), GRE (RFC 2784, 2890, 2637; NVGRE, RFC 7637), GENEVE
// behind the outer headers of a frame, as the parser of a card knows them. Frames are untrusted:
// every offset lies inside the frame. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/wire/packet.hh"

namespace kilim::vhca::wire {

enum class TunnelKind : uint8_t { none, vxlan, gre, geneve };

// A card knows VXLAN by this port (Linux drivers/net/ethernet/mellanox/mlx5/core/lib/vxlan.c,
// mlx5_vxlan_create(): the firmware has it without being asked).
inline constexpr uint16_t vxlan_port = 4789;

struct TunnelView {
  TunnelKind kind = TunnelKind::none;
  bool has_ether = false;     // an Ethernet frame lies in it, else an IP packet
  uint16_t gre_flags = 0;     // GRE: the first two bytes
  uint16_t gre_protocol = 0;  // GRE: the type of what follows
  uint32_t id = 0;            // VXLAN, GENEVE: the VNI; GRE: the key, or 0
  uint32_t inner_at = 0;      // where the inner frame or packet begins
  PacketView inner;           // offsets count from the outer frame's first byte
};
// `outer` is parse_packet() of the frame. A fragment of a tunnel's packet is no tunnel.
TunnelView parse_tunnel(std::span<const std::byte> frame, const PacketView& outer) noexcept;
// It finds GENEVE (RFC 8926) too, which steering entries take off (rdma-core tests/test_mlx5_dr.py,
// test_packet_reformat_l2_geneve()), while sums, hashes and rules do not look into it: the adapter
// has no tunnel_stateless_geneve_rx.
TunnelView parse_removable(std::span<const std::byte> frame, const PacketView& outer) noexcept;

}  // namespace kilim::vhca::wire
