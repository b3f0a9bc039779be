// SPDX-License-Identifier: BSD-3-Clause
// Key pool and caches over a source that counts; the states of a key.
#include <cerrno>
#include <set>
#include <thread>
#include <vector>

#include "kilim/detail/mkey/mkey_cache.hh"
#include "kilim/detail/mkey/mkey_pool.hh"
#include "ut.hh"

namespace mkey_pool_ut {
namespace {

using namespace kilim;
using namespace kilim::mkey;

// Counts what it has given out.
class Counting final : public mr::MkeySource {
 public:
  Status create_mkeys(const mr::MkeyRequest& request, std::span<mr::IndirectMkey> out) override {
    if (refuse) return Error{ENOSPC, "no keys left"};
    for (mr::IndirectMkey& k : out) k = {Lkey{++made << 8}, request.max_entries};
    return Done{};
  }
  void destroy_mkeys(std::span<const mr::IndirectMkey> keys) override {
    destroyed += static_cast<uint32_t>(keys.size());
  }
  uint32_t made = 0;
  uint32_t destroyed = 0;
  bool refuse = false;
};

void each_key_once() {
  Counting source;
  auto pool = MkeyPool::create(source, 100, 52);
  CU_ASSERT_TRUE_FATAL(pool.ok());
  std::set<Mkey*> taken;
  {
    MkeyCache a{**pool};
    MkeyCache b{**pool};
    while (Mkey* k = (taken.size() % 2 != 0 ? a : b).pop()) {
      EQUAL(k->max_entries, 52);
      CU_ASSERT_TRUE(taken.insert(k).second);
    }
    while (Mkey* k = a.pop()) taken.insert(k);
    while (Mkey* k = b.pop()) taken.insert(k);
    EQUAL(taken.size(), 100);
    CU_ASSERT_PTR_NULL(b.pop());
    for (Mkey* k : taken) b.push(k);
    CU_ASSERT_TRUE(b.count() <= MkeyCache::capacity);
    Mkey* given = a.pop();  // what the other gave in bulk
    CU_ASSERT_PTR_NOT_NULL_FATAL(given);
    a.push(given);
  }
  EQUAL((*pool)->available(), 100);
  pool->reset();
  EQUAL(source.destroyed, 100);
}

void refusal_passes_through() {
  Counting source;
  source.refuse = true;
  auto pool = MkeyPool::create(source, 10, 4);
  CU_ASSERT_FALSE(pool.ok());
  EQUAL(pool.error().code, ENOSPC);
  source.refuse = false;
  EQUAL(MkeyPool::create(source, 0, 4).error().code, EINVAL);
  EQUAL(MkeyPool::create(source, 4, 0).error().code, EINVAL);
}

void two_threads() {
  Counting source;
  auto pool = MkeyPool::create(source, 256, 4);
  auto churn = [&pool] {
    MkeyCache cache{**pool};
    for (uint32_t round = 0; round < 20000; round++) {
      Mkey* held[40];
      uint32_t n = 0;
      while (n < round % 40 && (held[n] = cache.pop()) != nullptr) n++;
      for (uint32_t i = 0; i < n; i++) {
        held[i]->become(MkeyState::posted);
        held[i]->become(MkeyState::valid);
        held[i]->become(MkeyState::invalidating);
        held[i]->become(MkeyState::free);
      }
      while (n != 0) cache.push(held[--n]);
    }
  };
  std::thread a{churn};
  std::thread b{churn};
  a.join();
  b.join();
  EQUAL((*pool)->available(), 256);
}

void states() {
  CU_ASSERT_TRUE(may_become(MkeyState::free, MkeyState::posted));
  CU_ASSERT_FALSE(may_become(MkeyState::free, MkeyState::valid));
  CU_ASSERT_FALSE(may_become(MkeyState::poisoned, MkeyState::valid));
  CU_ASSERT_TRUE(may_become(MkeyState::poisoned, MkeyState::invalidating));
  for (uint32_t s = 0; s < mkey_states; s++) {
    const bool back = may_become(static_cast<MkeyState>(s), MkeyState::free);
    EQUAL(back, static_cast<MkeyState>(s) == MkeyState::invalidating);
  }
}

// Gives indices out backwards, and leaves out every third one.
class Scattering final : public mr::MkeySource {
 public:
  Status create_mkeys(const mr::MkeyRequest& request, std::span<mr::IndirectMkey> out) override {
    for (mr::IndirectMkey& k : out) {
      if (--next % 3 == 0) next--;
      k = {Lkey{next << 8}, request.max_entries};
    }
    return Done{};
  }
  void destroy_mkeys(std::span<const mr::IndirectMkey>) override {}
  uint32_t next = 1000;
};

void grows_to_its_limit() {
  Counting source;
  auto pool = MkeyPool::create(source, 10, {.max_entries = 7}, 25);
  CU_ASSERT_TRUE_FATAL(pool.ok());
  EQUAL((*pool)->size(), 10);
  EQUAL((*pool)->limit(), 25);
  EQUAL(source.made, 10);
  CU_ASSERT_TRUE((*pool)->grow(10).ok());
  source.refuse = true;
  EQUAL((*pool)->grow(10).error().code, ENOSPC);
  EQUAL((*pool)->size(), 20);
  source.refuse = false;
  CU_ASSERT_TRUE((*pool)->grow(10).ok());  // what is left of it
  EQUAL((*pool)->grow(1).error().code, ENOSPC);
  EQUAL((*pool)->size(), 25);
  EQUAL(source.made, 25);
  {
    MkeyCache cache{**pool};
    std::set<uint32_t> indices;
    std::vector<Mkey*> taken;
    while (Mkey* k = cache.pop()) taken.push_back(k);
    for (Mkey* k : taken) {
      EQUAL(k->max_entries, 7);
      indices.insert(index_of(k->lkey).value());
      cache.push(k);
    }
    EQUAL(taken.size(), 25);
    EQUAL(indices.size(), 25);
  }
  pool->reset();
  EQUAL(source.destroyed, 25);
}

void found_by_their_handles() {
  Scattering source;
  auto pool = MkeyPool::create(source, 50, {.max_entries = 1}, 90);
  CU_ASSERT_TRUE_FATAL(pool.ok());
  CU_ASSERT_TRUE_FATAL((*pool)->grow(40).ok());
  uint32_t found = 0;
  for (uint32_t index = 0; index < 1100; index++) {
    const Lkey handle{index << 8 | 0x5a};
    const uint32_t number = (*pool)->number_of(handle);
    const bool is = index < 1000 && index >= source.next && index % 3 != 0;
    EQUAL(number != Mkey::none, is);
    if (!is) continue;
    CU_ASSERT_TRUE((*pool)->may_hold(handle));
    EQUAL(index_of((*pool)->at(number).lkey).value(), index);
    found++;
  }
  EQUAL(found, 90);
  CU_ASSERT_FALSE((*pool)->may_hold(Lkey{1000 << 8}) || (*pool)->may_hold(Lkey{1 << 8}));
}

const kilim::test::Case cases[] = {
    {"every key has one holder and all come back", each_key_once},
    {"a source that refuses makes no pool", refusal_passes_through},
    {"two threads exchange keys through the pool", two_threads},
    {"a key becomes free by an invalidation only", states},
    {"a pool grows until its limit", grows_to_its_limit},
    {"a key is found by its handle, whatever indices the device gives out", found_by_their_handles},
};

}  // namespace
}  // namespace mkey_pool_ut

KILIM_TEST_SUITE(mkey_pool, mkey_pool_ut::cases)
