// SPDX-License-Identifier: BSD-3-Clause
// A pool of indirect keys, made in bulk, and the stash from which one lcore takes them. Keys move
// between pool and stashes in bulk over an rte_ring; a key has one holder at any time.
// KeyPool: made and destroyed by the control thread; it outlives its stashes. KeyStash: one worker.
// take() and give() never allocate, block or log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <rte_ring.h>

#include "kilim/base/cacheline.hh"
#include "kilim/base/owner.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/key_source.hh"
#include "kilim/umr/key.hh"

namespace kilim::umr {

class KeyPool {
 public:
  // `source` outlives the pool. With a limit beyond `count` it may grow until then.
  static Result<std::unique_ptr<KeyPool>> create(mr::KeySource& source, uint32_t count,
                                                 const mr::KeyRequest& request, uint32_t limit = 0);
  // Of keys of the ordinary kind.
  static Result<std::unique_ptr<KeyPool>> create(mr::KeySource& source, uint32_t count,
                                                 uint32_t max_entries);
  KeyPool(const KeyPool&) = delete;
  KeyPool& operator=(const KeyPool&) = delete;
  // All keys are back.
  ~KeyPool();

  // Up to `more` further keys as the first ones are, as the limit allows. ENOSPC: it is reached.
  // By who has the pool alone: no worker takes, gives or looks for keys meanwhile.
  Status grow(uint32_t more);

  [[nodiscard]] uint32_t size() const noexcept { return count_; }
  [[nodiscard]] uint32_t limit() const noexcept { return limit_; }
  // Keys by number, for lists that need no memory of their own. Of keys that the caller holds.
  [[nodiscard]] IndirectKey& at(uint32_t number) noexcept { return keys_[number]; }
  [[nodiscard]] uint32_t number_of(const IndirectKey& key) const noexcept {
    return static_cast<uint32_t>(&key - keys_.get());
  }
  // Whether the handle may be one of this pool's keys; what says no is none.
  [[nodiscard]] bool may_hold(Lkey handle) const noexcept {
    return index_of(handle).value() - first_index_ <= index_span_;
  }
  // Of the key with this handle, whatever its tag; IndirectKey::none: of no key of the pool's.
  [[nodiscard]] uint32_t number_of(Lkey handle) const noexcept __asm__("kilim_cold_pool_number_of");
  // Keys in the pool itself, not in a stash or in use.
  [[nodiscard]] uint32_t available() const noexcept { return rte_ring_count(ring_.get()); }

 private:
  friend class KeyStash;
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  KeyPool(mr::KeySource& source, const mr::KeyRequest& request, uint32_t limit) noexcept
      : source_(source), request_(request), limit_(limit) {}
  // Keys with consecutive indices: a device mostly gives them out so.
  struct Run {
    uint32_t index;
    uint32_t number;
    uint32_t count;
  };
  Status make_keys(uint32_t count);
  void keep_runs(std::span<const Run> more);
  void destroy_keys() noexcept;

  mr::KeySource& source_;
  mr::KeyRequest request_;
  uint32_t limit_;
  uint32_t count_ = 0;
  std::unique_ptr<rte_ring, Free> ring_;
  std::unique_ptr<IndirectKey[], Free> keys_;  // never move: holders keep pointers
  uint32_t first_index_ = ~0u;
  uint32_t index_span_ = 0;
  std::unique_ptr<Run[]> runs_;  // by index
  uint32_t run_count_ = 0;
};

// All that is kept of a key: itself and its place in the ring, which has up to twice as many
// places.
inline constexpr std::size_t bytes_a_key = sizeof(IndirectKey) + 2 * sizeof(void*);
static_assert(bytes_a_key <= 64);

class KILIM_CACHELINE_ALIGNED KeyStash {
 public:
  static constexpr uint32_t capacity = 64;
  static constexpr uint32_t bulk = capacity / 2;

  explicit KeyStash(KeyPool& pool) noexcept : ring_(pool.ring_.get()) {}
  KeyStash(const KeyStash&) = delete;
  KeyStash& operator=(const KeyStash&) = delete;
  ~KeyStash() { flush(); }

  // A key in state free, or nullptr while the pool is dry.
  [[nodiscard]] IndirectKey* take() noexcept {
    owner_.check();
    if (count_ == 0) count_ = rte_ring_dequeue_burst(ring_, slots(), bulk, nullptr);
    return count_ == 0 ? nullptr : keys_[--count_];
  }
  // Takes the key back; nobody uses it any more.
  void give(IndirectKey* key) noexcept {
    owner_.check();
    KILIM_ASSERT(key->state == KeyState::free && !key->has(IndirectKey::of_a_bind));
    if (count_ == capacity) {
      count_ -= bulk;
      (void)rte_ring_enqueue_bulk(ring_, slots() + count_, bulk, nullptr);
    }
    keys_[count_++] = key;
  }
  // Everything back to the pool.
  void flush() noexcept {
    if (count_ != 0) (void)rte_ring_enqueue_bulk(ring_, slots(), count_, nullptr);
    count_ = 0;
  }
  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  // Hands the stash to another worker, which must not overlap with this one.
  void release_owner() noexcept { owner_.release(); }

 private:
  [[nodiscard]] void** slots() noexcept { return reinterpret_cast<void**>(keys_); }
  rte_ring* ring_;
  uint32_t count_ = 0;
  [[no_unique_address]] Owner owner_;
  IndirectKey* keys_[capacity];
};

}  // namespace kilim::umr
