// SPDX-License-Identifier: BSD-3-Clause
// Questions about this process's mappings. Any thread; system calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kilim::compat {

inline constexpr uint64_t page_bytes = 4096;

// The pages of a range; end <= begin: the range is empty or wraps.
struct PageRange {
  uint64_t begin, end;
};
inline PageRange pages_of(const void* memory, std::size_t bytes) noexcept {
  const auto at = reinterpret_cast<uint64_t>(memory);
  return {at & ~(page_bytes - 1), (at + bytes + page_bytes - 1) & ~(page_bytes - 1)};
}

// Whether all these pages are mapped readable, or writable. The pages of a short range are faulted
// in, as registering would do. A range that is empty or wraps has no pages that could be missing.
bool is_mapped(const PageRange& pages, bool writable) noexcept;

// Whether the address lies in a mapping of another device's memory.
bool lies_in_device_mapping(const void* memory) noexcept;

// Whether a line of /proc/self/maps is a mapping of another device's memory: a dma-buf, or a device
// file (PeerDirect). Ordinary files, shared memory and hugepages are not.
bool is_device_mapping(const char* line) noexcept;

}  // namespace kilim::compat
