// SPDX-License-Identifier: BSD-3-Clause
// Handle: a packet or a piece of one, eight bytes, passed by value. The index names a buffer of the
// process's arena; address and key follow from it. Whoever holds the handle holds the buffer
// (doc/buffer-custody.md). A plain value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/assert.hh"
#include "kilim/base/cacheline.hh"

namespace kilim::pool {

struct Handle {
  uint32_t index = 0;
  uint16_t length = 0;  // bytes of data
  uint16_t meta = 0;    // 7:0 data offset in lines of 64 bytes, then the flags below

  static constexpr uint16_t offset_mask = 0xff;
  static constexpr uint16_t more = 1u << 8;  // the packet continues in the next handle
  static constexpr uint16_t side = 1u << 9;  // the buffer's side record is valid
  // The index is no buffer but the slot of an mkey (burst::MkeySlots) over the handles behind it,
  // `length` bytes together. Only in a packet's first handle.
  static constexpr uint16_t key = 1u << 10;

  [[nodiscard]] constexpr uint32_t offset() const noexcept {
    return static_cast<uint32_t>(meta & offset_mask) * static_cast<uint32_t>(cacheline_bytes);
  }
  [[nodiscard]] constexpr bool has(uint16_t flag) const noexcept { return (meta & flag) != 0; }
  friend constexpr bool operator==(Handle, Handle) noexcept = default;
};
static_assert(sizeof(Handle) == 8);

// A handle to `length` bytes at `lines` lines of 64 bytes from the buffer's start.
constexpr Handle make_handle(uint32_t index, uint32_t length, uint32_t lines = 0) noexcept {
  KILIM_ASSERT(length <= 0xffff && lines <= Handle::offset_mask);
  return {index, static_cast<uint16_t>(length), static_cast<uint16_t>(lines)};
}

// What the device reports about a received packet, in the words of DPDK's rte_mbuf; written by
// bursts with RxConfig::side only. Its first 16 bytes are one store.
struct alignas(32) SideRecord {
  uint32_t rx_hash = 0;
  uint32_t packet_type = 0;  // RTE_PTYPE_*, as rte_mbuf's
  uint32_t flags = 0;        // RTE_MBUF_F_RX_*, all of which are in the low half of ol_flags
  uint16_t vlan = 0;         // the stripped tag (TCI), with RxConfig::vlan
  uint16_t reserved = 0;
  uint64_t timestamp = 0;  // ticks of the device's clock, with RxConfig::timestamp
};
static_assert(sizeof(SideRecord) == 32 && offsetof(SideRecord, timestamp) == 16);

}  // namespace kilim::pool
