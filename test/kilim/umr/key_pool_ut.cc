// SPDX-License-Identifier: BSD-3-Clause
// Key pool and stashes over a source that counts; the states of a key.
#include <cerrno>
#include <set>
#include <thread>

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

const kilim::test::Case cases[] = {
    {"every key has one holder and all come back", each_key_once},
    {"a source that refuses makes no pool", refusal_passes_through},
    {"two threads exchange keys through the pool", two_threads},
    {"a key becomes free by an invalidation only", states},
};

}  // namespace

KILIM_UT_MAIN("umr/key_pool", cases)
