// SPDX-License-Identifier: BSD-3-Clause
// What the Ethernet segment of a send WQE says, and the data behind it. Adapter's lock held. Never
// allocates; a WQE is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/ethernet/eth_ask.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::ethernet {

struct EthForm {
  std::span<const std::byte> head;  // of the frame, as it lies in the WQE
  EthAsk ask;
  uint16_t mss = 0;
  uint32_t tag = 0;  // type and TCI of a VLAN tag to put in; 0: none
  wq::DataList data;
};
// False: it cannot be read, or asks for what the profile does not offer.
bool read_form(const wq::EngineContext&, const wq::SendWqe&, EthForm&) noexcept;
// Whether the frame's beginning is in the WQE, where the profile wants it there.
bool has_beginning(const Profile&, const EthForm&) noexcept;

}  // namespace kilim::vhca::ethernet
