// SPDX-License-Identifier: BSD-3-Clause
// PRM: "LRO", of a TIR. Segments of one TCP stream that follow each other are received as one frame
// with the first one's headers. They are kept here until they are delivered: with PSH, at the
// longest size, behind the TIR's time, or before a frame of the stream that does not follow. Owner:
// the adapter; its lock held. Frames are untrusted. Allocates where a TIR is made only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vhca/ethernet/state.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::ethernet {

struct LargeReceive {
  const wq::Qp* to = nullptr;  // what stands for the TIR; null: it is free
  uint32_t tag = 0;
  uint32_t port = 0;
  uint64_t due_ns = 0;
  wire::PacketView view;         // of the first segment's headers
  std::vector<std::byte> bytes;  // room for the longest
  uint32_t used = 0;
  uint32_t segments = 0;
  uint64_t wire_bytes = 0;  // of the frames as they came
  uint32_t next_seq = 0;
  uint8_t min_ttl = 0;
  bool push = false;
  uint32_t last_ack = 0;
  uint16_t last_window = 0;
};

struct LargeReceives {
  static constexpr std::size_t places = 8, longest = 65535;
  std::array<LargeReceive, places> open;
  uint32_t count = 0;  // of those that are not free
};

// A TIR that joins segments has been made.
void eth_use_large(EthState&);
// Whether the frame was taken to be joined. False: it is delivered as it is, behind what was kept
// of its stream, which has been delivered.
bool eth_join(EthState&, uint32_t port, FlowTarget to, std::span<const std::byte> frame) noexcept;
// Delivers what is due; all that is kept for a TIR that goes away or changes.
void eth_deliver_due(EthState&) noexcept;
void eth_deliver_kept(EthState&, const wq::Qp& to) noexcept;

}  // namespace kilim::vhca::ethernet
