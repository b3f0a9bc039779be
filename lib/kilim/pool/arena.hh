// SPDX-License-Identifier: BSD-3-Clause
// Arena: the memory of packet buffers, one range cut into strides, so that an index becomes an
// address by one multiplication. A value that every burst copies. ArenaMemory owns the memory, one
// in a process, made at set-up. Any thread may translate; the memory lives until no handle is in
// use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/base/assert.hh"
#include "kilim/base/cacheline.hh"
#include "kilim/base/ident.hh"
#include "kilim/base/result.hh"
#include "kilim/mem/block.hh"
#include "kilim/pool/handle.hh"

namespace kilim::pool {

// Bytes from one buffer to the next: an odd number of cache lines, because with 2048 bytes the
// first lines of all buffers would share a few cache sets.
inline constexpr uint32_t default_stride = 33 * cacheline_bytes;

// The smallest stride in bytes, an odd number of lines, that holds `bytes`.
constexpr uint32_t stride_for(uint32_t bytes) noexcept {
  auto lines = static_cast<uint32_t>((bytes + cacheline_bytes - 1) / cacheline_bytes);
  return static_cast<uint32_t>((lines | 1u) * cacheline_bytes);
}
static_assert(stride_for(2048) == default_stride && stride_for(9216) % 128 == 64);

class Arena {
 public:
  // An arena of no buffers.
  Arena() = default;

  // An arena over the caller's memory, which outlives it. EINVAL: the stride is not an odd number
  // of lines below 256, or the memory is smaller than one buffer.
  static Result<Arena> over(std::span<std::byte> memory, uint32_t stride = default_stride,
                            SideRecord* side = nullptr);

  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  [[nodiscard]] uint32_t stride() const noexcept { return stride_; }
  [[nodiscard]] std::span<std::byte> memory() const noexcept {
    return {base_, std::size_t{count_} * stride_};
  }

  // The first byte of a buffer in this process.
  [[nodiscard]] std::byte* buffer(uint32_t index) const noexcept {
    KILIM_ASSERT(index < count_);
    return base_ + std::size_t{index} * stride_;
  }
  // The handle's first byte in this process.
  [[nodiscard]] std::byte* data(Handle h) const noexcept { return buffer(h.index) + h.offset(); }
  [[nodiscard]] std::span<std::byte> bytes(Handle h) const noexcept { return {data(h), h.length}; }
  // The handle's first byte as the keys count.
  [[nodiscard]] Va address(Handle h) const noexcept {
    KILIM_ASSERT(h.index < count_);
    return Va{known_ + std::size_t{h.index} * stride_ + h.offset()};
  }
  // Address of the first buffer as the keys count.
  [[nodiscard]] Va first_address() const noexcept { return Va{known_}; }
  // The same arena for keys that count from `first`: zero-based regions, device memory.
  [[nodiscard]] Arena known_at(Va first) const noexcept {
    Arena a = *this;
    a.known_ = first.value();
    return a;
  }
  [[nodiscard]] bool has_side() const noexcept { return side_ != nullptr; }
  // All side records, by a buffer's index; nullptr: there are none.
  [[nodiscard]] SideRecord* sides() const noexcept { return side_; }
  // The side record of a buffer; requires has_side(). Who holds the buffer may use it.
  [[nodiscard]] SideRecord& side(uint32_t index) const noexcept {
    KILIM_ASSERT(side_ != nullptr && index < count_);
    return side_[index];
  }

 private:
  std::byte* base_ = nullptr;
  uint64_t known_ = 0;  // address of base_ as the keys count
  SideRecord* side_ = nullptr;
  uint32_t stride_ = default_stride;
  uint32_t count_ = 0;
};

struct ArenaConfig {
  uint32_t buffers = 8192;
  uint32_t stride = default_stride;  // bytes, an odd number of cache lines
  bool side_records = false;         // for RxConfig::side: 16 bytes more for each buffer
  int numa_node = -1;                // of the device; -1: any
};

// ArenaMemory: the process's arena in EAL memory: hugepages, or ordinary pages with --no-huge.
// Move-only; destroyed after every pool and region over it. Control thread. create() returns EEXIST
// for a second one, ENOMEM, or the errors of Arena::over().
class ArenaMemory {
 public:
  static Result<ArenaMemory> create(const ArenaConfig& config);

  [[nodiscard]] const Arena& arena() const noexcept { return arena_; }
  // Bytes of the pages that it lies in, for Registrar::register_memory().
  [[nodiscard]] uint64_t page_bytes() const noexcept { return buffers_.range().page_bytes; }

 private:
  ArenaMemory(mem::Block buffers, mem::Block side, const Arena& arena) noexcept
      : buffers_(std::move(buffers)), side_(std::move(side)), arena_(arena) {}

  mem::Block buffers_;
  mem::Block side_;
  Arena arena_;
};

}  // namespace kilim::pool
