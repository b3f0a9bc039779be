// SPDX-License-Identifier: BSD-3-Clause
// Packet buffers taken and given back, 32 at a time, by the worker's cache of a pool and by an
// rte_mempool with a cache of its own. Kilim's side hands out handles with a length, the mempool
// plain pointers.
#include <optional>
#include <vector>

#include <rte_mempool.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/pool.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t buffers = 4096, burst = 32, bursts = 64;
constexpr uint32_t small_stride = 192;  // the bytes are not touched
constexpr std::size_t ours_slot = 4, mempool_slot = 5;

struct Ours {
  std::vector<std::byte> memory{std::size_t{buffers} * small_stride};
  std::optional<pool::Pool> pool;
  std::optional<pool::BufferCache> cache;
  std::array<pool::Handle, burst> handles{};

  bool open() {
    auto arena = pool::Arena::over(memory, small_stride);
    if (!arena) return false;
    auto made = pool::Pool::create(*arena, {.name = "line_pool", .count = buffers});
    if (!made) return false;
    pool.emplace(*std::move(made));
    cache.emplace(*pool);
    return true;
  }
};

struct Mempool {
  struct Free {
    void operator()(rte_mempool* p) const noexcept { rte_mempool_free(p); }
    void operator()(rte_mempool_cache* c) const noexcept { rte_mempool_cache_free(c); }
  };
  std::unique_ptr<rte_mempool, Free> pool;
  std::unique_ptr<rte_mempool_cache, Free> cache;
  std::array<void*, burst> objects{};

  bool open() {
    pool.reset(rte_mempool_create("line_mempool", buffers, small_stride, 0, 0, nullptr, nullptr,
                                  nullptr, nullptr, SOCKET_ID_ANY, 0));
    cache.reset(rte_mempool_cache_create(pool::BufferCache::exchange, SOCKET_ID_ANY));
    return pool != nullptr && cache != nullptr;
  }
  ~Mempool() {
    if (cache != nullptr) rte_mempool_cache_flush(cache.get(), pool.get());
  }
};

// Made when it is needed first, and kept.
template <typename Side, std::size_t Slot>
uint32_t prepare(Rig& r, const Case&) {
  if (r.of_lines[Slot] != nullptr) return 1;
  auto fresh = std::make_shared<Side>();
  if (!fresh->open()) return 0;
  r.of_lines[Slot] = fresh;
  return 1;
}

[[gnu::noinline]] uint32_t take_handles(Rig& r, const Case&) {
  Ours& self = *static_cast<Ours*>(r.of_lines[ours_slot].get());
  for (uint32_t i = 0; i < bursts; i++) {
    if (self.cache->alloc(self.handles, 64) != burst) return 0;
    forget_registers();
    self.cache->free(self.handles);
  }
  return bursts * burst;
}

[[gnu::noinline]] uint32_t take_objects(Rig& r, const Case&) {
  Mempool& self = *static_cast<Mempool*>(r.of_lines[mempool_slot].get());
  for (uint32_t i = 0; i < bursts; i++) {
    void** const objects = self.objects.data();
    if (rte_mempool_generic_get(self.pool.get(), objects, burst, self.cache.get()) != 0) return 0;
    forget_registers();
    rte_mempool_generic_put(self.pool.get(), objects, burst, self.cache.get());
  }
  return bursts * burst;
}

constexpr Case cases[] = {{"32 at a time", burst}};
constexpr Side peers[] = {{"rte_mempool", take_objects, prepare<Mempool, mempool_slot>}};

}  // namespace

const Line pool_line = {.metric = "buffers taken and given back",
                        .time_goal = 1.2,
                        .instruction_goal = 1.2,
                        .cases = cases,
                        .kilim = {"handles", take_handles, prepare<Ours, ours_slot>},
                        .peers = peers,
                        .most_instructions = 6};

}  // namespace kilim::perf
