// SPDX-License-Identifier: BSD-3-Clause
// SEND on a raw packet queue: control segment, Ethernet segment, data segments. No header is
// inlined, as ConnectX-5 and later do not require it; queue/eth_packet.hh does. Each function
// appends one WQE at a cursor or returns a refusal and appends nothing. Owner: the queue's worker.
// Never allocates, blocks or logs.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/queue/piece_check.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::queue {

// Checksums that the device computes and writes into the frame: of the IP header (l3), of TCP or
// UDP (l4). Of a packet in a tunnel: of the outer IP header (l3), of the inner ones. Combined by |.
struct EthOffload {
  static constexpr uint8_t none = 0;
  static constexpr uint8_t l3 = prm::eth::l3_csum;
  static constexpr uint8_t l4 = prm::eth::l4_csum;
  static constexpr uint8_t inner_l3 = prm::eth::l3_inner_csum;
  static constexpr uint8_t inner_l4 = prm::eth::l4_inner_csum;
};

// The longest length that a segment can express; a port's MTU is far smaller.
inline constexpr uint32_t max_frame = prm::max_segment_bytes - 1;

// Writes an Ethernet segment of 16 bytes that asks for nothing but these checksums.
inline void store_eth(std::byte* dst, uint8_t offload) noexcept {
  const be64 words[2] = {be64{uint64_t{offload} << 24}, be64{0}};
  std::memcpy(dst, words, sizeof words);
}

// Appends a SEND of a frame in one piece. Refused: empty_piece, long_piece, long_message, no_room.
[[gnu::always_inline]] inline Outcome eth_send(WqeCursor& c, const Sge& frame, uint8_t offload,
                                               const Wr& wr) noexcept {
  if (!c.fits(1)) return detail::no_room(c, 1);
  if (frame.length - 1 >= max_frame) [[unlikely]]
    return detail::refuse_piece(frame.length, max_frame);
  std::byte* wqe = c.line(0);
  c.control(prm::Opcode::send, Octowords{3}, wr.flags, 0);
  store_eth(wqe + 16, offload);
  store_pointer(wqe + 32, frame.address, frame.length, frame.key);
  c.advance(1, wr.id);
  return {};
}

// Sends a frame in several pieces, not all of them empty. Refused: also many_pieces.
inline Outcome eth_send(WqeCursor& c, std::span<const Sge> frame, uint8_t offload,
                        const Wr& wr) noexcept {
  if (const Outcome a = detail::room_for(c, 2, frame.size()); !a) return a;
  uint32_t ds = 2;
  if (const Outcome a = detail::store_pieces(c, ds, frame, max_frame); !a) return a;
  if (ds == 2) [[unlikely]]
    return detail::refuse_piece(0, max_frame);
  c.control(prm::Opcode::send, Octowords{ds}, wr.flags, 0);
  store_eth(c.segment(1), offload);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return {};
}

}  // namespace kilim::inline v1::queue
