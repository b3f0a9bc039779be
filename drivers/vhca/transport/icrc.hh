// SPDX-License-Identifier: BSD-3-Clause
// The invariant CRC of a RoCEv2 packet: what routers may change on the way counts as ones
// (InfiniBand Architecture Specification, annex A17). Pure, any thread; never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/wire/packet.hh"

namespace kilim::vhca::transport {

inline constexpr std::size_t icrc_bytes = 4;

// Of the packet that `view` found in `frame`: IP header, UDP, and the rest up to the ICRC's own
// place at the end. The view is of a UDP packet with a base transport header and an ICRC at least.
uint32_t icrc_of(std::span<const std::byte> frame, const wire::PacketView& view) noexcept;
// Writes it, and says whether it is right.
void write_icrc(std::span<std::byte> frame, const wire::PacketView& view) noexcept;
bool icrc_good(std::span<const std::byte> frame, const wire::PacketView& view) noexcept;

}  // namespace kilim::vhca::transport
