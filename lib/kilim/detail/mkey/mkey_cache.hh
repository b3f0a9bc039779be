// SPDX-License-Identifier: BSD-3-Clause
// MkeyCache: one worker's share of an MkeyPool's free keys. Keys move between pool and caches in
// bulk over the pool's rte_ring, so that a key seldom costs an atomic operation.
// Owner: one worker; the pool outlives the cache. Never allocates, blocks or logs.
#pragma once

#include <cstdint>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/dpdk.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/mkey/mkey.hh"
#include "kilim/detail/mkey/mkey_pool.hh"

namespace kilim::inline v1::mkey {

class KILIM_CACHELINE_ALIGNED MkeyCache {
 public:
  static constexpr uint32_t capacity = 64;        // keys
  static constexpr uint32_t bulk = capacity / 2;  // keys moved from or to the pool at once

  explicit MkeyCache(MkeyPool& pool) noexcept : ring_(pool.ring_.get()) {}
  MkeyCache(const MkeyCache&) = delete;
  MkeyCache& operator=(const MkeyCache&) = delete;
  ~MkeyCache() { flush(); }

  // A key in state free; nullptr: cache and pool are empty.
  [[nodiscard]] Mkey* pop() noexcept {
    owner_.check();
    if (count_ == 0) count_ = rte_ring_dequeue_burst(ring_, slots(), bulk, nullptr);
    return count_ == 0 ? nullptr : keys_[--count_];
  }
  // Returns a key in state free that nobody uses. A full cache returns half of its keys to the
  // pool.
  void push(Mkey* key) noexcept {
    owner_.check();
    KILIM_ASSERT(key->state == MkeyState::free && !key->has(Mkey::of_a_bind));
    if (count_ == capacity) {
      count_ -= bulk;
      (void)rte_ring_enqueue_bulk(ring_, slots() + count_, bulk, nullptr);
    }
    keys_[count_++] = key;
  }
  // Returns every key to the pool.
  void flush() noexcept {
    if (count_ != 0) (void)rte_ring_enqueue_bulk(ring_, slots(), count_, nullptr);
    count_ = 0;
  }
  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  // Lets another worker use the cache from now on; the two never use it at the same time.
  void release_owner() noexcept { owner_.release(); }

 private:
  [[nodiscard]] void** slots() noexcept { return reinterpret_cast<void**>(keys_); }
  rte_ring* ring_;
  uint32_t count_ = 0;
  Owner owner_;
  Mkey* keys_[capacity];
};

}  // namespace kilim::inline v1::mkey
