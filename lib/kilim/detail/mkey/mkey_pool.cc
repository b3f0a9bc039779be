// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mkey/mkey_pool.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/mkey/mkey_lists.hh"

namespace kilim::inline v1::mkey {

namespace {

constinit Roster<const MkeyPool> all_pools;

}  // namespace

void walk_mkey_pools(Visit<const MkeyPool> see) {
  all_pools.walk(see);
}

void MkeyPool::Free::operator()(void* memory) const noexcept {
  std::free(memory);
}

// Reserves memory for `limit` keys, as keys never move; pages of keys not yet made stay untouched.
Result<std::unique_ptr<MkeyPool>> MkeyPool::create(mr::MkeySource& source, uint32_t count,
                                                   const mr::MkeyRequest& request, uint32_t limit) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  static_assert(std::is_trivially_destructible_v<Mkey>);
  if (count == 0 || request.max_entries == 0)
    return Error{EINVAL, "a key pool needs keys and entries"};
  limit = std::max(limit, count);
  uint32_t slots = 2;
  while (slots <= limit && slots < RTE_RING_SZ_MASK) slots *= 2;
  const ssize_t bytes = rte_ring_get_memsize(slots);
  if (slots <= limit || bytes < 0) return Error{EINVAL, "a key pool of this size is not possible"};
  const auto whole = round_up(static_cast<uint32_t>(bytes), cacheline_bytes);
  std::unique_ptr<MkeyPool> pool{new MkeyPool(source, request, limit)};
  pool->ring_.reset(static_cast<rte_ring*>(std::aligned_alloc(cacheline_bytes, whole)));
  pool->keys_.reset(static_cast<Mkey*>(std::calloc(limit, sizeof(Mkey))));
  if (pool->ring_ == nullptr || pool->keys_ == nullptr ||
      rte_ring_init(pool->ring_.get(), "kilim_keys", slots, 0) != 0)
    return Error{ENOMEM, "no memory for the key pool"};
  if (Status s = pool->make_keys(count); !s) return s.error();
  all_pools.enter(*pool);
  return pool;
}

Result<std::unique_ptr<MkeyPool>> MkeyPool::create(mr::MkeySource& source, uint32_t count,
                                                   uint32_t max_entries) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  return create(source, count, mr::MkeyRequest{.max_entries = max_entries});
}

Status MkeyPool::grow(uint32_t more) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const uint32_t count = std::min(more, limit_ - count_);
  if (count == 0) return Error{ENOSPC, "the key pool has all the keys that it may have"};
  return make_keys(count);
}

// Numbers the keys in the order of their indices, so that few runs map an index to a number.
Status MkeyPool::make_keys(uint32_t count) {
  std::vector<mr::IndirectMkey> made(count);
  if (Status s = source_.create_mkeys(request_, made); !s) return s;
  std::sort(made.begin(), made.end(), [](const mr::IndirectMkey& a, const mr::IndirectMkey& b) {
    return a.lkey.value() < b.lkey.value();
  });
  const auto held = all_pools.hold();  // who walks sees the pool before or behind
  std::vector<Run> runs;
  for (const mr::IndirectMkey& m : made) {
    const uint32_t index = index_of(m.lkey).value();
    if (runs.empty() || index != runs.back().index + runs.back().count)
      runs.push_back({index, count_, 0});
    runs.back().count++;
    Mkey* key = new (&keys_[count_++]) Mkey;
    key->lkey = m.lkey;
    key->max_entries = m.max_entries;
    key->log_entity = m.log_entity_bytes;
    (void)rte_ring_enqueue(ring_.get(), key);
  }
  keep_runs(runs);
  return Done{};
}

void MkeyPool::keep_runs(std::span<const Run> more) {
  const auto by_index = [](const Run& a, const Run& b) { return a.index < b.index; };
  const std::size_t count = run_count_ + more.size();
  auto all = std::make_unique<Run[]>(count);
  std::merge(runs_.get(), runs_.get() + run_count_, more.begin(), more.end(), all.get(), by_index);
  runs_ = std::move(all);
  run_count_ = static_cast<uint32_t>(count);
  const Run& last = runs_[run_count_ - 1];
  first_index_ = runs_[0].index;
  index_span_ = last.index + last.count - 1 - first_index_;
}

uint32_t MkeyPool::number_of(Lkey handle) const noexcept {
  const uint32_t index = index_of(handle).value();
  const Run* const behind =
      std::upper_bound(runs_.get(), runs_.get() + run_count_, index,
                       [](uint32_t i, const Run& run) { return i < run.index; });
  if (behind == runs_.get()) return Mkey::none;
  const Run& run = behind[-1];
  const uint32_t at = index - run.index;
  return at < run.count ? run.number + at : Mkey::none;
}

MkeyPool::~MkeyPool() {
  all_pools.leave(*this);
  KILIM_ASSERT(ring_ == nullptr || available() == size());
  destroy_mkeys();
}

void MkeyPool::destroy_mkeys() noexcept {
  std::array<mr::IndirectMkey, 64> some;
  for (uint32_t i = 0; i < count_;) {
    uint32_t n = 0;
    for (; n < some.size() && i < count_; n++, i++) some[n] = {keys_[i].lkey, keys_[i].max_entries};
    source_.destroy_mkeys({some.data(), n});
  }
}

}  // namespace kilim::inline v1::mkey
