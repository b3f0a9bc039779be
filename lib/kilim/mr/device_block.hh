// SPDX-License-Identifier: BSD-3-Clause
// A block of an adapter's own memory, as its registrar knows it, and what is asked of one.
// Pure values, any thread; mr/device_memory.hh owns a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::mr {

struct BlockRequest {
  uint64_t bytes = 0;
  uint32_t log_alignment = 0;  // of its first byte in the adapter; 64 bytes always
};

struct DeviceBlock {
  uint32_t number = 0;          // by which others import it
  bool imported = false;        // somebody else's: dropping it leaves it allocated
  std::span<std::byte> mapped;  // as the processor reaches it: a device's memory, slow to read
};

// A part of a block, and what a key of it permits.
struct BlockRange {
  uint64_t at = 0;
  uint64_t bytes = 0;
  uint32_t access = 0;  // local_write, remote_write, remote_read, remote_atomic of Access
};

}  // namespace kilim::mr
