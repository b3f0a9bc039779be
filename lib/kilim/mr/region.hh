// SPDX-License-Identifier: BSD-3-Clause
// A registered memory region as a value: where it is, of which kind, under which keys, in which
// pages and how many translations those need.
// Pure value, any thread; who registered it is responsible for its life.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/base/ident.hh"

namespace kilim::mr {

// What a key permits and how its memory is held, in the bits of ibv_access_flags. Local reading is
// always permitted. That the library allocates the memory is no right of a key and has no bit:
// mr/allocated.hh. On-demand paging is asked for by Registrar::register_on_demand().
struct Access {
  static constexpr uint32_t local_write = 1u << 0;
  static constexpr uint32_t remote_write = 1u << 1;
  static constexpr uint32_t remote_read = 1u << 2;
  static constexpr uint32_t remote_atomic = 1u << 3;
  static constexpr uint32_t mw_bind = 1u << 4;     // memory windows may be bound to it
  static constexpr uint32_t zero_based = 1u << 5;  // its keys know its first byte as 0
  static constexpr uint32_t on_demand = 1u << 6;
  static constexpr uint32_t huge_pages = 1u << 7;  // its memory is of huge pages throughout
  static constexpr uint32_t relaxed_ordering = 1u << 20;

  static constexpr uint32_t local = local_write;
  static constexpr uint32_t all = local_write | remote_write | remote_read | remote_atomic;
};

enum class Kind : uint8_t {
  pinned,     // memory of the caller, held by the kernel
  allocated,  // the same, of memory that the library allocated for it
  on_demand,  // translated page by page at the first access
  implicit,   // the same for the whole address space: address 0, length UINT64_MAX
  imported,   // registered elsewhere; dropping it leaves it registered
  device,     // memory of the adapter itself, zero-based: mr/device_memory.hh
};

// How many translations `bytes` at `address` need: the pages that they touch. 0 where the page
// size is unknown.
constexpr uint64_t translation_entries(uint64_t address, uint64_t bytes,
                                       uint64_t page_bytes) noexcept {
  if (bytes == 0 || page_bytes == 0) return 0;
  return (address + (bytes - 1)) / page_bytes - address / page_bytes + 1;
}

struct Region {
  uint64_t address = 0;  // in this process
  uint64_t length = 0;
  uint64_t iova = 0;  // the address by which the keys know its first byte
  Lkey lkey;
  Rkey rkey;
  uint64_t page_bytes = 0;
  uint32_t access = 0;
  Kind kind = Kind::pinned;
  bool undefined = false;  // a re-registration failed half way: it may only be destroyed
  int16_t node = -1;       // NUMA node of its memory, -1 where unknown
  uint64_t entries = 0;    // translations that its pages need; 0: of an implicit region

  [[nodiscard]] bool covers(uint64_t at, uint64_t bytes) const noexcept {
    return at >= address && bytes <= length && at - address <= length - bytes;
  }
  [[nodiscard]] bool paged() const noexcept {
    return kind == Kind::on_demand || kind == Kind::implicit;
  }
};

}  // namespace kilim::mr
