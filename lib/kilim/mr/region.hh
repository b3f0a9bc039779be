// SPDX-License-Identifier: BSD-3-Clause
// A registered memory region as a value: where it is, under which keys, in which pages.
// Pure value, any thread; who registered it is responsible for its life.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/base/ident.hh"

namespace kilim::mr {

// What a key permits, in the bits of ibv_access_flags. Local reading is always permitted.
struct Access {
  static constexpr uint32_t local_write = 1u << 0;
  static constexpr uint32_t remote_write = 1u << 1;
  static constexpr uint32_t remote_read = 1u << 2;
  static constexpr uint32_t remote_atomic = 1u << 3;
  static constexpr uint32_t relaxed_ordering = 1u << 20;

  static constexpr uint32_t local = local_write;
  static constexpr uint32_t all = local_write | remote_write | remote_read | remote_atomic;
};

struct Region {
  uint64_t address = 0;  // in this process
  uint64_t length = 0;
  uint64_t iova = 0;  // the address by which the keys know its first byte
  Lkey lkey;
  Rkey rkey;
  uint64_t page_bytes = 0;
  uint32_t access = 0;

  [[nodiscard]] bool covers(uint64_t at, uint64_t bytes) const noexcept {
    return at >= address && bytes <= length && at - address <= length - bytes;
  }
};

}  // namespace kilim::mr
