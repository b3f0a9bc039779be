// SPDX-License-Identifier: BSD-3-Clause
// Handle: a packet or a piece of one, eight bytes, passed by value. The index names a buffer of the
// process's arena; address and key follow from it. Whoever holds the handle holds the buffer
// (doc/buffer-custody.md). A plain value, any thread.
#pragma once

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

// What the device reports about a received packet; written by bursts with RxConfig::side only.
struct SideRecord {
  uint32_t rx_hash = 0;     // rx_hash_result of the CQE
  uint16_t vlan = 0;        // vlan_info of the CQE
  uint8_t packet_type = 0;  // bits 3:2 L3 type, 6:4 L4 type, with the CQE's numbers
  uint8_t checksum_ok = 0;  // l2_ok, l3_ok, l4_ok of prm/cqe.hh
  uint64_t timestamp = 0;   // ticks of the device's clock
};
static_assert(sizeof(SideRecord) == 16);

}  // namespace kilim::pool
