// SPDX-License-Identifier: BSD-3-Clause
// A packet piece as it travels: eight bytes, passed by value. The index names a buffer of the
// process's one arena; address and key follow from it. Any thread; whoever holds a handle holds the
// buffer (doc/buffer-custody.md). Never dereferences anything.
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
  static constexpr uint16_t more = 1u << 8;  // the packet goes on in the next handle
  static constexpr uint16_t side = 1u << 9;  // the index's side record was written
  // Not a buffer: the slot of a key that weaves the handles behind it into one piece of `length`
  // bytes. Only the head of a packet.
  static constexpr uint16_t key = 1u << 10;

  [[nodiscard]] constexpr uint32_t offset() const noexcept {
    return static_cast<uint32_t>(meta & offset_mask) * static_cast<uint32_t>(cacheline_bytes);
  }
  [[nodiscard]] constexpr bool has(uint16_t flag) const noexcept { return (meta & flag) != 0; }
  friend constexpr bool operator==(Handle, Handle) noexcept = default;
};
static_assert(sizeof(Handle) == 8);

constexpr Handle make_handle(uint32_t index, uint32_t length, uint32_t lines = 0) noexcept {
  KILIM_ASSERT(length <= 0xffff && lines <= Handle::offset_mask);
  return {index, static_cast<uint16_t>(length), static_cast<uint16_t>(lines)};
}

// What a receive burst knows about a packet beside its bytes; written only by the variants that
// were asked for it.
struct SideRecord {
  uint32_t rx_hash = 0;
  uint16_t vlan = 0;
  uint8_t packet_type = 0;  // 3:2 L3 type, 6:4 L4 type, numbered as in the CQE
  uint8_t checksum_ok = 0;  // l2_ok, l3_ok, l4_ok of prm/cqe.hh
  uint64_t timestamp = 0;   // the device's clock
};
static_assert(sizeof(SideRecord) == 16);

}  // namespace kilim::pool
