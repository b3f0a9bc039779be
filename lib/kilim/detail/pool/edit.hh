// SPDX-License-Identifier: BSD-3-Clause
// Headers put on and taken off in place: what rte_pktmbuf_prepend(), append(), adj() and trim() do,
// on handles, by any number of bytes. Owner: whoever holds the handle, and alone if he writes. No
// byte moves, nothing is allocated; a request that the buffer cannot fulfil changes nothing. The
// side record goes with the data where an arena has several a buffer. Not for the slot of a key.
// Packets of several pieces: pool/chain.hh.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/handle.hh"

namespace kilim::inline v1::pool {

namespace detail {

// Moves a handle's data to another place of the buffer; its flags stay.
inline void move_data(const Arena& arena, Handle& h, uint32_t offset, uint32_t length) noexcept {
  constexpr uint16_t flags = Handle::more | Handle::side;
  const Handle before = h;
  h.meta = static_cast<uint16_t>(meta_at(offset) | (h.meta & flags));
  h.length = static_cast<uint16_t>(length);
  // Behind all its data the next packet of the buffer may begin.
  if (h.has(Handle::side) && arena.side_piece() != 0 && length != 0)
    arena.side(h) = arena.side(before);
}

}  // namespace detail

// Bytes of the buffer in front of the data: what prepend() may ask for (rte_pktmbuf_headroom).
constexpr uint32_t headroom(Handle h) noexcept {
  return h.offset();
}
// Bytes of the buffer behind the data: what append() may ask for (rte_pktmbuf_tailroom).
inline uint32_t tailroom(const Arena& arena, Handle h) noexcept {
  KILIM_ASSERT(h.offset() + h.length <= arena.room());
  return arena.room() - h.offset() - h.length;
}

// The data begin `bytes` earlier. Returns where; nullptr: there is less headroom
// (rte_pktmbuf_prepend).
inline std::byte* prepend(const Arena& arena, Handle& h, uint32_t bytes) noexcept {
  if (bytes > headroom(h) || bytes + h.length > UINT16_MAX) return nullptr;
  detail::move_data(arena, h, h.offset() - bytes, h.length + bytes);
  return arena.data(h);
}
// The data end `bytes` later. Returns where they ended; nullptr: there is less tailroom
// (rte_pktmbuf_append, of a packet's last piece).
inline std::byte* append(const Arena& arena, Handle& h, uint32_t bytes) noexcept {
  std::byte* const end = arena.data(h) + h.length;
  if (bytes > tailroom(arena, h) || bytes + h.length > UINT16_MAX) return nullptr;
  h.length = static_cast<uint16_t>(h.length + bytes);
  return end;
}
// The data begin `bytes` later. Returns where; nullptr: there are fewer, or the place is beyond
// what a handle can say (max_offset)
// (rte_pktmbuf_adj).
inline std::byte* adjust(const Arena& arena, Handle& h, uint32_t bytes) noexcept {
  if (bytes > h.length || h.offset() + bytes > max_offset) return nullptr;
  detail::move_data(arena, h, h.offset() + bytes, h.length - bytes);
  return arena.data(h);
}
// The data end `bytes` earlier. False: there are fewer (rte_pktmbuf_trim, of a packet's last
// piece).
[[nodiscard]] inline bool trim(Handle& h, uint32_t bytes) noexcept {
  if (bytes > h.length) return false;
  h.length = static_cast<uint16_t>(h.length - bytes);
  return true;
}

}  // namespace kilim::inline v1::pool
