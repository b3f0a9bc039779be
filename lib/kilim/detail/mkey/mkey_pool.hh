// SPDX-License-Identifier: BSD-3-Clause
// MkeyPool: indirect mkeys, made in bulk because each one is a command to the device. Free keys lie
// in an rte_ring, from which each worker's MkeyCache (mkey/mkey_cache.hh) takes them in bulk.
// Threads: the control thread makes and destroys the pool, which outlives its caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kilim/detail/base/cold.hh"
#include "kilim/detail/base/dpdk.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/mkey/mkey.hh"
#include "kilim/detail/mr/mkey_source.hh"

namespace kilim::inline v1::mkey {

class MkeyPool {
 public:
  // Makes `count` keys at `source`, which outlives the pool. grow() may add keys until there are
  // `limit`. EINVAL: no keys, no entries, or too many for a ring; ENOMEM; or the source's error.
  static Result<std::unique_ptr<MkeyPool>> create(mr::MkeySource& source, uint32_t count,
                                                  const mr::MkeyRequest& request,
                                                  uint32_t limit = 0);
  // Makes a pool of KLM keys without further features.
  static Result<std::unique_ptr<MkeyPool>> create(mr::MkeySource& source, uint32_t count,
                                                  uint32_t max_entries);
  MkeyPool(const MkeyPool&) = delete;
  MkeyPool& operator=(const MkeyPool&) = delete;
  // Destroys the keys at the source. All of them have been returned.
  ~MkeyPool();

  // Control thread, while no worker uses the pool or a cache of it. Makes up to `more` further
  // keys, as the limit allows. ENOSPC: the limit is reached; or the source's error.
  Status grow(uint32_t more);

  // Keys made so far, and the most that grow() makes of them.
  [[nodiscard]] uint32_t size() const noexcept { return count_; }
  [[nodiscard]] uint32_t limit() const noexcept { return limit_; }
  // Keys by number, 0 to size() - 1, so that lists can be linked through Mkey::next. The caller
  // holds the key.
  [[nodiscard]] Mkey& at(uint32_t number) noexcept { return keys_[number]; }
  [[nodiscard]] uint32_t number_of(const Mkey& key) const noexcept {
    return static_cast<uint32_t>(&key - keys_.get());
  }
  // False: the handle is no key of this pool. True: it may be one; number_of() tells. Any thread.
  [[nodiscard]] bool may_hold(Lkey handle) const noexcept {
    return index_of(handle).value() - first_index_ <= index_span_;
  }
  // The number of the key with this handle, whatever the tag; Mkey::none: not of this pool. Any
  // thread; a binary search.
  [[nodiscard]] KILIM_COLD uint32_t number_of(Lkey handle) const noexcept;
  // Keys in the ring: neither in a cache nor in use. Any thread.
  [[nodiscard]] uint32_t available() const noexcept { return rte_ring_count(ring_.get()); }

 private:
  friend class MkeyCache;
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  MkeyPool(mr::MkeySource& source, const mr::MkeyRequest& request, uint32_t limit) noexcept
      : source_(source), request_(request), limit_(limit) {}
  // A run of keys with consecutive indices: devices mostly number new mkeys in order.
  struct Run {
    uint32_t index;
    uint32_t number;
    uint32_t count;
  };
  Status make_keys(uint32_t count);
  void keep_runs(std::span<const Run> more);
  void destroy_mkeys() noexcept;

  mr::MkeySource& source_;
  mr::MkeyRequest request_;
  uint32_t limit_;
  uint32_t count_ = 0;
  std::unique_ptr<rte_ring, Free> ring_;
  std::unique_ptr<Mkey[], Free> keys_;  // never moved: holders keep pointers
  uint32_t first_index_ = ~0u;
  uint32_t index_span_ = 0;
  std::unique_ptr<Run[]> runs_;  // sorted by index
  uint32_t run_count_ = 0;
};

// Memory for one key: itself and its place in the ring, which has up to twice as many places.
inline constexpr std::size_t bytes_per_mkey = sizeof(Mkey) + 2 * sizeof(void*);
static_assert(bytes_per_mkey <= 64);

}  // namespace kilim::inline v1::mkey
