// SPDX-License-Identifier: BSD-3-Clause
// Packets of several pieces: handles one behind the other, all but the last with Handle::more. What
// rte_mbuf's functions for segments do. Owner: whoever holds the packet, and alone if he writes.
// Never allocates but from the cache that it is given. Not for packets headed by a key.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/edit.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/pool/pool.hh"

namespace kilim::inline v1::pool {

// Makes a packet of pieces: their flags say where it ends (rte_pktmbuf_chain).
inline void chain(std::span<Handle> pieces) noexcept {
  for (Handle& h : pieces) h.meta |= Handle::more;
  if (!pieces.empty())
    pieces.back().meta = static_cast<uint16_t>(pieces.back().meta & ~Handle::more);
}

// The handles of the packet that begins at in[0]; none: it does not end within `in`.
template <typename H>
std::span<H> first_packet(std::span<H> in) noexcept {
  for (std::size_t i = 0; i < in.size(); i++)
    if (!in[i].has(Handle::more)) return in.first(i + 1);
  return {};
}

// Bytes of the whole packet (rte_pktmbuf_pkt_len).
inline uint32_t packet_length(std::span<const Handle> packet) noexcept {
  uint32_t sum = 0;
  for (const Handle h : packet) sum += h.length;
  return sum;
}

// Copies up to into.size() bytes of the packet from `offset` on; returns how many there were.
inline uint32_t copy_bytes(const Arena& arena, std::span<const Handle> packet, uint32_t offset,
                           std::span<std::byte> into) noexcept {
  std::size_t done = 0;
  for (const Handle h : packet) {
    if (offset >= h.length) {
      offset -= h.length;
      continue;
    }
    const std::size_t n = std::min<std::size_t>(h.length - offset, into.size() - done);
    if (n == 0) break;
    std::memcpy(into.data() + done, arena.data(h) + offset, n);
    done += n;
    offset = 0;
  }
  return static_cast<uint32_t>(done);
}

// The bytes of the packet from `offset` on, as many as `scratch` has room for: in place where one
// piece has them, else copied there. nullptr: the packet ends before (rte_pktmbuf_read).
inline const std::byte* read_bytes(const Arena& arena, std::span<const Handle> packet,
                                   uint32_t offset, std::span<std::byte> scratch) noexcept {
  uint32_t before = 0;
  for (const Handle h : packet) {
    if (offset >= before && offset - before + scratch.size() <= h.length)
      return arena.data(h) + (offset - before);
    before += h.length;
    if (offset < before) break;
  }
  return copy_bytes(arena, packet, offset, scratch) == scratch.size() ? scratch.data() : nullptr;
}

// Takes `bytes` from the packet's front, from as many pieces as have them; a piece keeps its place
// though it is empty then: drop_empty() frees those. False: the packet is shorter, nothing changed.
[[nodiscard]] inline bool adjust_packet(const Arena& arena, std::span<Handle> packet,
                                        uint32_t bytes) noexcept {
  if (bytes > packet_length(packet)) return false;
  for (std::size_t i = 0; bytes != 0; i++) {
    const uint32_t n = bytes < packet[i].length ? bytes : packet[i].length;
    (void)adjust(arena, packet[i], n);
    bytes -= n;
  }
  return true;
}
// Removes bytes from the packet's end.
[[nodiscard]] inline bool trim_packet(std::span<Handle> packet, uint32_t bytes) noexcept {
  if (bytes > packet_length(packet)) return false;
  for (std::size_t i = packet.size(); bytes != 0; i--) {
    const uint32_t n = bytes < packet[i - 1].length ? bytes : packet[i - 1].length;
    (void)trim(packet[i - 1], n);
    bytes -= n;
  }
  return true;
}

// Frees pieces without data, which no device sends, and closes the gaps; the first stays if all are
// empty. Returns the pieces left, at the front of `packet`.
inline uint32_t drop_empty(std::span<Handle> packet, BufferCache& cache) noexcept {
  uint32_t kept = 0;
  for (std::size_t i = 0; i < packet.size(); i++) {
    const bool last_chance = kept == 0 && i + 1 == packet.size();
    if (packet[i].length != 0 || last_chance)
      packet[kept++] = packet[i];
    else
      cache.free_one(packet[i]);
  }
  chain(packet.first(kept));
  return kept;
}

// Gathers the packet in its first buffer, moved to the buffer's start if that makes room, and frees
// the others. False: one buffer cannot hold it; nothing changed (rte_pktmbuf_linearize).
[[nodiscard]] inline bool linearize(std::span<Handle> packet, BufferCache& cache) noexcept {
  const Arena& arena = cache.arena();
  const uint32_t total = packet_length(packet);
  if (packet.empty() || total > arena.room() || total > UINT16_MAX) return false;
  Handle& head = packet[0];
  if (head.offset() + total > arena.room()) {
    std::memmove(arena.buffer(head.index), arena.data(head), head.length);
    detail::move_data(arena, head, 0, head.length);
  }
  (void)copy_bytes(arena, packet, head.length,
                   {arena.data(head) + head.length, total - head.length});
  for (const Handle h : packet.subspan(1)) cache.free_one(h);
  chain(packet.first(1));
  head.length = static_cast<uint16_t>(total);
  return true;
}

// Copies the packet to buffers of `cache`, the first with `head` bytes of headroom; `out` gets the
// copy, which the caller holds. Returns its pieces; 0: no buffers or no room in `out`. Side records
// are not copied (rte_pktmbuf_copy).
inline uint32_t copy_packet(std::span<const Handle> packet, BufferCache& cache,
                            std::span<Handle> out, uint32_t head) noexcept {
  const Arena& arena = cache.arena();
  KILIM_ASSERT(head < arena.room() && head <= max_offset);
  const uint32_t total = packet_length(packet), room = arena.room();
  const uint32_t pieces = (total + head + room - 1) / room;
  const uint32_t wanted = pieces == 0 ? 1 : pieces;
  if (wanted > out.size()) return 0;
  const std::span<Handle> copy = out.first(wanted);
  const uint32_t got = cache.alloc(copy, 0);
  if (got != wanted) {
    cache.free(copy.first(got));
    return 0;
  }
  for (uint32_t i = 0, done = 0; i < wanted; i++) {
    const uint32_t at = i == 0 ? head : 0;
    const uint32_t most = room - at;
    const uint32_t n = total - done < most ? total - done : most;
    detail::move_data(arena, copy[i], at, n);
    (void)copy_bytes(arena, packet, done, arena.bytes(copy[i]));
    done += n;
  }
  chain(copy);
  return wanted;
}

}  // namespace kilim::inline v1::pool
