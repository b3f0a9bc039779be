// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/umr/key_pool.hh"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "kilim/base/assert.hh"
#include "kilim/base/units.hh"

namespace kilim::umr {

void KeyPool::RingDelete::operator()(rte_ring* r) const noexcept {
  std::free(r);
}

Result<std::unique_ptr<KeyPool>> KeyPool::create(mr::KeySource& source, uint32_t count,
                                                 const mr::KeyRequest& request) {
  if (count == 0 || request.max_entries == 0)
    return Error{EINVAL, "a key pool needs keys and entries"};
  uint32_t slots = 2;
  while (slots <= count && slots < RTE_RING_SZ_MASK) slots *= 2;
  const ssize_t bytes = rte_ring_get_memsize(slots);
  if (slots <= count || bytes < 0) return Error{EINVAL, "a key pool of this size is not possible"};
  const auto whole = round_up(static_cast<uint32_t>(bytes), cacheline_bytes);
  auto* memory = static_cast<rte_ring*>(std::aligned_alloc(cacheline_bytes, whole));
  std::unique_ptr<rte_ring, RingDelete> ring{memory};
  if (memory == nullptr || rte_ring_init(memory, "kilim_keys", slots, 0) != 0)
    return Error{ENOMEM, "no memory for the key pool's ring"};

  std::unique_ptr<KeyPool> pool{new KeyPool(source, std::move(ring))};
  if (Status s = pool->make_keys(count, request); !s) return s.error();
  return pool;
}

Result<std::unique_ptr<KeyPool>> KeyPool::create(mr::KeySource& source, uint32_t count,
                                                 uint32_t max_entries) {
  return create(source, count, mr::KeyRequest{.max_entries = max_entries});
}

Status KeyPool::make_keys(uint32_t count, const mr::KeyRequest& request) {
  const auto made = std::make_unique<mr::IndirectMkey[]>(count);
  if (Status s = source_.create_keys(request, {made.get(), count}); !s) return s;
  keys_ = std::make_unique<IndirectKey[]>(count);
  count_ = count;
  for (uint32_t i = 0; i < count; i++) {
    keys_[i].lkey = made[i].lkey;
    keys_[i].max_entries = made[i].max_entries;
    keys_[i].log_entity = made[i].log_entity_bytes;
    (void)rte_ring_enqueue(ring_.get(), &keys_[i]);
  }
  return Done{};
}

KeyPool::~KeyPool() {
  KILIM_ASSERT(available() == size());
  destroy_keys();
}

void KeyPool::destroy_keys() noexcept {
  std::array<mr::IndirectMkey, 64> some;
  for (uint32_t i = 0; i < count_;) {
    uint32_t n = 0;
    for (; n < some.size() && i < count_; n++, i++) some[n] = {keys_[i].lkey, keys_[i].max_entries};
    source_.destroy_keys({some.data(), n});
  }
}

}  // namespace kilim::umr
