// SPDX-License-Identifier: BSD-3-Clause
// Queue pair 1 of a port, the general services interface (IBTA 3.9.4, 13.5.1): a datagram for it
// goes to the port's client, who is above, and the client's datagrams go out from it. Owner: the
// adapter; its lock held. Never allocates. Packets are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

inline constexpr uint32_t gsi_qpn = 1;
inline constexpr uint32_t gsi_qkey = 0x80010000;  // IB_QP1_QKEY
inline constexpr std::size_t gsi_bytes = 256;     // of each datagram of management

class GsiClient {
 public:
  virtual ~GsiClient() = default;
  // A datagram of gsi_bytes with the right key; good until it returns.
  virtual void receive(const RocePacket&) noexcept = 0;
};

// Of a port, numbered from 1; null: nobody any more. Allocates.
void set_gsi_client(RoceLink&, uint32_t port, GsiClient*);
// A datagram to queue pair 1. False: nobody is there to take it.
bool handle_gsi(RoceLink&, uint32_t port, const RocePacket&) noexcept;
// False: the wire is full. A port without a wire loses it.
bool send_gsi(RoceLink&, uint32_t port, const RocePath&, std::span<const std::byte> mad) noexcept;

}  // namespace kilim::vhca::transport
