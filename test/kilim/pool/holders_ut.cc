// SPDX-License-Identifier: BSD-3-Clause
// Buffers with several holders: a random run beside a model, two threads that free the same
// buffers, and arenas without the count.
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "eal.hh"
#include "kilim/detail/pool/pool.hh"
#include "ut.hh"

namespace holders_ut {
namespace {

using namespace kilim::pool;

constexpr uint32_t buffers = 700;  // more than a cache holds
constexpr uint32_t stride = 64;

struct Field {
  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{buffers} * stride);
  std::array<ExtraHolders, buffers> extra{};
  Arena arena = *Arena::over(memory, stride, nullptr, extra.data());
  std::optional<Pool> pool;

  explicit Field(const char* name) {
    CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
    auto made = Pool::create(arena, {.name = name, .count = buffers});
    CU_ASSERT_TRUE_FATAL(made.ok());
    pool.emplace(*std::move(made));
  }
  void expect_all_free() {
    std::vector<uint32_t> all(buffers);
    EQUAL(pool->pop(all), buffers);
    EQUAL((std::set<uint32_t>(all.begin(), all.end()).size()), buffers);
    for (const ExtraHolders& e : extra) EQUAL(e.load(), 0u);
  }
};

// What the handles of a run should be: each is in `held` as often as its buffer has holders.
class Model {
 public:
  Model(Field& f, uint32_t seed) : f_(f), random_(seed) {
    for (auto& c : caches_) c.emplace(*f.pool);
  }
  void step() {
    switch (below(5)) {
      case 0:
      case 1:
        return alloc();
      case 2:
        return share();
      case 3:
        return free(1 + below(8));
      default:
        return below(20) == 0 ? cache().flush() : free(1 + below(400));
    }
  }
  void end() {
    while (!held_.empty()) free(1 + below(600));
    for (auto& c : caches_) c.reset();
    f_.expect_all_free();
  }

 private:
  uint32_t below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  BufferCache& cache() { return *caches_[below(3)]; }
  void alloc() {
    std::array<Handle, 60> out;
    const uint32_t n = cache().alloc({out.data(), 1 + below(60)}, 60);
    for (uint32_t i = 0; i < n; i++) {
      EQUAL(count_[out[i].index]++, 0u);
      EQUAL(f_.arena.holders(out[i].index), 1u);
      held_.push_back(out[i]);
    }
  }
  void share() {
    if (held_.empty()) return;
    const Handle h = held_[below(static_cast<uint32_t>(held_.size()))];
    const uint32_t more = 1 + below(5);
    f_.arena.share(h.index, static_cast<uint16_t>(more));
    count_[h.index] += more;
    EQUAL(f_.arena.holders(h.index), count_[h.index]);
    held_.insert(held_.end(), more, h);
  }
  void free(uint32_t n) {
    std::vector<Handle> some;
    std::vector<uint32_t> indices;
    for (; n != 0 && !held_.empty(); n--) {
      std::swap(held_[below(static_cast<uint32_t>(held_.size()))], held_.back());
      some.push_back(held_.back());
      indices.push_back(held_.back().index);
      count_[held_.back().index]--;
      held_.pop_back();
    }
    if (some.size() == 1)
      cache().free_one(some[0]);
    else if (below(2) == 0)
      cache().free(some);
    else
      cache().free_indices(indices);
  }

  Field& f_;
  std::mt19937 random_;
  std::array<std::optional<BufferCache>, 3> caches_;
  std::vector<Handle> held_;
  std::map<uint32_t, uint32_t> count_;
};

void random_run() {
  Field f("holders");
  Model m(f, 14);
  for (int i = 0; i < 3000; i++) m.step();
  m.end();
}

// Each of two threads frees its copy of every buffer, in another order.
void freed_by_two_threads() {
  Field f("both");
  for (int round = 0; round < 20; round++) {
    BufferCache from(*f.pool);
    std::array<Handle, 128> one, two;
    EQUAL_FATAL(from.alloc(one, 60), 128u);
    for (uint32_t i = 0; i < 128; i++) {
      f.arena.share(one[i].index, 1);
      two[i] = one[i];
    }
    auto free_all = [&f](std::span<const Handle> mine) {
      BufferCache own(*f.pool);
      for (const Handle h : mine) own.free_one(h);
    };
    std::thread other(free_all, std::span<const Handle>(two));
    free_all(one);
    other.join();
  }
  f.expect_all_free();
}

void memory_with_holders() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto memory = ArenaMemory::create({.buffers = 64, .holders = true});
  CU_ASSERT_TRUE_FATAL(memory.ok());
  const Arena& arena = memory->arena();
  CU_ASSERT_TRUE_FATAL(arena.has_holders());
  auto pool = Pool::create(arena, {.name = "zone", .count = 64});
  CU_ASSERT_TRUE_FATAL(pool.ok());
  BufferCache cache(*pool);
  Handle h[2];
  EQUAL_FATAL(cache.alloc(h, 60), 2u);
  arena.share(h[0].index, 1);
  cache.free(h);
  EQUAL(arena.holders(h[0].index), 1u);
  EQUAL(cache.held(), 63u);
  cache.free_one(h[0]);
  EQUAL(cache.held(), 64u);
}

void arenas_without_holders() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto memory = ArenaMemory::create({.buffers = 64});
  CU_ASSERT_TRUE_FATAL(memory.ok());
  CU_ASSERT_FALSE(memory->arena().has_holders());
}

const kilim::test::Case cases[] = {
    {"a random run frees each buffer by its last holder", random_run},
    {"two threads free the same buffers once", freed_by_two_threads},
    {"the process's arena counts holders on request", memory_with_holders},
    {"without the request there is no count", arenas_without_holders},
};

}  // namespace
}  // namespace holders_ut

KILIM_TEST_SUITE(holders, holders_ut::cases)
