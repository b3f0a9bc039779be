// SPDX-License-Identifier: BSD-3-Clause
// Packets that the device changes on their way out: SEND with a VLAN tag, with the frame's start in
// the WQE, and TSO. PRM: "Send WQE Format for Ethernet", "Large Send Offload". Each function
// appends one WQE at a cursor or returns a refusal and appends nothing. Owner: the queue's worker.
// Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/piece_check.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::queue {

inline constexpr uint32_t ether_header_bytes = 14;
inline constexpr uint32_t vlan_tag_bytes = 4;
// Bytes of a frame's start that the longest WQE can hold: two in the Ethernet segment, the rest
// behind it.
inline constexpr uint32_t max_inlined = 2 + (prm::max_ds - 2) * octoword_bytes;
static_assert(max_inlined < 1u << 10);  // inline_hdr_sz has ten bits

// Type (31:16) and TCI of a VLAN tag.
constexpr uint32_t customer_tag(uint16_t tci) noexcept {
  return uint32_t{0x8100} << 16 | tci;
}
constexpr uint32_t service_tag(uint16_t tci) noexcept {
  return uint32_t{0x88a8} << 16 | tci;
}

// What the Ethernet segment says.
struct EthHead {
  uint8_t checksums = EthOffload::none;
  uint16_t mss = 0;  // not 0: TSO, bytes of payload in each frame
  uint32_t tag = 0;  // a VLAN tag to put in, 0: none
  // The frame's start, which lies in the WQE and not in the pieces: at least 14 bytes, or none. Of
  // a packet for TSO all its headers. A tag is written among them; without it the device puts it
  // in (Caps::tx.vlan_insertion).
  std::span<const std::byte> bytes{};
};

// Octowords before the data segments of a WQE with so many bytes inlined. Two of these lie in the
// Ethernet segment.
constexpr uint32_t heads_with(std::size_t inlined) noexcept {
  return inlined <= 2 ? 2 : 2 + static_cast<uint32_t>((inlined - 2 + 15) / 16);
}

namespace detail {

// What is inlined behind the first two bytes. The octowords wrap with the ring; what remains of the
// last one is zeroed. A tag fills up the first one exactly (DPDK mlx5_tx.h, mlx5_tx_eseg_dmin()).
inline void store_header(const WqeCursor& c, const EthHead& head) noexcept {
  const std::byte* from = head.bytes.data() + 2;
  std::size_t left = head.bytes.size() - 2;
  uint32_t at = 2;
  if (head.tag != 0) {
    std::byte* to = c.segment(at++);
    const be32 tag{head.tag};
    std::memcpy(to, from, 10);
    std::memcpy(to + 10, &tag, sizeof tag);
    std::memcpy(to + 14, from + 10, 2);
    from += ether_header_bytes - 2;
    left -= ether_header_bytes - 2;
  }
  for (; left >= octoword_bytes; left -= octoword_bytes, from += octoword_bytes)
    std::memcpy(c.segment(at++), from, octoword_bytes);
  if (left == 0) return;
  store_zero(c.segment(at));
  std::memcpy(c.segment(at), from, left);
}

// A tag that the device puts in, as it stands in the place of an inlined header's length and start.
constexpr uint32_t insertion(uint32_t tag) noexcept {
  const bool service = tag >> 16 == service_tag(0) >> 16;
  const uint32_t kind = prm::eth::insert_vlan | (service ? prm::eth::svlan : 0u);
  return tag == 0 ? 0 : kind << 16 | (tag & 0xffff);
}

// The Ethernet segment, and what is inlined.
inline void store_eth(const WqeCursor& c, const EthHead& head, std::size_t inlined) noexcept {
  uint64_t last = 0;  // inline_hdr_sz and inline_hdr_start
  if (inlined != 0) {
    be16 first;
    std::memcpy(&first, head.bytes.data(), sizeof first);
    last = inlined << 16 | first.host();
    store_header(c, head);
  } else {
    last = insertion(head.tag);
  }
  std::byte* segment = c.segment(1);
  store_word(segment, be64{uint64_t{head.checksums} << 24 | head.mss});
  store_word(segment + 8, be64{last});
}

// True: these bytes can be inlined, `inlined` with the tag.
[[nodiscard]] constexpr bool header_fits(const EthHead& head, std::size_t inlined) noexcept {
  if (inlined == 0) return head.mss == 0;
  return head.bytes.size() >= ether_header_bytes && inlined <= max_inlined;
}

}  // namespace detail

// Appends a SEND of a frame in one piece, into which the device puts a tag; 0: none. Refused:
// empty_piece, long_piece, long_message, no_room.
[[gnu::always_inline]] inline Outcome eth_send_tagged(WqeCursor& c, const Sge& frame,
                                                      uint8_t checksums, uint32_t tag,
                                                      const Wr& wr) noexcept {
  if (!c.fits(1)) return detail::no_room(c, 1);
  if (frame.length - 1 >= max_frame) [[unlikely]]
    return detail::refuse_piece(frame.length, max_frame);
  std::byte* wqe = c.line(0);
  c.control(prm::Opcode::send, Octowords{3}, wr.flags, 0);
  store_word(wqe + 16, be64{uint64_t{checksums} << 24});
  store_word(wqe + 24, be64{detail::insertion(tag)});
  store_pointer(wqe + 32, frame.address, frame.length, frame.key);
  c.advance(1, wr.id);
  return {};
}

// Appends a packet whose pieces are piece(0) to piece(count - 1), each called once, in order; empty
// ones are skipped. Refused: no_room, long_piece, long_message, empty_piece (there is not one byte
// behind the WQE's and none in it), many_pieces, bad_header (TSO without payload, too).
template <typename Piece>
inline Outcome eth_packet(WqeCursor& c, const EthHead& head, std::size_t count, Piece piece,
                          const Wr& wr) noexcept {
  const std::size_t tag = head.tag != 0 && !head.bytes.empty() ? vlan_tag_bytes : 0;
  const std::size_t inlined = head.bytes.size() + tag;
  if (!detail::header_fits(head, inlined)) [[unlikely]]
    return {Refusal::bad_header, detail::number(inlined), max_inlined};
  uint32_t ds = heads_with(inlined);
  if (const Outcome a = detail::room_for(c, ds, count); !a) return a;
  uint64_t bytes = 0;
  for (std::size_t i = 0; i < count; i++) {
    const Sge p = piece(i);
    if (p.length == 0) continue;
    if (p.length > prm::max_segment_bytes) [[unlikely]]
      return detail::refuse_piece(p.length, max_frame);
    store_data(c.segment(ds++), p);
    bytes += p.length;
  }
  if (bytes == 0 && head.mss != 0) [[unlikely]]
    return {Refusal::bad_header, detail::number(inlined), 0};
  if (bytes + inlined - 1 >= max_frame) [[unlikely]]
    return bytes + inlined == 0 ? detail::refuse_piece(0, max_frame)
                                : Outcome{Refusal::long_message, detail::number(bytes), max_frame};
  c.control(head.mss != 0 ? prm::Opcode::tso : prm::Opcode::send, Octowords{ds}, wr.flags, 0);
  detail::store_eth(c, head, inlined);
  c.advance(wqebbs_for(Octowords{ds}).value(), wr.id);
  return {};
}

// Sends a packet whose pieces lie in a list.
inline Outcome eth_packet(WqeCursor& c, const EthHead& head, std::span<const Sge> pieces,
                          const Wr& wr) noexcept {
  return eth_packet(
      c, head, pieces.size(), [pieces](std::size_t i) noexcept { return pieces[i]; }, wr);
}

}  // namespace kilim::inline v1::queue
