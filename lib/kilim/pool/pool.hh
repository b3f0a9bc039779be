// SPDX-License-Identifier: BSD-3-Clause
// A pool: the free buffers of a part of the arena, kept in one ring that workers exchange with in
// bulk; Stash is a worker's own heap of free buffers. A pool is shared by all threads, a stash
// belongs to one. Never blocks; allocation returns fewer than asked when the pool runs dry.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include <rte_ring_elem.h>

#include "kilim/base/assert.hh"
#include "kilim/base/cacheline.hh"
#include "kilim/base/outlived.hh"
#include "kilim/base/owner.hh"
#include "kilim/base/result.hh"
#include "kilim/pool/arena.hh"
#include "kilim/pool/handle.hh"

namespace kilim::pool {

struct PoolConfig {
  const char* name = "kilim_pool";  // unique in the process, at most 20 characters
  uint32_t first = 0;               // the part of the arena that belongs to this pool
  uint32_t count = 0;
  int numa_node = -1;
};

class Pool {
 public:
  // EBUSY: another pool that lives has some of these buffers: they would be handed out twice.
  static Result<Pool> create(const Arena& arena, const PoolConfig& config);

  [[nodiscard]] const Arena& arena() const noexcept { return arena_; }
  [[nodiscard]] uint32_t size() const noexcept { return count_; }
  // Free buffers in the ring; those in stashes and in flight are not among them.
  [[nodiscard]] uint32_t available() const noexcept { return rte_ring_count(ring_.get()); }

  // EAL was cleaned up before the pool: nothing can be given back.
  [[nodiscard]] bool is_gone(const char* what) const noexcept {
    return outlived_eal(ring_.get(), what);
  }

  // The bulk exchange, any thread. Gives away up to the span's size; what it gave.
  uint32_t take(std::span<uint32_t> indices) noexcept {
    return rte_ring_dequeue_burst_elem(ring_.get(), indices.data(), sizeof(uint32_t),
                                       static_cast<unsigned>(indices.size()), nullptr);
  }
  // Takes all: the ring has room for every buffer of the pool.
  void give(std::span<const uint32_t> indices) noexcept {
    [[maybe_unused]] unsigned n =
        rte_ring_enqueue_burst_elem(ring_.get(), indices.data(), sizeof(uint32_t),
                                    static_cast<unsigned>(indices.size()), nullptr);
    KILIM_ASSERT(n == indices.size());
  }

 private:
  struct FreeRing {
    void operator()(rte_ring* ring) const noexcept;
  };
  Pool() = default;

  std::unique_ptr<rte_ring, FreeRing> ring_;
  Arena arena_;
  uint32_t count_ = 0;
};

// The last freed is the first allocated: its lines are still in the cache. Owner: one worker.
class Stash {
 public:
  static constexpr uint32_t exchange = 256;           // buffers a trip to the ring
  static constexpr uint32_t capacity = 2 * exchange;  // beyond it half goes back

  explicit Stash(Pool& pool) noexcept : pool_(&pool), arena_(pool.arena()) {}
  Stash(const Stash&) = delete;
  Stash& operator=(const Stash&) = delete;
  ~Stash() {
    if (top_ != 0 && !pool_->is_gone("a stash of packet buffers")) flush();
  }

  [[nodiscard]] const Arena& arena() const noexcept { return arena_; }
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }
  [[nodiscard]] uint32_t held() const noexcept { return top_; }

  // Hands out buffers; the caller holds them from now on. Fewer than asked: the pool is dry.
  uint32_t alloc_indices(std::span<uint32_t> out) noexcept {
    owner_.check();
    auto want = static_cast<uint32_t>(out.size());
    uint32_t done = 0;
    while (done < want) {
      if (top_ == 0 && !refill()) break;
      uint32_t n = want - done < top_ ? want - done : top_;
      top_ -= n;
      std::memcpy(out.data() + done, slots_ + top_, n * sizeof(uint32_t));
      done += n;
    }
    return done;
  }

  // Handles of `length` bytes at data offset 0.
  uint32_t alloc(std::span<Handle> out, uint16_t length) noexcept {
    owner_.check();
    auto want = static_cast<uint32_t>(out.size());
    uint32_t done = 0;
    for (; done < want; done++) {
      if (top_ == 0 && !refill()) break;
      out[done] = Handle{slots_[--top_], length, 0};
    }
    return done;
  }

  // Takes the buffers of all handles, whatever pool worker allocated them.
  void free(std::span<const Handle> handles) noexcept {
    owner_.check();
    for (Handle h : handles) put(h.index);
  }
  void free_indices(std::span<const uint32_t> indices) noexcept {
    owner_.check();
    for (uint32_t i : indices) put(i);
  }
  void free_one(Handle h) noexcept {
    owner_.check();
    put(h.index);
  }

  // Hands the stash to another worker, which must not overlap with this one.
  void release_owner() noexcept { owner_.release(); }
  // Everything goes back to the pool: at the end of a worker, or when it goes idle for long.
  void flush() noexcept {
    while (top_ > 0) spill();
    owner_.release();
  }

 private:
  void put(uint32_t index) noexcept {
    KILIM_ASSERT(index < arena_.count());
    if (top_ == capacity) spill();
    slots_[top_++] = index;
  }
  bool refill() noexcept {
    top_ = pool_->take({slots_, exchange});
    return top_ != 0;
  }
  // The oldest half goes: the newest is the warm one.
  void spill() noexcept {
    uint32_t n = top_ < exchange ? top_ : exchange;
    pool_->give({slots_, n});
    top_ -= n;
    std::memmove(slots_, slots_ + n, top_ * sizeof(uint32_t));
  }

  Pool* pool_;
  Arena arena_;
  uint32_t top_ = 0;
  [[no_unique_address]] Owner owner_;
  KILIM_CACHELINE_ALIGNED uint32_t slots_[capacity];
};

}  // namespace kilim::pool
