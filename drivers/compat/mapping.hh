// SPDX-License-Identifier: BSD-3-Clause
// What is mapped where in this process. Any thread; calls the system.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kilim::compat {

inline constexpr uint64_t page_bytes = 4096;

// The pages that hold a range; `end` is not above `begin` where the range is empty or wraps.
struct PageRange {
  uint64_t begin, end;
};
inline PageRange pages_of(const void* memory, std::size_t bytes) noexcept {
  const auto at = reinterpret_cast<uint64_t>(memory);
  return {at & ~(page_bytes - 1), (at + bytes + page_bytes - 1) & ~(page_bytes - 1)};
}

// Whether all pages of the range are mapped, and may be read, or written to. A short range is
// brought into memory by it, as registering would.
bool is_mapped(const void* memory, std::size_t bytes, bool writable) noexcept;

// Whether memory of another device is mapped there.
bool lies_in_device_mapping(const void* memory) noexcept;

// Whether a line of /proc/self/maps is a mapping of another device's memory: a dma-buf, or a device
// file (PeerDirect). Ordinary files, shared memory and hugepages are not.
bool is_device_mapping(const char* line) noexcept;

}  // namespace kilim::compat
