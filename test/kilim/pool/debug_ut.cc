// SPDX-License-Identifier: BSD-3-Clause
// A pool that watches its buffers: each misuse is found once, named, and does no harm; a run
// without one is as ever and says nothing.
#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <rte_lcore.h>

#include "eal.hh"
#include "kilim/detail/pool/edit.hh"
#include "kilim/detail/pool/pool.hh"
#include "ut.hh"

// Who is named: functions that the program exports.
kilim::pool::Handle kilim_debug_ut_taker(kilim::pool::BufferCache& cache);
void kilim_debug_ut_freer(kilim::pool::BufferCache& cache, kilim::pool::Handle h);

[[gnu::noinline]] kilim::pool::Handle kilim_debug_ut_taker(kilim::pool::BufferCache& cache) {
  kilim::pool::Handle h;
  const uint32_t n = cache.alloc({&h, 1}, 60);
  CU_ASSERT_TRUE_FATAL(n == 1);
  return h;
}
[[gnu::noinline]] void kilim_debug_ut_freer(kilim::pool::BufferCache& cache,
                                            kilim::pool::Handle h) {
  cache.free({&h, 1});
}

namespace debug_ut {
namespace {

using namespace kilim::pool;
using Kind = PoolFault::Kind;

constexpr uint32_t buffers = 300;
constexpr uint32_t stride = 192;

struct Told {
  Kind kind;
  uint32_t index, buffers;
  std::string sentence;
  [[nodiscard]] bool says(const char* word) const {
    return sentence.find(word) != std::string::npos;
  }
};

struct Field {
  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{buffers} * stride);
  std::array<ExtraHolders, buffers> extra{};
  Arena arena;
  std::optional<Pool> pool;
  std::mutex lock;
  std::vector<Told> told;

  // Half of the arena, the upper one.
  explicit Field(bool holders = false)
      : arena(*Arena::over(memory, stride, nullptr, holders ? extra.data() : nullptr)) {
    CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
    const PoolDebug debug{.on = true, .report = tell, .context = this};
    auto made =
        Pool::create(arena, {.name = "watched", .first = 100, .count = 200, .debug = debug});
    CU_ASSERT_TRUE_FATAL(made.ok());
    pool.emplace(*std::move(made));
  }
  static void tell(void* self, const PoolFault& f) {
    auto& field = *static_cast<Field*>(self);
    const std::lock_guard<std::mutex> hold(field.lock);
    field.told.push_back({f.kind, f.index, f.buffers, f.sentence});
  }
  // The only fault so far; forgets it.
  Told fault() {
    EQUAL_FATAL(told.size(), 1u);
    Told t = told.front();
    told.clear();
    return t;
  }
};

void nothing_to_say() {
  Field f(true);
  std::mt19937 random(5);
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  {
    BufferCache a(*f.pool), b(*f.pool);
    std::vector<Handle> held;
    for (int i = 0; i < 4000; i++) {
      std::array<Handle, 40> some;
      if (below(2) == 0) {
        const uint32_t n = a.alloc({some.data(), 1 + below(40)}, stride);
        for (uint32_t k = 0; k < n; k++) {
          for (std::byte& byte : f.arena.bytes(some[k])) byte = static_cast<std::byte>(i);
          held.push_back(some[k]);
          if (below(5) != 0) continue;
          f.arena.share(some[k].index, 1);
          held.push_back(some[k]);
        }
      } else {
        std::shuffle(held.begin(), held.end(), random);
        const std::size_t n = std::min<std::size_t>(held.size(), below(60));
        const std::span<const Handle> last(held.data() + held.size() - n, n);
        if (n == 1)
          b.free_one(last[0]);
        else
          b.free(last);
        held.resize(held.size() - n);
      }
      EQUAL_FATAL(a.held() + b.held(), 0u);
    }
    b.free(held);
  }
  EQUAL(f.pool->available(), 200u);
  EQUAL(f.pool->faults(), 0u);
  f.pool.reset();
  CU_ASSERT_TRUE(f.told.empty());
}

void freed_twice() {
  Field f;
  BufferCache cache(*f.pool);
  cache.set_tag("one's");
  const Handle h = kilim_debug_ut_taker(cache);
  kilim_debug_ut_freer(cache, h);
  kilim_debug_ut_freer(cache, h);
  const Told t = f.fault();
  EQUAL(t.kind, Kind::double_free);
  EQUAL(t.index, h.index);
  for (const char* word : {"pool watched", "lcore 0", "(one's)", "kilim_debug_ut_taker",
                           "kilim_debug_ut_freer", "freed it before"})
    CU_ASSERT_TRUE(t.says(word));
  EQUAL(f.pool->available(), 200u);
  cache.free_indices({&(const uint32_t&)h.index, 1});
  cache.free_one(h);
  EQUAL(f.told.size(), 2u);
  f.told.clear();
  // One that was never allocated.
  const uint32_t never = h.index == 250 ? 251 : 250;
  cache.free_indices({&never, 1});
  CU_ASSERT_TRUE(f.fault().says("never allocated"));
  EQUAL(f.pool->available(), 200u);
  EQUAL(f.pool->faults(), 4u);
}

void foreign() {
  Field f;
  auto other = Pool::create(f.arena, {.name = "neighbour", .count = 50});
  CU_ASSERT_TRUE_FATAL(other.ok());
  BufferCache cache(*f.pool);
  cache.free_one(make_handle(20, 60));
  Told t = f.fault();
  EQUAL(t.kind, Kind::foreign_free);
  EQUAL(t.index, 20);
  CU_ASSERT_TRUE(t.says("of pool neighbour"));
  cache.free_one(make_handle(99, 60));
  CU_ASSERT_TRUE(f.fault().says("of no pool"));
  cache.free_one(make_handle(100000, 60));
  t = f.fault();
  EQUAL(t.kind, Kind::foreign_free);
  EQUAL(t.index, 100000);
  EQUAL(f.pool->available(), 200u);
}

void written_when_free() {
  Field f;
  BufferCache cache(*f.pool);
  const Handle h = kilim_debug_ut_taker(cache);
  f.arena.buffer(h.index)[stride - 1] = std::byte{1};
  kilim_debug_ut_freer(cache, h);
  CU_ASSERT_TRUE(f.arena.buffer(h.index)[stride - 1] == std::byte{0x6b});
  f.arena.buffer(h.index)[stride - 3] = std::byte{2};
  f.arena.buffer(150)[0] = std::byte{3};
  std::vector<Handle> all(200);
  EQUAL_FATAL(cache.alloc(all, 60), 200u);
  EQUAL_FATAL(f.told.size(), 2u);
  const bool first = f.told[0].index == h.index;
  const Told &t = f.told[first ? 0 : 1], &fresh = f.told[first ? 1 : 0];
  EQUAL(t.kind, Kind::written_when_free);
  EQUAL(t.index, h.index);
  CU_ASSERT_TRUE(t.says("at byte 189"));
  CU_ASSERT_TRUE(t.says("kilim_debug_ut_freer"));
  EQUAL(fresh.index, 150);
  CU_ASSERT_TRUE(fresh.says("at byte 0"));
  CU_ASSERT_TRUE(fresh.says("never allocated"));
  cache.free(all);
  EQUAL_FATAL(cache.alloc(all, 60), 200u);  // filled anew
  EQUAL(f.told.size(), 2u);
  cache.free(all);
}

void not_back() {
  Field f;
  {
    BufferCache mine(*f.pool), yours(*f.pool);
    mine.set_tag("mine");
    Handle h[4];
    for (Handle& one : h) one = kilim_debug_ut_taker(mine);
    yours.set_tag("yours");
    (void)kilim_debug_ut_taker(yours);
    mine.free_one(h[1]);
    EQUAL(f.pool->report_held(), 4u);
    EQUAL(f.told.size(), 2u);
    f.told.clear();
  }
  f.pool.reset();
  EQUAL_FATAL(f.told.size(), 2u);
  const bool first = f.told[0].says("(mine)");
  const Told &three = f.told[first ? 0 : 1], &one = f.told[first ? 1 : 0];
  EQUAL(three.kind, Kind::leak);
  EQUAL(three.buffers, 3);
  CU_ASSERT_TRUE(three.says("3 of 200"));
  CU_ASSERT_TRUE(three.says("(mine) in kilim_debug_ut_taker"));
  CU_ASSERT_TRUE(three.says("pool_tests+0x"));
  EQUAL(one.buffers, 1);
  CU_ASSERT_TRUE(one.says("(yours)"));
}

void generations() {
  Field f;
  BufferCache cache(*f.pool);
  std::vector<Handle> all(200);
  for (uint32_t turn = 1; turn < 4; turn++) {
    EQUAL_FATAL(cache.alloc(all, 60), 200u);
    for (const Handle h : all) EQUAL_FATAL(f.pool->generation(h.index), turn);
    cache.free(all);
    EQUAL(f.pool->generation(all[0].index), turn);
  }
  EQUAL(f.pool->generation(99), 0u);
  EQUAL(f.pool->generation(100000), 0u);
}

void only_so_many_are_told() {
  Field f;
  BufferCache cache(*f.pool);
  const Handle h = kilim_debug_ut_taker(cache);
  for (int i = 0; i < 101; i++) cache.free_one(h);
  EQUAL(f.told.size(), 32u);
  EQUAL(f.pool->faults(), 100u);
  (void)kilim_debug_ut_taker(cache);
  f.pool.reset();
  CU_ASSERT_TRUE(f.told.back().kind == Kind::leak);
}

// Two threads free the same buffers: each once too often, none lost, none twice in the pool.
void two_threads() {
  Field f;
  for (int round = 0; round < 20; round++) {
    std::array<Handle, 100> h;
    BufferCache from(*f.pool);
    EQUAL_FATAL(from.alloc(h, 60), 100u);
    std::atomic<int> ready{0};
    const auto free_all = [&] {
      BufferCache own(*f.pool);
      for (ready++; ready.load() < 2;) {
      }
      for (const Handle one : h) own.free_one(one);
    };
    std::thread other(free_all);
    free_all();
    other.join();
    EQUAL_FATAL(f.pool->available(), 200u);
    EQUAL_FATAL(f.pool->faults(), 100u * static_cast<uint32_t>(round + 1));
  }
}

const kilim::test::Case cases[] = {
    {"without misuse nothing is said and every buffer comes back", nothing_to_say},
    {"a second free is told, with who took and who freed", freed_twice},
    {"a buffer of another pool is told and not taken", foreign},
    {"a write to a free buffer is told at the next allocation", written_when_free},
    {"what did not come back is told by its holders", not_back},
    {"a buffer's generation counts its allocations", generations},
    {"faults beyond the thirty-second are counted only", only_so_many_are_told},
    {"two threads that free the same are told once for each buffer", two_threads},
};

}  // namespace
}  // namespace debug_ut

KILIM_TEST_SUITE(debug, debug_ut::cases)
