// SPDX-License-Identifier: BSD-3-Clause
// Transmit of one packet by a WQE of its own: of one buffer, of several, under a key, with what its
// word asks for. Owner: the queue's worker; called by the burst (burst/tx.hh). Never allocates from
// a heap, blocks, logs or calls the system.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/tx_queue.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/eth_packet.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"

namespace kilim::inline v1::burst {

// Pieces of one packet, a key's slot not counted; fewer where a header is inlined, by one for each
// 16 bytes of it.
inline constexpr uint32_t max_pieces = prm::max_ds - 2;

// Number of handles of the packet that starts at in[0]; 0: it does not end within `in`.
inline uint32_t chain_length(std::span<const pool::Handle> in) noexcept {
  for (uint32_t i = 0; i < in.size(); i++)
    if (!in[i].has(pool::Handle::more)) return i + 1;
  return 0;
}

namespace detail {

// Every WQE of a burst but the last. If the queue fails, only its first error makes a CQE; the
// flushed WQEs make none.
inline constexpr queue::Wr unsignalled{.flags = queue::WrFlags::only_first_error};

// A piece without its first `used` bytes.
inline queue::Sge piece_of(const TxQueue& q, pool::Handle h, uint32_t used = 0) noexcept {
  return {q.arena.address(h).value() + used, h.length - used, q.key};
}

// Bytes of the packet as it was handed over. A key's handle has the length of the pieces behind it.
template <TxConfig C>
uint64_t bytes_of(std::span<const pool::Handle> packet) noexcept {
  uint64_t sum = packet[0].length;
  if constexpr (C.multi_seg) {
    if (!packet[0].has(pool::Handle::key))
      for (const pool::Handle h : packet.subspan(1)) sum += h.length;
  }
  return sum;
}

// Appends the WQE of a packet in several pieces; false: the queue is full, or no device sends the
// packet.
inline bool append_chain(TxQueue& q, queue::WqeCursor& c,
                         std::span<const pool::Handle> chain) noexcept {
  return queue::eth_packet(
      c, {.checksums = q.offload}, chain.size(),
      [&q, chain](std::size_t i) noexcept { return piece_of(q, chain[i]); }, unsignalled);
}

// Room for a header that lies in several pieces.
using HeaderRoom = std::array<std::byte, queue::max_inlined>;

// A packet whose first bytes are inlined: where they are, and the pieces behind them.
struct Split {
  std::span<const std::byte> header;
  std::span<const pool::Handle> rest;
  uint32_t used = 0;  // bytes of rest[0] that are in the header
};

// `bytes` bytes of the packet's start, which is as long at least. Headers in one buffer stay where
// they are; others are put together in `room`.
inline Split split(const TxQueue& q, std::span<const pool::Handle> packet, uint32_t bytes,
                   HeaderRoom& room) noexcept {
  if (packet[0].length >= bytes) return {{q.arena.data(packet[0]), bytes}, packet, bytes};
  uint32_t got = 0, used = 0;
  std::size_t i = 0;
  for (; got < bytes; i++) {
    const uint32_t left = bytes - got;
    used = packet[i].length < left ? packet[i].length : left;
    std::memcpy(room.data() + got, q.arena.data(packet[i]), used);
    got += used;
  }
  return {{room.data(), bytes}, packet.subspan(i - 1), used};
}

// The tag of a packet's word, as queue::EthHead has it.
inline uint32_t tag_of(pool::TxWord w) noexcept {
  if (w.tag == pool::VlanTag::none) return 0;
  return w.tag == pool::VlanTag::service ? queue::service_tag(w.tci) : queue::customer_tag(w.tci);
}

// Bytes of the packet's start that its WQE has; `bytes` is the packet's length. The tag counts to
// what the device asks for. Without a device that puts it in, it needs an inlined header.
inline uint32_t inlined_of(const TxOffer& offer, pool::TxWord w, uint64_t bytes) noexcept {
  if (w.mss != 0) return w.headers;
  uint32_t n = offer.min_inline;
  if (w.tag != pool::VlanTag::none) {
    if (n == 0 && offer.tags) return 0;
    constexpr uint32_t tagged = queue::ether_header_bytes + queue::vlan_tag_bytes;
    n = (n < tagged ? tagged : n) - queue::vlan_tag_bytes;
  }
  return bytes < n ? static_cast<uint32_t>(bytes) : n;
}

// False: the queue segments nothing, or too little, or the packet has no payload or no headers.
inline bool segments(const TxOffer& offer, pool::TxWord w, uint64_t bytes) noexcept {
  return w.headers <= queue::max_inlined - queue::vlan_tag_bytes && w.headers < bytes &&
         bytes - w.headers <= offer.max_tso;
}

// The checksums of a packet. Each frame of a segmented one needs its own (Linux en_tx.c,
// mlx5e_txwqe_build_eseg_csum()).
inline uint8_t checksums_of(const TxQueue& q, pool::TxWord w) noexcept {
  const uint8_t asked = q.offload | (w.checksums & q.offer.checksums);
  constexpr uint8_t inner = queue::EthOffload::inner_l3 | queue::EthOffload::inner_l4;
  if (w.mss == 0 || (asked & inner) != 0) return asked;
  return asked | queue::EthOffload::l3 | queue::EthOffload::l4;
}

// What the packet asks for; nothing where the queue was not set up for words.
[[gnu::always_inline]] inline pool::TxWord word_of(const TxQueue& q, pool::Handle first) noexcept {
  const bool asks = q.offer.words && first.has(pool::Handle::offload);
  return asks ? q.arena.side(first).tx : pool::TxWord{};
}

// Appends the WQE of any packet with what its word asks for; false: the queue is full, or neither
// the device nor the queue does that.
template <TxConfig C>
[[gnu::noinline]] bool append_any(TxQueue& q, queue::WqeCursor& c,
                                  std::span<const pool::Handle> packet) noexcept {
  const pool::TxWord w = word_of(q, packet[0]);
  const uint64_t bytes = bytes_of<C>(packet);
  if (w.mss != 0 && !segments(q.offer, w, bytes)) return false;
  queue::EthHead head{checksums_of(q, w), w.mss, tag_of(w), {}};
  HeaderRoom room;
  Split parts{{}, packet};
  if (const uint32_t inlined = inlined_of(q.offer, w, bytes); inlined != 0) {
    parts = split(q, packet, inlined, room);
    head.bytes = parts.header;
  }
  return queue::eth_packet(
      c, head, parts.rest.size(),
      [&q, &parts](std::size_t i) noexcept {
        return piece_of(q, parts.rest[i], i == 0 ? parts.used : 0);
      },
      unsignalled);
}

// Appends a packet with offloads; one of a single piece that stays as it is takes the fewest
// instructions.
template <TxConfig C>
[[gnu::always_inline]] inline bool append_offloaded(TxQueue& q, queue::WqeCursor& c,
                                                    std::span<const pool::Handle> packet) noexcept {
  const pool::TxWord w = word_of(q, packet[0]);
  const bool taggable = q.offer.tags || w.tag == pool::VlanTag::none;
  if (packet.size() != 1 || w.mss != 0 || q.offer.min_inline != 0 || !taggable) [[unlikely]]
    return append_any<C>(q, c, packet);
  return queue::eth_send_tagged(c, piece_of(q, packet[0]), checksums_of(q, w), tag_of(w),
                                unsignalled);
}

// Appends the WQE of one packet; false: the queue is full, or no device sends the packet.
template <TxConfig C>
bool append(TxQueue& q, queue::WqeCursor& c, std::span<const pool::Handle> packet) noexcept {
  const pool::Handle head = packet[0];
  if constexpr (C.offloads) {
    if (q.offer.min_inline != 0 || head.has(pool::Handle::offload))
      return append_offloaded<C>(q, c, packet);
  }
  if constexpr (C.gathered) {
    if (head.has(pool::Handle::key))
      return queue::eth_send(c, {0, head.length, q.slots->keys[head.index]}, q.offload,
                             unsignalled);
  }
  if constexpr (C.multi_seg) {
    if (packet.size() > 1) return append_chain(q, c, packet);
  }
  KILIM_ASSERT(packet.size() == 1);
  return queue::eth_send(c, {q.arena.address(head).value(), head.length, q.key}, q.offload,
                         unsignalled);
}

// Appends a packet by a copy of the caller's cursor, so that the caller's own has no address and
// stays in registers.
template <TxConfig C>
[[gnu::always_inline]] inline bool append_aside(TxQueue& q, queue::WqeCursor& c,
                                                std::span<const pool::Handle> packet) noexcept {
  queue::WqeCursor aside = c.aside();
  if (!append<C>(q, aside, packet)) return false;
  c.resume(aside);
  return true;
}

}  // namespace detail

}  // namespace kilim::inline v1::burst
