// SPDX-License-Identifier: BSD-3-Clause
// One frame of a send WQE on its way out: gathered, its checksums computed, given to the wire and
// to queues of other clients on the same port. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/ethernet/eth_ask.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::ethernet {

// Where the bytes of a frame are: its beginning in the WQE, the rest behind keys or inline.
struct FrameParts {
  std::span<const std::byte> head;
  std::span<const tpt::Segment> segments;
  uint64_t segment_bytes = 0;
  EthAsk ask;
  uint32_t tag = 0;  // type and TCI of a VLAN tag to put in; 0: none
  // Of the frame as it leaves.
  [[nodiscard]] uint64_t bytes() const noexcept {
    return head.size() + segment_bytes + (tag != 0 ? sizeof(tag) : 0);
  }
};

// Again::wire: there is no room, and nothing has happened. A frame that this wire does not carry is
// counted and dropped.
Verdict send_frame(EthState&, wq::Qp&, const FrameParts&) noexcept;

// The frame as the rules of what leaves make it, valid until the next one; empty: they drop it, and
// have counted that.
std::span<const std::byte> eth_leave(EthState&, EthPort&, const wq::Qp& from,
                                     std::span<const std::byte> frame) noexcept;

// Lengths and sums of the headers that were put in front of a frame, its first `head` bytes.
void finish_headers(std::span<std::byte> frame, std::size_t head) noexcept;

// Those that are asked for. Of a packet in a tunnel the inner headers' too, from the inside out,
// since the outer checksum of UDP covers them. Places of headers (software parser) are looked at
// only where the parser finds no tunnel: since ConnectX-5 it completes the hardware's (DPDK
// mlx5_tx.h, txq_mbuf_to_swp()).
void write_checksums(std::span<std::byte> frame, EthAsk ask) noexcept;

// What the queue's WQEs may ask: without a software parser its fields are reserved.
inline EthAsk asked_by(const wq::Qp& qp, EthAsk ask) noexcept {
  return qp.spec.software_parser ? ask : ask.without_places();
}

// What a queue of the port may send.
std::size_t longest_frame(const EthState&, const EthPort&) noexcept;

inline Verdict refuse_packet(prm::Syndrome s, uint8_t cause = hardware::unknown) noexcept {
  return {s, cause, "raw packet refused"};
}

}  // namespace kilim::vhca::ethernet
