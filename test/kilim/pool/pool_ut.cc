// SPDX-License-Identifier: BSD-3-Clause
// Arena, pool and cache over arrays and over EAL memory without hugepages.
#include <cerrno>
#include <set>
#include <thread>
#include <vector>

#include "eal.hh"
#include "kilim/detail/pool/each_data.hh"
#include "kilim/detail/pool/pool.hh"
#include "ut.hh"

namespace pool_ut {
namespace {

using namespace kilim::pool;

struct Field {
  std::vector<std::byte> memory;
  Arena arena;
  explicit Field(uint32_t buffers, uint32_t stride = default_stride)
      : memory(std::size_t{buffers} * stride), arena(*Arena::over(memory, stride)) {}
};

void stride_rule() {
  EQUAL(default_stride, 2112u);
  std::vector<std::byte> m(1 << 20);
  for (uint32_t bad : {0u, 1u, 2048u, 128u, 2100u, 64u * 257u}) {
    auto a = Arena::over(m, bad);
    CU_ASSERT_FALSE_FATAL(a.ok());
    EQUAL(a.error().code, EINVAL);
  }
  CU_ASSERT_TRUE(Arena::over(m, 64).ok());
  for (uint32_t bad : {32u, 96u, 8192u}) {
    auto a = Arena::over(m, 64, nullptr, nullptr, bad);
    CU_ASSERT_FALSE_FATAL(a.ok());
    EQUAL(a.error().code, EINVAL);
  }
  EQUAL(side_records_of(2112, 256), 9u);
  CU_ASSERT_FALSE(Arena::over({m.data(), 2000}, 2112).ok());
  for (uint32_t bytes = 1; bytes <= 16000; bytes++) {
    uint32_t s = stride_for(bytes);
    CU_ASSERT_TRUE_FATAL(s >= bytes);
    CU_ASSERT_TRUE_FATAL(s < bytes + 128);
    EQUAL_FATAL(s / 64 % 2, 1);
    EQUAL_FATAL(s % 64, 0);
  }
}

void address_follows_index() {
  Field f(100);
  for (uint32_t i = 0; i < 100; i++) {
    Handle h = make_handle(i, 70, 3);
    EQUAL(f.arena.data(h) - f.memory.data(), static_cast<ptrdiff_t>(i * 2112 + 192));
    EQUAL(f.arena.bytes(h).size(), 70u);
  }
  EQUAL(sizeof(Handle), 8u);
  Handle h = make_handle(1, 2, 127);
  h.meta |= Handle::more;
  EQUAL(h.offset(), 127u * 64u);
  CU_ASSERT_TRUE(h.has(Handle::more));
  CU_ASSERT_TRUE(!h.has(Handle::side));
  CU_ASSERT_TRUE(!h.has(Handle::key));
  for (uint32_t at = 0; at <= max_offset; at++) {
    h.meta = static_cast<uint16_t>(meta_at(at) | Handle::side);
    EQUAL_FATAL(h.offset(), at);
    CU_ASSERT_TRUE_FATAL(h.has(Handle::side));
    CU_ASSERT_TRUE_FATAL(!h.has(Handle::key));
    CU_ASSERT_TRUE_FATAL(!h.has(Handle::more));
  }
  h.meta = Handle::key | Handle::more;
  CU_ASSERT_TRUE(h.has(Handle::key));
  CU_ASSERT_TRUE(h.has(Handle::more));
  CU_ASSERT_TRUE(!h.has(Handle::side));
}

void each_data_in_order() {
  Field f(100);
  std::vector<Handle> in;
  for (uint32_t i = 0; i < 7; i++) {
    in.push_back(make_handle(99 - i * 13, 1));
    in[i].meta = static_cast<uint16_t>(meta_at(i * 1361) | (i % 8));  // with every set of flags
  }
  std::size_t n = 0;
  each_data(f.arena, in, [&](std::byte* data) { CU_ASSERT_TRUE(data == f.arena.data(in[n++])); });
  EQUAL(n, in.size());
}

void every_buffer_once() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(1000);
  auto pool = Pool::create(f.arena, {.name = "once", .first = 100, .count = 900});
  CU_ASSERT_TRUE_FATAL(pool.ok());
  BufferCache s(*pool);
  std::set<uint32_t> seen;
  std::vector<Handle> all;
  for (;;) {
    Handle out[37];
    uint32_t n = s.alloc(out, 1500);
    for (uint32_t i = 0; i < n; i++) {
      CU_ASSERT_TRUE(seen.insert(out[i].index).second);
      CU_ASSERT_TRUE(out[i].index >= 100);
      CU_ASSERT_TRUE(out[i].index < 1000);
      EQUAL(out[i].length, 1500);
      all.push_back(out[i]);
    }
    if (n < 37) break;
  }
  EQUAL(all.size(), 900u);
  s.free(all);
  s.flush();
  EQUAL(pool->available(), 900u);
}

void dry_pool() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(300);
  auto pool = Pool::create(f.arena, {.name = "dry", .count = 300});
  CU_ASSERT_TRUE_FATAL(pool.ok());
  BufferCache a(*pool);
  BufferCache b(*pool);
  uint32_t got[300];
  EQUAL(a.alloc_indices({got, 10}), 10u);  // 246 more rest in a's cache
  uint32_t more[300];
  EQUAL(b.alloc_indices(more), 44u);
  EQUAL(b.alloc_indices({more, 1}), 0u);
  a.flush();
  EQUAL(b.alloc_indices({more, 300}), 246u);
  Handle none[4];
  EQUAL(b.alloc(none, 1), 0u);
}

void last_freed_first() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(600);
  auto pool = Pool::create(f.arena, {.name = "lifo", .count = 600});
  CU_ASSERT_TRUE_FATAL(pool.ok());
  BufferCache s(*pool);
  uint32_t got[3];
  EQUAL_FATAL(s.alloc_indices(got), 3u);
  s.free_indices(got);
  uint32_t again[1];
  EQUAL_FATAL(s.alloc_indices(again), 1u);
  EQUAL(again[0], got[2]);
  const uint32_t* const in_place = s.alloc_in_place(2);
  CU_ASSERT_PTR_NOT_NULL_FATAL(in_place);
  EQUAL(in_place[0], got[0]);
  EQUAL(in_place[1], got[1]);
  const uint32_t held = s.held();
  CU_ASSERT_PTR_NULL(s.alloc_in_place(held + 1));  // the cache has fewer: none is allocated
  EQUAL(s.held(), held);
}

// Freed by another than allocated: the cache spills to the ring and nothing is lost or doubled.
void crossing_in_bulk() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(4000);
  auto pool = Pool::create(f.arena, {.name = "cross", .count = 4000});
  CU_ASSERT_TRUE_FATAL(pool.ok());
  {
    BufferCache from(*pool);
    BufferCache to(*pool);
    for (int round = 0; round < 200; round++) {
      Handle h[200];
      EQUAL_FATAL(from.alloc(h, 60), 200u);
      to.free(h);
      CU_ASSERT_TRUE(to.held() <= BufferCache::capacity);
    }
  }
  EQUAL(pool->available(), 4000u);
  std::vector<uint32_t> all(4000);
  EQUAL(pool->pop(all), 4000u);
  EQUAL((std::set<uint32_t>(all.begin(), all.end()).size()), 4000u);
}

// Rows of every length, from any place in the cache, keep every index and every field.
void rows_of_every_length() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(1200);
  auto pool = Pool::create(f.arena, {.name = "rows", .count = 1200});
  CU_ASSERT_TRUE_FATAL(pool.ok());
  BufferCache s(*pool);
  std::vector<uint32_t> all(1200), ones(1200);
  for (uint32_t n = 0; n <= 600; n += n < 70 ? 1 : 53) {
    Handle h[600];
    EQUAL_FATAL(s.alloc({h, n}, 1500), n);
    EQUAL_FATAL(s.alloc_indices({ones.data(), n}), n);
    std::set<uint32_t> seen;
    for (uint32_t i = 0; i < n; i++) {
      seen.insert(h[i].index);
      seen.insert(ones[i]);
      CU_ASSERT(h[i] == make_handle(h[i].index, 1500));
    }
    EQUAL(seen.size(), 2 * n);
    s.free({h, n});
    s.free_indices({ones.data(), n});
  }
  s.flush();
  EQUAL_FATAL(pool->pop(all), 1200u);
  EQUAL((std::set<uint32_t>(all.begin(), all.end()).size()), 1200u);
}

void two_threads() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(3000);
  auto pool = Pool::create(f.arena, {.name = "threads", .count = 3000});
  CU_ASSERT_TRUE_FATAL(pool.ok());
  auto churn = [&pool, &f](std::byte mark) {
    BufferCache s(*pool);
    for (int round = 0; round < 2000; round++) {
      Handle h[64];
      uint32_t n = s.alloc(h, 8);
      for (uint32_t i = 0; i < n; i++) *f.arena.data(h[i]) = mark;
      for (uint32_t i = 0; i < n; i++)
        if (*f.arena.data(h[i]) != mark) return false;  // somebody else holds it too
      s.free({h, n});
    }
    return true;
  };
  bool ok[2] = {};
  std::thread one([&] { ok[0] = churn(std::byte{1}); });
  std::thread two([&] { ok[1] = churn(std::byte{2}); });
  one.join();
  two.join();
  CU_ASSERT_TRUE(ok[0]);
  CU_ASSERT_TRUE(ok[1]);
  EQUAL(pool->available(), 3000u);
}

void refused_parts() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(10);
  CU_ASSERT_FALSE(Pool::create(f.arena, {.name = "r1", .count = 0}).ok());
  CU_ASSERT_FALSE(Pool::create(f.arena, {.name = "r2", .first = 5, .count = 6}).ok());
  CU_ASSERT_FALSE(Pool::create(f.arena, {.name = "r3", .first = 10, .count = 1}).ok());
  CU_ASSERT_FALSE(Pool::create(f.arena, {.name = "r3", .first = 11, .count = 1}).ok());
  auto first = Pool::create(f.arena, {.name = "r4", .count = 4});
  CU_ASSERT_TRUE(first.ok());
  auto second = Pool::create(f.arena, {.name = "r4", .count = 4});
  CU_ASSERT_FALSE_FATAL(second.ok());
  EQUAL(second.error().code, EEXIST);
}

void one_arena() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  {
    auto m = ArenaMemory::create({.buffers = 512, .side_records = true});
    CU_ASSERT_TRUE_FATAL(m.ok());
    EQUAL(m->arena().count(), 512u);
    CU_ASSERT_TRUE(m->arena().has_side());
    m->arena().side({511}).vlan = 7;
    EQUAL(m->arena().side_piece(), 0u);
    CU_ASSERT_TRUE(m->page_bytes() >= 4096);
    auto second = ArenaMemory::create({.buffers = 512});
    CU_ASSERT_FALSE_FATAL(second.ok());
    EQUAL(second.error().code, EEXIST);
  }
  {
    auto m = ArenaMemory::create({.buffers = 512, .side_records = true, .side_piece = 128});
    CU_ASSERT_TRUE_FATAL(m.ok());
    EQUAL(m->arena().side_piece(), 128u);
    m->arena().side(make_handle(511, 1, 32)).vlan = 7;  // the last
  }
  CU_ASSERT_TRUE(ArenaMemory::create({.buffers = 512}).ok());
  auto huge = ArenaMemory::create({.buffers = 10000000});
  CU_ASSERT_FALSE_FATAL(huge.ok());
  EQUAL(huge.error().code, ENOMEM);
}

void pools_that_overlap_are_refused() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  Field f(100);
  auto low = Pool::create(f.arena, {.name = "low", .count = 50});
  CU_ASSERT_FATAL(low.ok());
  for (uint32_t first : {0u, 20u, 49u}) {
    auto other = Pool::create(f.arena, {.name = "other", .first = first, .count = 50});
    CU_ASSERT(!other.ok() && other.error().code == EBUSY);
  }
  auto high = Pool::create(f.arena, {.name = "high", .first = 50, .count = 50});
  CU_ASSERT(high.ok());
  // Another arena over the same memory has the same buffers.
  auto again = Arena::over(f.arena.memory(), f.arena.stride());
  CU_ASSERT_FATAL(again.ok());
  CU_ASSERT(!Pool::create(*again, {.name = "other", .first = 99, .count = 1}).ok());
  {
    Pool moved = *std::move(low);
    CU_ASSERT(!Pool::create(f.arena, {.name = "other", .count = 1}).ok());
  }
  CU_ASSERT(Pool::create(f.arena, {.name = "other", .count = 50}).ok());
}

const kilim::test::Case cases[] = {
    {"pools that overlap are refused", pools_that_overlap_are_refused},
    {"a stride is an odd number of lines", stride_rule},
    {"the address follows from the index", address_follows_index},
    {"the data of many handles is found in order", each_data_in_order},
    {"every buffer of a pool is handed out once", every_buffer_once},
    {"a dry pool gives fewer than asked, and more after a flush", dry_pool},
    {"the last freed buffer is the first allocated", last_freed_first},
    {"buffers freed by another cache come back in bulk", crossing_in_bulk},
    {"rows of every length keep every index", rows_of_every_length},
    {"two threads never hold the same buffer", two_threads},
    {"parts outside the arena and names taken are refused", refused_parts},
    {"a process has one arena", one_arena},
};

}  // namespace
}  // namespace pool_ut

KILIM_TEST_SUITE(pool, pool_ut::cases)
