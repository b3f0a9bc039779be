// SPDX-License-Identifier: BSD-3-Clause
// Values that describe a block of device memory (ibv_dm) and requests for one.
// Pure values, any thread; mr/device_memory.hh owns a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::inline v1::mr {

// Arguments of ibv_alloc_dm(3).
struct BlockRequest {
  uint64_t bytes = 0;
  uint32_t log_alignment = 0;  // log2 of bytes, in the adapter's address space; at least 64 bytes
};

// A block as the device made it. It owns nothing.
struct DeviceBlock {
  uint32_t number = 0;          // for import_block() in a process that shares the device's file
  bool imported = false;        // freeing an imported block leaves it allocated
  std::span<std::byte> mapped;  // the mapping in this process; reads cross the bus
};

// A part of a block to be registered, with the rights of its keys.
struct BlockRange {
  uint64_t at = 0;  // bytes from the block's start
  uint64_t bytes = 0;
  uint32_t access = 0;  // local_write, remote_write, remote_read, remote_atomic of Access
};

}  // namespace kilim::inline v1::mr
