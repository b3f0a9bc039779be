// SPDX-License-Identifier: BSD-3-Clause
// Pool: the free buffers of a part of the arena, in a ring that all threads use. BufferCache: a
// worker's own stack of free buffers, which exchanges with the pool in bulk (as rte_mempool_cache).
// Neither blocks; an allocation returns fewer buffers than asked for when the pool is empty. A pool
// that watches its buffers (PoolDebug), or whose buffers are mbufs (pool/mbuf.hh), leaves none in
// caches: then each call goes the long way to the pool, which the short way does not notice.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/cold.hh"
#include "kilim/detail/base/dpdk.hh"
#include "kilim/detail/base/outlived.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/config.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/pool/row.hh"
#include "kilim/detail/pool/who.hh"

struct rte_mempool;

namespace kilim::inline v1::pool {

class Ledger;

class Pool {
 public:
  // Control thread. The arena's memory outlives the pool. EINVAL: the buffers are not within the
  // arena; EBUSY: another pool has some of them; EEXIST: the name is in use; ENOMEM. A pool that
  // watches its buffers says when it is destroyed which of them did not come back.
  static Result<Pool> create(const Arena& arena, const PoolConfig& config);
  // The free mbufs of a mempool, which lie in `arena`; for MbufPool. The mempool outlives the pool.
  // EBUSY as above.
  static Result<Pool> of_mbufs(const Arena& arena, rte_mempool& mempool);

  [[nodiscard]] const Arena& arena() const noexcept { return arena_; }
  [[nodiscard]] uint32_t size() const noexcept { return count_; }
  // True: the buffer is of this pool.
  [[nodiscard]] bool has(uint32_t index) const noexcept { return index - first_ < count_; }
  // Free buffers in the ring, without those in caches.
  [[nodiscard]] uint32_t available() const noexcept {
    return mbufs_ != nullptr ? available_mbufs() : rte_ring_count(ring_.get());
  }

  // True, and says so on stderr: EAL was cleaned up before `what`, so nothing can be returned.
  [[nodiscard]] bool is_gone(const char* what) const noexcept {
    const void* const memory = ring_.get();
    return outlived_eal(memory != nullptr ? memory : mbufs_.get(), what);
  }

  // Any thread. Removes up to the span's size of free buffers; returns how many.
  uint32_t pop(std::span<uint32_t> indices) noexcept {
    if (keeps_all()) [[unlikely]]
      return lend(indices, {});
    return rte_ring_dequeue_burst_elem(ring_.get(), indices.data(), sizeof(uint32_t),
                                       static_cast<unsigned>(indices.size()), nullptr);
  }
  // Any thread. Returns buffers; the ring has room for all of the pool.
  void push(std::span<const uint32_t> indices) noexcept {
    if (keeps_all()) [[unlikely]]
      return take_back(indices, {});
    [[maybe_unused]] unsigned n =
        rte_ring_enqueue_burst_elem(ring_.get(), indices.data(), sizeof(uint32_t),
                                    static_cast<unsigned>(indices.size()), nullptr);
    KILIM_ASSERT(n == indices.size());
  }

  // True: no buffer stays in a cache; every one goes through lend() and take_back().
  [[nodiscard]] bool keeps_all() const noexcept { return ledger_ != nullptr || mbufs_ != nullptr; }
  // pop() and push() for a pool that keeps all; `who` is written down. A buffer with other holders
  // loses one. Any thread.
  KILIM_COLD uint32_t lend(std::span<uint32_t> out, Who who) noexcept;
  KILIM_COLD void take_back(std::span<const uint32_t> indices, Who who) noexcept;

  // How often a watched pool has handed out a buffer; 0 if the pool watches none. A handle that was
  // kept is stale if the number differs. Any thread.
  [[nodiscard]] KILIM_COLD uint32_t generation(uint32_t index) const noexcept;
  // Misuses seen so far, told or not.
  [[nodiscard]] KILIM_COLD uint64_t faults() const noexcept;
  // Reports who holds buffers now, as leaks; returns how many are held.
  KILIM_COLD uint32_t report_held() noexcept;

 private:
  struct FreeRing {
    void operator()(rte_ring* ring) const noexcept;
  };
  struct CloseLedger {  // reports what is held
    void operator()(Ledger* ledger) const noexcept;
  };
  struct ReleaseMbufs {
    void operator()(rte_mempool* mempool) const noexcept;
  };
  Pool() = default;
  [[nodiscard]] KILIM_COLD uint32_t available_mbufs() const noexcept;

  std::unique_ptr<rte_ring, FreeRing> ring_;  // none of a pool of mbufs
  Arena arena_;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  std::unique_ptr<Ledger, CloseLedger> ledger_;
  std::unique_ptr<rte_mempool, ReleaseMbufs> mbufs_;
};

// Last in, first out: the buffer freed last is still in the processor's cache. Owner: one worker.
class BufferCache {
 public:
  static constexpr uint32_t exchange = 256;           // buffers moved from or to the ring at once
  static constexpr uint32_t capacity = 2 * exchange;  // a full cache returns half to the ring

  explicit BufferCache(Pool& pool) noexcept
      : pool_(&pool),
        arena_(pool.arena()),
        limit_(pool.arena().has_holders() || pool.keeps_all() ? 0 : capacity) {}
  BufferCache(const BufferCache&) = delete;
  BufferCache& operator=(const BufferCache&) = delete;
  ~BufferCache() {
    if (top_ != 0 && !pool_->is_gone("a cache of packet buffers")) flush();
  }

  [[nodiscard]] const Arena& arena() const noexcept { return arena_; }
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }
  // Free buffers in the cache.
  [[nodiscard]] uint32_t held() const noexcept { return top_; }
  // Names who takes and frees buffers by this cache, for a pool that watches them. `tag` has static
  // lifetime.
  void set_tag(const char* tag) noexcept { tag_ = tag; }

  // Allocates buffers, which the caller holds from now on; returns how many. Fewer than asked for:
  // the pool is empty.
  uint32_t alloc_indices(std::span<uint32_t> out) noexcept {
    owner_.check();
    const auto want = static_cast<uint32_t>(out.size());
    if (top_ < want) [[unlikely]]
      return alloc_beyond(out, Handle{});
    pop_row(out.data(), want, Handle{});
    return want;
  }

  // Allocates indices that stay in the cache's own memory, unchanged until the next call. Null: the
  // cache has fewer and allocated none; alloc_indices() goes to the pool.
  [[nodiscard]] const uint32_t* alloc_in_place(uint32_t count) noexcept {
    owner_.check();
    if (top_ < count) [[unlikely]]
      return nullptr;
    top_ -= count;
    return slots_ + top_;
  }

  // Allocates handles with data offset 0 and `length` bytes. Always inlined, like free(): a pool
  // that watches names the function to which the long way returns.
  [[gnu::always_inline]] uint32_t alloc(std::span<Handle> out, uint16_t length) noexcept {
    owner_.check();
    const auto want = static_cast<uint32_t>(out.size());
    const Handle like{0, length, 0};
    if (top_ < want) [[unlikely]]
      return alloc_beyond(out, like);
    pop_row(out.data(), want, like);
    return want;
  }

  // Frees the buffers of the handles, whichever worker allocated them. A buffer with several
  // holders (Arena::share) is free when the last of them frees it.
  [[gnu::always_inline]] void free(std::span<const Handle> handles) noexcept { free_row(handles); }
  void free_indices(std::span<const uint32_t> indices) noexcept { free_row(indices); }
  // Gives back `holds` of a buffer's holders at once; requires Arena::has_holders().
  void free_holds(uint32_t index, uint16_t holds) noexcept {
    owner_.check();
    if (pool_->keeps_all()) {
      for (uint32_t i = 0; i < holds; i++) put(index);
      return;
    }
    if (!arena_.drop(index, holds)) return;
    if (top_ == capacity) spill();
    slots_[top_++] = index;
  }
  [[gnu::always_inline]] void free_one(Handle h) noexcept {
    owner_.check();
    put(h.index);
  }

  // Lets another worker use the cache from now on; the two never use it at the same time.
  void release_owner() noexcept { owner_.release(); }
  // Returns all buffers to the pool and the owner: for a worker that ends or is idle for long.
  void flush() noexcept {
    while (top_ > 0) spill();
    owner_.release();
  }

 private:
  void put(uint32_t index) noexcept {
    KILIM_ASSERT(limit_ == 0 || index < arena_.count());
    if (top_ >= limit_) [[unlikely]]
      return free_beyond(std::span<const uint32_t>(&index, 1));
    slots_[top_++] = index;
  }
  // Writes the newest `n` buffers of the cache, which has so many, to `out`.
  void pop_row(uint32_t* out, uint32_t n, Handle) noexcept {
    top_ -= n;
    detail::row_of_indices(out, slots_ + top_, n);
  }
  void pop_row(Handle* out, uint32_t n, Handle like) noexcept {
    top_ -= n;
    detail::row_of_handles(out, slots_ + top_, n, like);
  }
  // More than the cache has.
  template <typename T>
  [[gnu::noinline]] uint32_t alloc_beyond(std::span<T> out, Handle like) noexcept {
    if (pool_->keeps_all()) return borrow(out, like, {tag_, __builtin_return_address(0)});
    const auto want = static_cast<uint32_t>(out.size());
    uint32_t done = 0;
    while (done < want) {
      if (top_ == 0 && !refill()) break;
      const uint32_t n = want - done < top_ ? want - done : top_;
      pop_row(out.data() + done, n, like);
      done += n;
    }
    return done;
  }
  template <typename T>
  [[gnu::always_inline]] void free_row(std::span<const T> row) noexcept {
    owner_.check();
    for ([[maybe_unused]] const T& buffer : row)
      KILIM_ASSERT(limit_ == 0 || detail::index_of(buffer) < arena_.count());
    if (top_ + row.size() > limit_) [[unlikely]]
      return free_beyond(row);
    push_row(row);
  }
  template <typename T>
  void push_row(std::span<const T> row) noexcept {
    const auto n = static_cast<uint32_t>(row.size());
    detail::row_of_indices(slots_ + top_, row.data(), n);
    top_ += n;
  }
  // More than the cache has room for, or buffers that may have other holders.
  template <typename T>
  [[gnu::noinline]] void free_beyond(std::span<const T> row) noexcept {
    if (pool_->keeps_all()) return give_back(row, {tag_, __builtin_return_address(0)});
    if (limit_ == 0) return free_shared(row);
    while (!row.empty()) {
      if (top_ == capacity) spill();
      const std::size_t n = row.size() < capacity - top_ ? row.size() : capacity - top_;
      push_row(row.first(n));
      row = row.subspan(n);
    }
  }
  // Straight from and to a pool that keeps all; the cache is empty.
  template <typename T>
  uint32_t borrow(std::span<T> out, Handle like, Who who) noexcept {
    uint32_t done = 0;
    while (done < out.size()) {
      const std::size_t left = out.size() - done;
      const std::span<uint32_t> some(slots_, left < capacity ? left : capacity);
      const uint32_t n = pool_->lend(some, who);
      top_ = n;
      pop_row(out.data() + done, n, like);
      done += n;
      if (n < some.size()) break;
    }
    return done;
  }
  template <typename T>
  void give_back(std::span<const T> row, Who who) noexcept {
    while (!row.empty()) {
      const std::size_t n = row.size() < capacity ? row.size() : capacity;
      push_row(row.first(n));
      top_ = 0;
      pool_->take_back({slots_, n}, who);
      row = row.subspan(n);
    }
  }
  template <typename T>
  void free_shared(std::span<const T> row) noexcept {
    for (const T& buffer : row) {
      const uint32_t index = detail::index_of(buffer);
      if (!arena_.drop(index)) continue;
      if (top_ == capacity) spill();
      slots_[top_++] = index;
    }
  }
  // Fills an empty cache from the pool. False: the pool is empty.
  bool refill() noexcept {
    top_ = pool_->pop({slots_, exchange});
    return top_ != 0;
  }
  // Returns the oldest half; the newest buffers are in the processor's cache.
  void spill() noexcept {
    uint32_t n = top_ < exchange ? top_ : exchange;
    pool_->push({slots_, n});
    top_ -= n;
    std::memmove(slots_, slots_ + n, top_ * sizeof(uint32_t));
  }

  Pool* pool_;
  Arena arena_;
  uint32_t top_ = 0;
  uint32_t limit_;  // a free that would go beyond takes the long way; 0: every one
  Owner owner_;
  KILIM_CACHELINE_ALIGNED uint32_t slots_[capacity];
  const char* tag_ = nullptr;
};

}  // namespace kilim::inline v1::pool
