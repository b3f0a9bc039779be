// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_MEMIC". An adapter's own memory: what is left of it, and the blocks that clients map
// and register. Owner: the adapter; its lock held. A child after fork allocates from the same
// memory: the counts are shared, so nothing here is the engine's business.
#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/core/profile.hh"

namespace kilim::vhca::hca {

// Whole pages, mapped here for the engine and by clients through `fd`; the block begins at `offset`
// in the first one. Goes with its last user's mapping, whatever became of the adapter.
class DmBlock {
 public:
  DmBlock() = default;
  DmBlock(DmBlock&& o) noexcept;
  DmBlock& operator=(DmBlock&& o) noexcept;
  DmBlock(const DmBlock&) = delete;
  DmBlock& operator=(const DmBlock&) = delete;
  ~DmBlock();

  // The memory's descriptor, for a client's mmap(2); it stays the block's.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  // All its pages, as the engine has them mapped; empty: no block.
  [[nodiscard]] std::span<std::byte> pages() const noexcept { return pages_; }
  [[nodiscard]] uint64_t va() const noexcept;  // of its first byte
  // Bytes from the first page's begin to the block.
  [[nodiscard]] uint32_t offset() const noexcept { return offset_; }
  // Of the first page in the adapter's window: mlx5_ib tells clients this number for mmap(2)
  // (dm.c).
  [[nodiscard]] uint16_t page_index() const noexcept { return page_index_; }
  // Where it lies in the adapter's window.
  [[nodiscard]] uint64_t device_address() const noexcept;

 private:
  friend class DeviceMemory;
  Fd fd_;
  std::span<std::byte> pages_;
  uint32_t bytes_ = 0;  // whole units
  uint32_t offset_ = 0;
  uint16_t page_index_ = 0;
};

class DeviceMemory {
 public:
  static constexpr uint32_t unit = 64;           // bytes are taken in these
  static constexpr uint32_t page_bytes = 4096;   // of a mapping
  static constexpr uint32_t window_pages = 256;  // that clients can map at a time
  static constexpr uint32_t most_opens = 1000;   // of the device with counts of their own

  DeviceMemory(const Profile&, uint64_t seed);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // What ibv_alloc_dm() asks for.
  struct Wish {
    uint64_t bytes = 0;          // rounded up to whole units
    uint32_t log_alignment = 0;  // of the first byte
    uint32_t open = 0;           // whose it is: enter()
  };
  // EOPNOTSUPP, EINVAL, ENOMEM as mlx5_ib.
  Result<DmBlock> alloc(const Wish&);
  // Takes a block back; mappings of clients keep its memory.
  void free(DmBlock&, uint32_t open) noexcept;

  // An open of the device: what its processes have taken goes back when it leaves. 0: a number that
  // those share for whom there was no other.
  uint32_t enter() noexcept;
  void leave(uint32_t open) noexcept;

  // Any thread.
  [[nodiscard]] uint32_t bytes_used() const noexcept;

 private:
  // In memory that children share: bytes of all, and of each open.
  struct Counts {
    std::atomic<uint32_t> all{0};
    std::atomic<uint32_t> of[most_opens]{};
  };
  bool take(uint32_t bytes, uint32_t open) noexcept;
  void give(uint32_t bytes, uint32_t open) noexcept;
  // The first of so many pages; window_pages: there are none.
  uint32_t find_pages(uint32_t pages) const noexcept;

  const uint32_t capacity_;       // bytes
  const uint8_t most_alignment_;  // log2 of bytes
  uint64_t seed_;                 // where in its first page the next block begins
  Counts* counts_ = nullptr;      // null: the adapter has none, or there was no memory
  std::bitset<window_pages> taken_;
  std::bitset<most_opens> entered_;
};

}  // namespace kilim::vhca::hca
