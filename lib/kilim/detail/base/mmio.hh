// SPDX-License-Identifier: BSD-3-Clause
// Stores to the device's registers and doorbell records. The functions contain no barrier towards
// the device: the caller puts those of base/barrier.hh around them. Owner: the queue's worker.
// Source: rdma-core util/mmio.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"

namespace kilim::inline v1 {

// Writes eight bytes, which are in device order, to a register. `volatile`: the compiler neither
// splits, merges nor drops the store, as each one is one write on the bus. `reg` is 8-byte aligned.
inline void mmio_store64(std::byte* reg, uint64_t raw) noexcept {
  *reinterpret_cast<volatile uint64_t*>(reg) = raw;
}
// Stores a big-endian value to a device register.
inline void mmio_store(std::byte* reg, be64 value) noexcept {
  mmio_store64(reg, value.raw());
}

// Writes a doorbell record: ordinary memory that the device may read at any time, so the store is
// atomic. Release: the virtual device's acquire load of it also sees the WQEs.
inline void record_store(be32* record, be32 value) noexcept {
  __atomic_store_n(reinterpret_cast<uint32_t*>(record), value.raw(), __ATOMIC_RELEASE);
}
// Reads a doorbell record as a device does. For tests.
inline be32 record_load(const be32* record) noexcept {
  return be32::from_raw(
      __atomic_load_n(reinterpret_cast<const uint32_t*>(record), __ATOMIC_ACQUIRE));
}

}  // namespace kilim::inline v1
