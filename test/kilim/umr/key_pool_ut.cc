// SPDX-License-Identifier: BSD-3-Clause
// Key pool and stashes over a source that counts; the states of a key.
#include <cerrno>
#include <set>
#include <thread>
#include <vector>

#include "kilim/umr/key_pool.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::umr;

// Counts what it has given out.
class Counting final : public mr::KeySource {
 public:
  Status create_keys(const mr::KeyRequest& request, std::span<mr::IndirectMkey> out) override {
    if (refuse) return Error{ENOSPC, "no keys left"};
    for (mr::IndirectMkey& k : out) k = {Lkey{++made << 8}, request.max_entries};
    return Done{};
  }
  void destroy_keys(std::span<const mr::IndirectMkey> keys) override {
    destroyed += static_cast<uint32_t>(keys.size());
  }
  uint32_t made = 0;
  uint32_t destroyed = 0;
  bool refuse = false;
};

void each_key_once() {
  Counting source;
  auto pool = KeyPool::create(source, 100, 52);
  CU_ASSERT_TRUE_FATAL(pool.ok());
  std::set<IndirectKey*> taken;
  {
    KeyStash a{**pool};
    KeyStash b{**pool};
    while (IndirectKey* k = (taken.size() % 2 != 0 ? a : b).take()) {
      CU_ASSERT_EQUAL(k->max_entries, 52);
      CU_ASSERT_TRUE(taken.insert(k).second);
    }
    while (IndirectKey* k = a.take()) taken.insert(k);
    while (IndirectKey* k = b.take()) taken.insert(k);
    CU_ASSERT_EQUAL(taken.size(), 100);
    CU_ASSERT_PTR_NULL(b.take());
    for (IndirectKey* k : taken) b.give(k);
    CU_ASSERT_TRUE(b.count() <= KeyStash::capacity);
    IndirectKey* given = a.take();  // what the other gave in bulk
    CU_ASSERT_PTR_NOT_NULL_FATAL(given);
    a.give(given);
  }
  CU_ASSERT_EQUAL((*pool)->available(), 100);
  pool->reset();
  CU_ASSERT_EQUAL(source.destroyed, 100);
}

void refusal_passes_through() {
  Counting source;
  source.refuse = true;
  auto pool = KeyPool::create(source, 10, 4);
  CU_ASSERT_FALSE(pool.ok());
  CU_ASSERT_EQUAL(pool.error().code, ENOSPC);
  source.refuse = false;
  CU_ASSERT_EQUAL(KeyPool::create(source, 0, 4).error().code, EINVAL);
  CU_ASSERT_EQUAL(KeyPool::create(source, 4, 0).error().code, EINVAL);
}

void two_threads() {
  Counting source;
  auto pool = KeyPool::create(source, 256, 4);
  auto churn = [&pool] {
    KeyStash stash{**pool};
    for (uint32_t round = 0; round < 20000; round++) {
      IndirectKey* held[40];
      uint32_t n = 0;
      while (n < round % 40 && (held[n] = stash.take()) != nullptr) n++;
      for (uint32_t i = 0; i < n; i++) {
        held[i]->become(KeyState::posted);
        held[i]->become(KeyState::valid);
        held[i]->become(KeyState::invalidating);
        held[i]->become(KeyState::free);
      }
      while (n != 0) stash.give(held[--n]);
    }
  };
  std::thread a{churn};
  std::thread b{churn};
  a.join();
  b.join();
  CU_ASSERT_EQUAL((*pool)->available(), 256);
}

void states() {
  CU_ASSERT_TRUE(may_become(KeyState::free, KeyState::posted));
  CU_ASSERT_FALSE(may_become(KeyState::free, KeyState::valid));
  CU_ASSERT_FALSE(may_become(KeyState::poisoned, KeyState::valid));
  CU_ASSERT_TRUE(may_become(KeyState::poisoned, KeyState::invalidating));
  for (uint32_t s = 0; s < key_states; s++) {
    const bool back = may_become(static_cast<KeyState>(s), KeyState::free);
    CU_ASSERT_EQUAL(back, static_cast<KeyState>(s) == KeyState::invalidating);
  }
}

// Gives indices out backwards, and leaves out every third one.
class Scattering final : public mr::KeySource {
 public:
  Status create_keys(const mr::KeyRequest& request, std::span<mr::IndirectMkey> out) override {
    for (mr::IndirectMkey& k : out) {
      if (--next % 3 == 0) next--;
      k = {Lkey{next << 8}, request.max_entries};
    }
    return Done{};
  }
  void destroy_keys(std::span<const mr::IndirectMkey>) override {}
  uint32_t next = 1000;
};

void grows_to_its_limit() {
  Counting source;
  auto pool = KeyPool::create(source, 10, {.max_entries = 7}, 25);
  CU_ASSERT_TRUE_FATAL(pool.ok());
  CU_ASSERT_TRUE((*pool)->size() == 10 && (*pool)->limit() == 25 && source.made == 10);
  CU_ASSERT_TRUE((*pool)->grow(10).ok());
  source.refuse = true;
  CU_ASSERT_EQUAL((*pool)->grow(10).error().code, ENOSPC);
  CU_ASSERT_EQUAL((*pool)->size(), 20);
  source.refuse = false;
  CU_ASSERT_TRUE((*pool)->grow(10).ok());  // what is left of it
  CU_ASSERT_EQUAL((*pool)->grow(1).error().code, ENOSPC);
  CU_ASSERT_TRUE((*pool)->size() == 25 && source.made == 25);
  {
    KeyStash stash{**pool};
    std::set<uint32_t> indices;
    std::vector<IndirectKey*> taken;
    while (IndirectKey* k = stash.take()) taken.push_back(k);
    for (IndirectKey* k : taken) {
      CU_ASSERT_EQUAL(k->max_entries, 7);
      indices.insert(index_of(k->lkey).value());
      stash.give(k);
    }
    CU_ASSERT_TRUE(taken.size() == 25 && indices.size() == 25);
  }
  pool->reset();
  CU_ASSERT_EQUAL(source.destroyed, 25);
}

void found_by_their_handles() {
  Scattering source;
  auto pool = KeyPool::create(source, 50, {.max_entries = 1}, 90);
  CU_ASSERT_TRUE_FATAL(pool.ok() && (*pool)->grow(40).ok());
  uint32_t found = 0;
  for (uint32_t index = 0; index < 1100; index++) {
    const Lkey handle{index << 8 | 0x5a};
    const uint32_t number = (*pool)->number_of(handle);
    const bool is = index < 1000 && index >= source.next && index % 3 != 0;
    CU_ASSERT_EQUAL(number != IndirectKey::none, is);
    if (!is) continue;
    CU_ASSERT_TRUE((*pool)->may_hold(handle));
    CU_ASSERT_EQUAL(index_of((*pool)->at(number).lkey).value(), index);
    found++;
  }
  CU_ASSERT_EQUAL(found, 90);
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

KILIM_UT_MAIN("umr/key_pool", cases)
