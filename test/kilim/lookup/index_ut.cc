// SPDX-License-Identifier: BSD-3-Clause
// The index from address to key against a plain search, alone and with readers and a changing
// thread at once; regions that deregister themselves.
#include <array>
#include <cerrno>

#include "case_tables.hh"
#include "kilim/detail/lookup/front.hh"
#include "kilim/detail/lookup/index.hh"
#include "kilim/detail/mr/registrar.hh"
#include "lookup_fixture.hh"

namespace index_ut {
namespace {

using namespace kilim;
using namespace kilim::lookup;
using namespace kilim::mr;
using namespace kilim::test;

// Every range that begins or ends at a border of the region, or a byte beside it.
void check_borders(const Index& index, const Region& r) {
  const uint64_t end = r.address + r.length;
  EQUAL(index.find(r.address, r.length), r.lkey);
  EQUAL(index.find(r.address, 1), r.lkey);
  EQUAL(index.find(r.address, 0), r.lkey);
  EQUAL(index.find(end - 1, 1), r.lkey);
  EQUAL(index.find(r.address, r.length + 1), Lkey{0});
  EQUAL(index.find(r.address - 1, 1), Lkey{0});
  EQUAL(index.find(r.address - 1, r.length), Lkey{0});
  EQUAL(index.find(end, 1), Lkey{0});
  EQUAL(index.find(end - 1, 2), Lkey{0});
  EQUAL(index.find(r.address, ~uint64_t{0}), Lkey{0});
  EQUAL(index.find(end - 1, ~uint64_t{0}), Lkey{0});
}

void borders() {
  const auto index = make_index();
  CU_ASSERT_TRUE_FATAL(index != nullptr);
  constexpr uint64_t places[] = {arena, arena + arena_bytes - 3 * mib2, arena - 4 * mib2,
                                 7 * gib - mib2, Index::reach - 16 * mib2};
  constexpr uint64_t shapes[][2] = {
      {0, mib2}, {0, 3 * mib2},      {kib4, mib2},  {kib4, kib4}, {100, 1000},
      {4095, 2}, {17, 2 * mib2 + 1}, {mib2 - 1, 2}, {1, mib2},    {3, 2 * mib2 - 3}};
  uint32_t key = 1;
  for (const uint64_t place : places)
    for (const auto& [offset, length] : shapes) {
      const Region r = region(place + offset, length, key++);
      CU_ASSERT_TRUE_FATAL(index->add(r).ok());
      check_borders(*index, r);
      CU_ASSERT_TRUE(index->remove(r.lkey).ok());
      EQUAL(index->find(r.address, 1), Lkey{0});
      CU_ASSERT_TRUE(index->gone(r.lkey));
    }
  EQUAL(index->size(), 0);
  EQUAL(index->waiting(), 0);
}

void refusals() {
  EQUAL(Index::create({.arena = ~uint64_t{0}, .arena_bytes = 2}).error().code, EINVAL);
  EQUAL(Index::create({.arena = Index::reach - 1, .arena_bytes = 2}).error().code, EINVAL);
  const auto index = make_index();
  CU_ASSERT_TRUE_FATAL(index != nullptr);
  EQUAL(index->add(region(5, 0, 1)).error().code, EINVAL);
  EQUAL(index->add(region(5, ~uint64_t{0}, 1)).error().code, EINVAL);
  EQUAL(index->add(region(5, 5, 0)).error().code, EINVAL);
  EQUAL(index->add(region(Index::reach - 1, 2, 1)).error().code, EINVAL);
  Region shifted = region(mib2, mib2, 1);
  shifted.iova = 0;
  EQUAL(index->add(shifted).error().code, EINVAL);
  Region undefined = region(mib2, mib2, 1);
  undefined.undefined = true;
  EQUAL(index->add(undefined).error().code, EINVAL);
  CU_ASSERT_TRUE(index->add(region(5, 5, 1)).ok());
  EQUAL(index->add(region(50, 5, 1)).error().code, EEXIST);
  EQUAL(index->find(50, 5), Lkey{0});
  EQUAL(index->remove(Lkey{2}).error().code, ENOENT);
  EQUAL(index->size(), 1);
}

void wide() {
  const auto index = make_index();
  CU_ASSERT_TRUE_FATAL(index != nullptr);
  CU_ASSERT_TRUE(index->add(region(0, ~uint64_t{0}, 1)).ok());
  CU_ASSERT_TRUE(index->add(region(gib, 300 * gib, 2, Access::local_write)).ok());
  CU_ASSERT_TRUE(index->add(region(~uint64_t{0} - 9, 10, 3)).ok());
  CU_ASSERT_TRUE(index->add(region(arena, mib2, 4)).ok());
  EQUAL(index->find(0, 1), Lkey{1});
  EQUAL(index->find(~uint64_t{0}, 1), Lkey{3});
  EQUAL(index->find(~uint64_t{0} - 9, 10), Lkey{3});
  EQUAL(index->find(~uint64_t{0} - 10, 2), Lkey{1});
  EQUAL(index->find(~uint64_t{0}, 2), Lkey{0});
  EQUAL(index->find(gib, 299 * gib), Lkey{2});
  EQUAL(index->find(arena, mib2), Lkey{4});
  EQUAL(index->find(arena, mib2 + 1), Lkey{2});
  EQUAL(index->find(arena, 1, Rights{Access::local_write}), Lkey{2});
  CU_ASSERT_TRUE(index->remove(Lkey{2}).ok());
  EQUAL(index->find(gib, 1), Lkey{1});
  EQUAL(index->find(arena, 1, Rights{Access::local_write}), Lkey{0});
}

void many_small_ones_in_a_block() {
  const auto index = make_index();
  CU_ASSERT_TRUE_FATAL(index != nullptr);
  for (const uint64_t from : {arena, gib}) {
    for (uint32_t i = 0; i < 512; i++)
      CU_ASSERT_TRUE_FATAL(index->add(region(from + i * kib4, kib4, i + 1)).ok());
    CU_ASSERT_TRUE(index->add(region(from, mib2, 1000)).ok());
    for (uint32_t i = 0; i < 512; i++) {
      EQUAL(index->find(from + i * kib4, kib4), Lkey{i + 1});
      EQUAL(index->find(from + i * kib4 + 1, 2), Lkey{i + 1});
    }
    EQUAL(index->find(from + kib4 - 1, 2), Lkey{1000});
    for (uint32_t i = 0; i < 512; i++) CU_ASSERT_TRUE_FATAL(index->remove(Lkey{i + 1}).ok());
    EQUAL(index->find(from, mib2), Lkey{1000});
    CU_ASSERT_TRUE(index->remove(Lkey{1000}).ok());
    EQUAL(index->find(from, 1), Lkey{0});
    EQUAL(index->waiting(), 0);
  }
}

void a_key_stays_until_readers_pass() {
  const Qsbr readers = make_qsbr(2);
  CU_ASSERT_TRUE_FATAL(readers != nullptr);
  const auto index = make_index(readers.get());
  CU_ASSERT_TRUE_FATAL(index != nullptr);
  for (uint32_t id : {0u, 1u}) {
    rte_rcu_qsbr_thread_register(readers.get(), id);
    rte_rcu_qsbr_thread_online(readers.get(), id);
  }
  CU_ASSERT_TRUE(index->add(region(arena, mib2, 1)).ok());
  CU_ASSERT_FALSE(index->gone(Lkey{1}));
  CU_ASSERT_TRUE(index->remove(Lkey{1}).ok());
  EQUAL(index->find(arena, 1), Lkey{0});
  CU_ASSERT_FALSE(index->gone(Lkey{1}));
  EQUAL(index->add(region(gib, mib2, 1)).error().code, EBUSY);
  rte_rcu_qsbr_quiescent(readers.get(), 0);
  CU_ASSERT_FALSE(index->gone(Lkey{1}));
  rte_rcu_qsbr_quiescent(readers.get(), 1);
  CU_ASSERT_TRUE(index->gone(Lkey{1}));
  CU_ASSERT_TRUE(index->add(region(gib, mib2, 1)).ok());
  EQUAL(index->find(gib, mib2), Lkey{1});
}

void a_front_forgets() {
  const auto index = make_index();
  CU_ASSERT_TRUE_FATAL(index != nullptr);
  Front front{*index};
  CU_ASSERT_TRUE(index->add(region(gib + 100, 1000, 1)).ok());
  for (int i = 0; i < 8; i++) EQUAL(front.find(gib + 100, 1000), Lkey{1});
  EQUAL(front.misses(), 1);
  EQUAL(front.find(gib + 99, 1), Lkey{0});
  EQUAL(front.find(gib + 100, 1001), Lkey{0});
  EQUAL(front.find(gib + 100, ~uint64_t{0}), Lkey{0});
  CU_ASSERT_TRUE(index->add(region(gib + 200, 100, 2)).ok());
  EQUAL(front.find(gib + 200, 100), Lkey{2});
  EQUAL(front.find(gib + 200, 101), Lkey{1});
  CU_ASSERT_TRUE(index->remove(Lkey{2}).ok());
  EQUAL(front.find(gib + 200, 100), Lkey{1});
}

class Counting final : public Registrar {
 public:
  Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                 uint64_t page_bytes) override {
    if (memory.empty()) return Error{EFAULT, "nothing to register"};
    live++;
    Region r = region(reinterpret_cast<uint64_t>(memory.data()), memory.size(), 9);
    r.access = access;
    r.page_bytes = page_bytes;
    return r;
  }
  Result<Region> register_memory_at(std::span<std::byte> memory, Iova iova, uint32_t access,
                                    uint64_t page_bytes) override {
    Result<Region> r = register_memory(memory, access, page_bytes);
    if (r) r->iova = iova.value();
    return r;
  }
  Status deregister(const Region&) override {
    live--;
    return Done{};
  }
  int live = 0;
};

void mr_deregisters_once() {
  Counting registrar;
  std::array<std::byte, 64> memory{};
  {
    Result<Mr> a = Mr::create(registrar, memory, Access::local, 4096);
    Result<Mr> b = Mr::create(registrar, memory, Access::all, 4096);
    CU_ASSERT_TRUE_FATAL(a.ok());
    CU_ASSERT_TRUE_FATAL(b.ok());
    EQUAL(registrar.live, 2);
    Mr moved = std::move(*a);
    EQUAL(moved.region().access, Access::local);
    moved = std::move(*b);
    EQUAL(registrar.live, 1);
  }
  EQUAL(registrar.live, 0);
  EQUAL(Mr::create(registrar, {}, Access::local, 4096).error().code, EFAULT);
}

const kilim::test::Case cases[] = {
    {"the index finds regions to the byte, in and outside the arena", borders},
    {"the index refuses what it cannot hold", refusals},
    {"regions wider than the tables come last", wide},
    {"512 regions share a block, a wider one behind them", many_small_ones_in_a_block},
    {"a removed key stays taken until every reader has passed", a_key_stays_until_readers_pass},
    {"a front forgets with every change", a_front_forgets},
    {"a region deregisters itself once, also when moved", mr_deregisters_once},
};

}  // namespace
}  // namespace index_ut

KILIM_TEST_MAIN(index) {
  return kilim::test::run_tables("lookup/index",
                                 {index_ut::cases, kilim::test::index_random_cases()}, argc, argv);
}
