// SPDX-License-Identifier: BSD-3-Clause
// Arena: the memory of packet buffers, one range cut into strides, so that an index becomes an
// address by one multiplication. A value that every burst copies. ArenaMemory owns the memory, one
// in a process, made at set-up. Any thread may translate; the memory lives until no handle is in
// use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/mem/block.hh"
#include "kilim/detail/pool/handle.hh"

namespace kilim::inline v1::pool {

// Bytes from one buffer to the next: an odd number of cache lines, because with 2048 bytes the
// first lines of all buffers would share a few cache sets.
inline constexpr uint32_t default_stride = 33 * cacheline_bytes;

// The smallest stride in bytes, an odd number of lines, that holds `bytes`.
constexpr uint32_t stride_for(uint32_t bytes) noexcept {
  auto lines = static_cast<uint32_t>((bytes + cacheline_bytes - 1) / cacheline_bytes);
  return static_cast<uint32_t>((lines | 1u) * cacheline_bytes);
}
static_assert(stride_for(2048) == default_stride && stride_for(9216) % 128 == 64);

// How many hold a buffer besides the first; 0 for a buffer that is free.
using ExtraHolders = std::atomic<uint16_t>;
static_assert(sizeof(ExtraHolders) == sizeof(uint16_t) && ExtraHolders::is_always_lock_free);

// Side records of a buffer of `stride` bytes: one, or one for each piece of `piece` bytes of it.
constexpr uint32_t side_records_of(uint32_t stride, uint32_t piece) noexcept {
  return piece == 0 ? 1 : (stride + piece - 1) / piece;
}

class Arena {
 public:
  // An arena of no buffers.
  Arena() = default;

  // An arena over the caller's memory, which outlives it. EINVAL: the stride is not an odd number
  // of lines below 256, the memory is smaller than one buffer, or `side_piece` is neither 0 nor
  // a power of two from 64 to 4096. `side` has side_records_of(stride, side_piece) entries for each
  // buffer, `extra` one, which is 0.
  static Result<Arena> over(std::span<std::byte> memory, uint32_t stride = default_stride,
                            SideRecord* side = nullptr, ExtraHolders* extra = nullptr,
                            uint32_t side_piece = 0);
  // An arena over memory that another allocator cut into buffers of `room` bytes, each beginning a
  // multiple of `stride` bytes from the first; not every multiple begins one. `memory` reaches from
  // the first buffer to the end of the last. EINVAL: the stride is no number of lines below 256.
  static Result<Arena> over_others(std::span<std::byte> memory, uint32_t stride, uint16_t room);

  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  [[nodiscard]] uint32_t stride() const noexcept { return stride_; }
  // Bytes of a buffer that are the holder's: the stride, but for over_others().
  [[nodiscard]] uint32_t room() const noexcept { return room_; }
  [[nodiscard]] std::span<std::byte> memory() const noexcept {
    if (count_ == 0) return {};
    return {base_, std::size_t{count() - 1} * stride_ + room_};
  }

  // The first byte of a buffer in this process.
  [[nodiscard]] std::byte* buffer(uint32_t index) const noexcept {
    KILIM_ASSERT(index < count());
    return base_ + std::size_t{index} * stride_;
  }
  // The handle's first byte in this process.
  [[nodiscard]] std::byte* data(Handle h) const noexcept { return buffer(h.index) + h.offset(); }
  [[nodiscard]] std::span<std::byte> bytes(Handle h) const noexcept { return {data(h), h.length}; }
  // The handle's first byte as the keys count.
  [[nodiscard]] Va address(Handle h) const noexcept {
    KILIM_ASSERT(h.index < count());
    return Va{known_ + std::size_t{h.index} * stride_ + h.offset()};
  }
  // Address of the first buffer as the keys count.
  [[nodiscard]] Va first_address() const noexcept { return Va{known_}; }
  // A copy of the arena for keys that count from `first`: zero-based regions, device memory.
  [[nodiscard]] Arena known_at(Va first) const noexcept {
    Arena a = *this;
    a.known_ = first.value();
    return a;
  }
  [[nodiscard]] bool has_side() const noexcept { return side_ != nullptr; }
  // The records of packets that begin in the same piece of their buffer as `offset`, by a buffer's
  // index; nullptr: there are none.
  [[nodiscard]] SideRecord* sides(uint32_t offset = 0) const noexcept {
    return side_ == nullptr ? nullptr : side_ + std::size_t{offset >> side_log_} * count();
  }
  // The side record of a packet; requires has_side(). Who holds the packet may use it.
  [[nodiscard]] SideRecord& side(Handle h) const noexcept {
    KILIM_ASSERT(side_ != nullptr && h.index < count() && h.offset() < stride_);
    if (side_log_ == whole) [[likely]]
      return side_[h.index];
    return side_[std::size_t{h.offset() >> side_log_} * count() + h.index];
  }
  // Bytes of a buffer for which there is a side record; 0: there is one for all of it.
  [[nodiscard]] uint32_t side_piece() const noexcept {
    return side_log_ == whole ? 0 : 1u << side_log_;
  }

  // True: a buffer may have several holders, and every free looks at their number.
  [[nodiscard]] bool has_holders() const noexcept { return extra_ != nullptr; }
  // The number of holders of a buffer that is not free; requires has_holders().
  [[nodiscard]] uint32_t holders(uint32_t index) const noexcept {
    return 1u + extra(index).load(std::memory_order_relaxed);
  }
  // Adds `more` holders to a buffer that the caller holds; each of them frees it. Requires
  // has_holders(). At most 65,536 hold a buffer. Nobody writes to it while it has several.
  void share(uint32_t index, uint16_t more) const noexcept {
    KILIM_ASSERT(uint32_t{more} + extra(index).load(std::memory_order_relaxed) <= UINT16_MAX);
    extra(index).fetch_add(more, std::memory_order_relaxed);
  }
  // For BufferCache: takes one holder away. True: it was the last, and the buffer is free. The last
  // one sees what the others did before (as rte_mbuf_refcnt_update).
  [[nodiscard]] bool drop(uint32_t index) const noexcept { return drop(index, 1); }
  // Takes `holds` holders away at once, all of them the caller's.
  [[nodiscard]] bool drop(uint32_t index, uint16_t holds) const noexcept {
    ExtraHolders& all = extra(index);
    const auto last = static_cast<uint16_t>(holds - 1);  // what is there if nobody else holds it
    if (all.load(std::memory_order_acquire) == last) {
      if (last != 0) all.store(0, std::memory_order_relaxed);
      return true;
    }
    if (all.fetch_sub(holds, std::memory_order_acq_rel) != last) return false;
    all.store(0, std::memory_order_relaxed);  // others dropped it in between
    return true;
  }

 private:
  [[nodiscard]] ExtraHolders& extra(uint32_t index) const noexcept {
    KILIM_ASSERT(extra_ != nullptr && index < count());
    return extra_[index];
  }

  std::byte* base_ = nullptr;
  uint64_t known_ = 0;  // address of base_ as the keys count
  SideRecord* side_ = nullptr;
  ExtraHolders* extra_ = nullptr;
  static constexpr uint32_t whole = 13;  // no handle's offset is 2^13 bytes
  static constexpr uint32_t most_buffers = (1u << 28) - 1;
  static_assert(max_offset >> whole == 0);
  uint16_t stride_ = default_stride;
  uint16_t room_ = default_stride;
  uint32_t count_ : 28 = 0;
  uint32_t side_log_ : 4 = whole;  // of the bytes that a side record is for
};
static_assert(sizeof(Arena) == 40);  // with it, the words of BufferCache are one line

struct ArenaConfig {
  uint32_t buffers = 8192;
  uint32_t stride = default_stride;  // bytes, an odd number of cache lines
  bool side_records = false;         // for RxConfig::side: 32 bytes more for each buffer
  // With side records: bytes of a buffer for which there is one each, a power of two from 64 to
  // 4096 and at most the strides of a striding receive queue; 0: one for the whole buffer.
  uint32_t side_piece = 0;
  bool holders = false;  // for Arena::share(): 2 bytes more for each buffer
  int numa_node = -1;    // of the device; -1: any
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
  ArenaMemory(mem::Block buffers, mem::Block side, mem::Block extra, const Arena& arena) noexcept
      : buffers_(std::move(buffers)),
        side_(std::move(side)),
        extra_(std::move(extra)),
        arena_(arena) {}

  mem::Block buffers_;
  mem::Block side_;
  mem::Block extra_;
  Arena arena_;
};

}  // namespace kilim::inline v1::pool
