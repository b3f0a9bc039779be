// SPDX-License-Identifier: BSD-3-Clause
// Stores to device registers. A doorbell is one 8-byte store that must not be split, merged or
// reordered by the compiler; barriers around it are the caller's (base/barrier.hh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"

namespace kilim {

// Writes eight bytes, already in device order, to a register.
inline void mmio_store64(std::byte* reg, uint64_t raw) noexcept {
  *reinterpret_cast<volatile uint64_t*>(reg) = raw;
}
inline void mmio_store(std::byte* reg, be64 value) noexcept {
  mmio_store64(reg, value.raw());
}

// Doorbell records are ordinary memory that the device reads at any time.
inline void record_store(be32* record, be32 value) noexcept {
  __atomic_store_n(reinterpret_cast<uint32_t*>(record), value.raw(), __ATOMIC_RELEASE);
}
inline be32 record_load(const be32* record) noexcept {
  return be32::from_raw(
      __atomic_load_n(reinterpret_cast<const uint32_t*>(record), __ATOMIC_ACQUIRE));
}

}  // namespace kilim
