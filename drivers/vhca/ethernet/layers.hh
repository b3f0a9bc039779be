// SPDX-License-Identifier: BSD-3-Clause
// Where the outer and the inner headers of a packet lie that is sent: as the parser finds them, or
// as the WQE says (software parser). Pure, any thread; frames and WQEs are untrusted.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/ethernet/eth_ask.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::ethernet {

wire::PacketView find_outer(std::span<const std::byte> frame, EthAsk ask) noexcept;
// Without a tunnel there are none (L3::none). `outer` is find_outer() of the frame.
wire::PacketView find_inner(std::span<const std::byte> frame, const wire::PacketView& outer,
                            EthAsk ask) noexcept;

}  // namespace kilim::vhca::ethernet
