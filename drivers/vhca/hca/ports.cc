// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Frames are untrusted.
#include "vhca/hca/ports.hh"

#include "vhca/core/journal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca {

namespace {

// One frame; false: none there, or it waits.
bool handle_frame(HcaState& h, Wire& wire, uint32_t number) noexcept {
  std::span<const std::byte> frame = wire.peek();
  if (frame.empty()) return false;
  if (h.context.dead) {
    h.context.journal->frame_drop(number, static_cast<uint32_t>(frame.size()),
                                  "the adapter is dead");
    wire.drop();
    return true;
  }
  if (!roce_handle_frame(h.roce, number, frame)) return eth_handle_frame(h.eth, number, frame);
  wire.drop();
  return true;
}

}  // namespace

std::size_t poll_ports(HcaState& h, std::size_t budget) noexcept {
  std::size_t taken = 0;
  uint32_t number = 0;
  for (EthPort& port : h.eth.ports) {
    ++number;
    if (port.wire == nullptr) continue;
    if (port.wire->is_recording() && port.steering.count() == 0) continue;
    while (taken < budget && handle_frame(h, *port.wire, number)) ++taken;
  }
  return taken;
}

}  // namespace kilim::vhca
