// SPDX-License-Identifier: BSD-3-Clause
// A pool with queues over arrays: the test writes what a device would write and reads what one
// would read. Test only, one thread.
#pragma once

#include <cstdio>
#include <optional>
#include <vector>

#include "eal.hh"
#include "rings_fixture.hh"
#include "ut.hh"

namespace kilim::test {

inline constexpr uint32_t buffers = 200;
inline constexpr Lkey arena_key{0x4711};

struct Bench {
  std::vector<std::byte> memory{std::size_t{buffers} * pool::default_stride};
  std::vector<pool::SideRecord> side;
  pool::Arena arena;
  std::optional<pool::Pool> pool, header_pool;
  std::optional<pool::BufferCache> cache;
  std::optional<pool::BufferCache> headers;
  RxMemory rx_memory;
  TxMemory tx_memory;
  std::optional<burst::RxQueue> rx;
  std::optional<burst::TxQueue> tx;
  std::array<Lkey, 16> keys{};
  std::array<uint32_t, 16> free_slots{};
  burst::MkeySlots slots;
  uint32_t headers_back = 0;

  // `side_piece`: bytes of a buffer for which there is a side record each; 0: one for all of it.
  // `own_headers` of the buffers are in a pool of their own.
  explicit Bench(uint32_t side_piece = 0, uint32_t own_headers = 0)
      : side(std::size_t{buffers} * pool::side_records_of(pool::default_stride, side_piece)),
        arena(*pool::Arena::over(memory, pool::default_stride, side.data(), nullptr, side_piece)) {
    CU_ASSERT_TRUE_FATAL(start_eal());
    pool.emplace(make_pool("bench", 0, buffers - own_headers));
    if (own_headers != 0)
      header_pool.emplace(make_pool("heads", buffers - own_headers, own_headers));
    cache.emplace(*pool);
    rx.emplace(burst::RxQueue{
        .rq = burst::RxRing(rx_memory.geometry(), rx_memory.indices, {arena, arena_key, 2}),
        .cq = queue::Cq(rx_memory.cq.geometry()),
        .cache = &*cache,
        .arena = arena,
        .head_lines = 2,
        .refill_at = 8});
    tx.emplace(burst::TxQueue{.sq = queue::Sq(tx_memory.geometry(), tx_memory.ids),
                              .cq = queue::Cq(tx_memory.cq.geometry()),
                              .sent = burst::SentRing(tx_memory.handles, tx_memory.bursts),
                              .cache = &*cache,
                              .arena = arena,
                              .key = arena_key,
                              .slots = &slots});
    for (uint32_t i = 0; i < keys.size(); i++) keys[i] = Lkey{0x100 + i};
    headers.emplace(header_pool ? *header_pool : *pool);
    tx->headers = &*headers;
    slots = {keys.data(), free_slots.data(), 0, &*headers};
  }
  pool::Pool make_pool(const char* kind, uint32_t from, uint32_t count) const {
    static int number = 0;
    char name[24];
    std::snprintf(name, sizeof name, "%s%d", kind, number++);
    return *std::move(pool::Pool::create(arena, {.name = name, .first = from, .count = count}));
  }
  uint32_t outstanding() {
    cache->flush();
    headers_back = headers->held();
    headers->flush();
    return buffers - pool->available() - (header_pool ? header_pool->available() : 0);
  }
};

}  // namespace kilim::test
