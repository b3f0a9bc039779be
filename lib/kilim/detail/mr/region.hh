// SPDX-License-Identifier: BSD-3-Clause
// Region: a description of a registered memory region. It owns nothing: whoever registered the
// memory keeps it registered (mr::Mr does). Pure value, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"

namespace kilim::inline v1::mr {

// Rights of a key and properties of its memory, in the bits of ibv_access_flags. Local reading is
// always permitted. Two flags of verbs are separate calls here: IBV_ACCESS_ON_DEMAND is
// Registrar::register_on_demand(), and allocation by the library is mr/allocated.hh.
struct Access {
  static constexpr uint32_t local_write = 1u << 0;
  static constexpr uint32_t remote_write = 1u << 1;
  static constexpr uint32_t remote_read = 1u << 2;
  static constexpr uint32_t remote_atomic = 1u << 3;
  static constexpr uint32_t mw_bind = 1u << 4;     // memory windows may be bound to it
  static constexpr uint32_t zero_based = 1u << 5;  // its keys count from 0
  static constexpr uint32_t on_demand = 1u << 6;
  static constexpr uint32_t huge_pages = 1u << 7;  // all of its memory lies in huge pages
  static constexpr uint32_t relaxed_ordering = 1u << 20;

  static constexpr uint32_t local = local_write;
  static constexpr uint32_t all = local_write | remote_write | remote_read | remote_atomic;
};

enum class Kind : uint8_t {
  pinned,     // the caller's memory, pinned by the kernel
  allocated,  // pinned memory that the library allocated
  on_demand,  // paged: mapped page by page at the first access
  implicit,   // paged, the whole address space: address 0, length UINT64_MAX
  imported,   // registered by another process; deregistering it leaves it registered
  device,     // memory inside the adapter, zero-based: mr/device_memory.hh
};

inline constexpr std::size_t kinds = 6;
inline constexpr std::array<const char*, kinds> kind_names{"pinned",   "allocated", "on_demand",
                                                           "implicit", "imported",  "device"};

// Regions of a kind that are registered now.
struct RegionTotal {
  uint64_t regions = 0;
  uint64_t bytes = 0;  // without implicit ones, which have no length of their own
};

// The number of pages that `bytes` at `address` touch, which is the number of translations; 0: the
// page size is unknown.
constexpr uint64_t translation_entries(uint64_t address, uint64_t bytes,
                                       uint64_t page_bytes) noexcept {
  if (bytes == 0 || page_bytes == 0) return 0;
  return (address + (bytes - 1)) / page_bytes - address / page_bytes + 1;
}

struct Region {
  uint64_t address = 0;  // in this process
  uint64_t length = 0;
  uint64_t iova = 0;  // the address of its first byte as the keys count
  Lkey lkey;
  Rkey rkey;
  uint64_t page_bytes = 0;
  uint32_t access = 0;
  Kind kind = Kind::pinned;
  bool undefined = false;  // a re-registration failed half way: it can only be deregistered
  int16_t node = -1;       // NUMA node of its memory; -1: unknown
  uint64_t entries = 0;    // translation_entries(); 0 for an implicit region

  [[nodiscard]] bool covers(uint64_t at, uint64_t bytes) const noexcept {
    return at >= address && bytes <= length && at - address <= length - bytes;
  }
  [[nodiscard]] bool paged() const noexcept {
    return kind == Kind::on_demand || kind == Kind::implicit;
  }
};

}  // namespace kilim::inline v1::mr
