// SPDX-License-Identifier: BSD-3-Clause
// The Toeplitz hash of a frame in software: the value that a device finds for it. For programs that
// choose queues or ports by it, and for tests. Any thread; not made for each packet of a burst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/flow/rss.hh"

namespace kilim::inline v1::flow {

// For each bit of `input` that is set, from the first byte's highest on, the 32 bits of the key at
// its place are added without carry. At most 36 bytes: the key is as long.
uint32_t toeplitz(std::span<const std::byte> input, const HashKey& key) noexcept;

struct FrameHash {
  HashKind kind = HashKind::none;
  uint32_t value = 0;  // 0 where there is none
};
// Hashes an Ethernet frame by the most specific of `types` that it has: source address, destination
// address, source port, destination port. Frames may be cut short or wrong.
FrameHash hash_frame(std::span<const std::byte> frame, uint32_t types, const HashKey& key) noexcept;

// The queue that a frame goes to. The table is not empty.
inline uint16_t queue_of(FrameHash h, std::span<const uint16_t> table) noexcept {
  return table[h.kind == HashKind::none ? 0 : h.value & (table.size() - 1)];
}

}  // namespace kilim::inline v1::flow
