// SPDX-License-Identifier: BSD-3-Clause
// One frame of a send WQE on its way out: gathered, its checksums computed, given to the wire and
// to queues of other clients on the same port. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/ethernet/state.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca {

// Where the bytes of a frame are: its beginning in the WQE, the rest behind keys or inline.
struct FrameParts {
  std::span<const std::byte> head;
  std::span<const Segment> segments;
  uint64_t segment_bytes = 0;
  uint8_t cs_flags = 0;  // prm::eth::l3_csum, l4_csum
  uint32_t tag = 0;      // type and TCI of a VLAN tag to put in; 0: none
  // Of the frame as it leaves.
  [[nodiscard]] uint64_t bytes() const noexcept {
    return head.size() + segment_bytes + (tag != 0 ? sizeof(tag) : 0);
  }
};

// Again::wire: there is no room, and nothing has happened. A frame that this wire does not carry is
// counted and dropped.
Verdict send_frame(EthState&, Qp&, const FrameParts&) noexcept;

// Those that `cs_flags` ask for.
void write_checksums(std::span<std::byte> frame, uint8_t cs_flags) noexcept;

// What a queue of the port may send.
std::size_t longest_frame(const EthState&, const EthPort&) noexcept;

inline Verdict refuse_packet(prm::Syndrome s) noexcept {
  return {s, "raw packet refused"};
}

}  // namespace kilim::vhca
