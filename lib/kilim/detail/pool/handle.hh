// SPDX-License-Identifier: BSD-3-Clause
// Handle: a packet or a piece of one, eight bytes, passed by value. The index names a buffer of the
// process's arena; address and key follow from it. Whoever holds the handle holds the buffer
// (doc/buffer-custody.md). A plain value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/cacheline.hh"

namespace kilim::inline v1::pool {

struct Handle {
  uint32_t index = 0;
  uint16_t length = 0;  // bytes of data
  uint16_t meta = 0;    // 15:3 data offset in bytes, then the flags below (ADR 0036)

  static constexpr uint32_t offset_shift = 3;
  static constexpr uint16_t more = 1u << 0;  // the packet continues in the next handle
  static constexpr uint16_t side = 1u << 1;  // the buffer's side record is valid
  // The index is no buffer but the slot of an mkey (burst::MkeySlots) over the handles behind it,
  // `length` bytes together. Only in a packet's first handle. An offset that no buffer has.
  static constexpr uint16_t key = 0xfff8;
  // The side record's `tx` says what the device does to the packet, where its transmit queue was
  // set up for that; elsewhere it is ignored. Only in a packet's first handle.
  static constexpr uint16_t offload = 1u << 2;

  [[nodiscard]] constexpr uint32_t offset() const noexcept {
    return static_cast<uint32_t>(meta) >> offset_shift;
  }
  [[nodiscard]] constexpr bool has(uint16_t flag) const noexcept { return (meta & flag) == flag; }
  friend constexpr bool operator==(Handle, Handle) noexcept = default;
};
static_assert(sizeof(Handle) == 8);

// The longest stride of an arena in bytes: 255 lines.
inline constexpr uint32_t max_stride = 255 * static_cast<uint32_t>(cacheline_bytes);
// The furthest byte of a buffer at which data may begin.
inline constexpr uint32_t max_offset = 8190;
static_assert(max_offset << Handle::offset_shift < Handle::key);

// The meta of a handle without flags whose data begin `offset` bytes from the buffer's start.
constexpr uint16_t meta_at(uint32_t offset) noexcept {
  KILIM_ASSERT(offset <= max_offset);
  return static_cast<uint16_t>(offset << Handle::offset_shift);
}
// The meta of data that begin at a line of 64 bytes.
constexpr uint16_t meta_at_line(uint32_t lines) noexcept {
  return meta_at(lines * static_cast<uint32_t>(cacheline_bytes));
}

// A handle to `length` bytes at `lines` lines of 64 bytes from the buffer's start.
constexpr Handle make_handle(uint32_t index, uint32_t length, uint32_t lines = 0) noexcept {
  KILIM_ASSERT(length <= 0xffff);
  return {index, static_cast<uint16_t>(length), meta_at_line(lines)};
}

// The VLAN tag that a packet gets: of type 0x8100, or 0x88a8 of providers.
enum class VlanTag : uint8_t { none, customer, service };

// What the device does to a packet that is sent. Written by who holds the packet, together with
// Handle::offload; read by bursts with TxConfig::offloads.
struct TxWord {
  uint8_t checksums = 0;  // that it writes: queue::EthOffload
  VlanTag tag = VlanTag::none;
  uint16_t tci = 0;  // of the tag, in host order: priority 15:13, VLAN 11:0
  // Not 0: the packet leaves as frames with so many bytes of payload (TSO), all their checksums
  // written. Its first `headers` bytes are the headers of each, the last of them TCP's or UDP's.
  uint16_t mss = 0;
  uint16_t headers = 0;
  friend constexpr bool operator==(TxWord, TxWord) noexcept = default;
};
static_assert(sizeof(TxWord) == 8);

// What belongs to a packet besides its bytes. In front what the device reports about a received
// one, in the words of DPDK's rte_mbuf; written by bursts with RxConfig::side only, 16 bytes in one
// store. Behind it what it is to do to one that is sent: no receive touches that but of one that
// the device joined (RTE_MBUF_F_RX_LRO), which says how it divides into its segments again.
struct alignas(32) SideRecord {
  uint32_t rx_hash = 0;
  uint32_t packet_type = 0;  // RTE_PTYPE_*, as rte_mbuf's
  uint32_t flags = 0;        // 22:0 RTE_MBUF_F_RX_*, as in ol_flags; 31:24 of mark()
  uint16_t vlan = 0;         // the stripped tag (TCI), with RxConfig::vlan
  uint16_t mark_low = 0;     // of mark()
  uint64_t timestamp = 0;    // ticks of the device's clock, with RxConfig::timestamp
  TxWord tx;                 // where the handle has Handle::offload

  static constexpr uint32_t flag_bits = 0x7fffff;
  // The mark of the flow rule that led the packet here, with RxConfig::mark; 0: none.
  [[nodiscard]] constexpr uint32_t mark() const noexcept { return flags >> 24 << 16 | mark_low; }
};
static_assert(sizeof(SideRecord) == 32 && offsetof(SideRecord, timestamp) == 16);

}  // namespace kilim::inline v1::pool
