// SPDX-License-Identifier: BSD-3-Clause
// Part of relaxed_ut. Memory that is not covered, cannot be registered, or is longer than a list;
// and what an error or a grown engine leaves.
#include <cerrno>

#include "kilim/prm/mkc.hh"
#include "relaxed_fixture.hh"

namespace relaxed_limits_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

void uncovered_memory() {
  Rig r{16};
  std::vector<std::byte> pages(16 * 4096);
  const uint64_t base = (reinterpret_cast<uint64_t>(pages.data()) + 4095) & ~uint64_t{4095};
  Region maker;
  Region second;
  EQUAL_FATAL(r.make(maker, base + 5, 4 * 4096), Answer::done);
  EQUAL_FATAL(r.make(second, base + 4096, 4096), Answer::done);
  EQUAL(r.memory.registered, 1);
  EQUAL(r.relaxed->cover().made(), 1);
  r.round();
  // Its maker gone, nobody answers for the memory: it takes no new regions, and who is in it stays.
  r.relaxed->deregister(std::move(maker));
  r.settle();
  EQUAL(r.memory.deregistered, 0);
  CU_ASSERT_TRUE(second.valid());
  Region third;
  EQUAL_FATAL(r.make(third, base + 4096, 4096), Answer::done);
  EQUAL(r.memory.registered, 2);
  r.relaxed->deregister(std::move(second));
  r.settle();
  EQUAL(r.memory.deregistered, 1);
  r.relaxed->deregister(std::move(third));
  r.round();
  EQUAL(r.memory.deregistered, 1);  // marked, not invalidated: its key still reaches it
  r.settle();
  EQUAL(r.memory.deregistered, 2);
  EQUAL(r.relaxed->cover().size(), 1);
}

void memory_that_cannot_be_registered() {
  Rig r{4};
  Region a;
  r.memory.read_only = true;
  EQUAL(r.make(a, 0x5000, 10, mr::Access::local_write), Answer::not_covered);
  EQUAL(r.make(a, 0x5000, 10, mr::Access::remote_read), Answer::done);
  r.relaxed->deregister(std::move(a));
  r.memory.absent = true;
  EQUAL(r.make(a, 0x9000, 10, 0), Answer::not_covered);
  EQUAL(r.relaxed->refusal(), EFAULT);
  r.memory.absent = false;
  r.memory.locked_out = true;
  EQUAL(r.make(a, 0x9000, 10, 0), Answer::not_covered);
  EQUAL(r.relaxed->refusal(), ENOMEM);
  r.settle();
  EQUAL(r.relaxed->cover().size(), 1);

  auto closed = Relaxed::create(*r.binder.binder, {.keys = 4});
  CU_ASSERT_TRUE_FATAL(closed.ok());
  queue::WqeCursor c{r.binder.sq};
  EQUAL((*closed)->register_memory(c, {0x9000, 10, 0}, a), Answer::not_covered);
}

void refused() {
  Rig r{4};
  Region a;
  EQUAL(r.make(a, arena_at, 0), Answer::bad_range);
  EQUAL(r.make(a, ~uint64_t{0} - 10, 100), Answer::bad_range);
  EQUAL(r.make(a, ~uint64_t{0} - 10, 5), Answer::bad_range);  // its last page wraps
  EQUAL(r.make(a, arena_at, 1, mr::Access::remote_write), Answer::bad_access);
  EQUAL(r.make(a, arena_at, 1, mr::Access::remote_atomic), Answer::bad_access);
  EQUAL(r.make(a, arena_at, 1, 1u << 6), Answer::bad_access);
  EQUAL(r.binder.sq.posted(), 0);
  EQUAL(relaxed::errno_of(Answer::bad_access), EINVAL);
  CU_ASSERT_TRUE(std::strstr(relaxed::text(Answer::bad_access), "first goes with") != nullptr);
}

// The rig's keys have eight entries of at most 2 GiB.
void long_memory() {
  Rig r{4};
  const mr::Region all{.address = 0,
                       .length = ~uint64_t{0},
                       .iova = 0,
                       .lkey = Lkey{0x9900},
                       .rkey = Rkey{0x9900},
                       .page_bytes = 4096,
                       .access = mr::Access::all};
  CU_ASSERT_TRUE(r.relaxed->cover().add(all).ok());
  constexpr uint64_t gib = 1 << 30;
  Region a;
  const uint32_t at = r.binder.sq.posted();
  Region small;
  {
    queue::WqeCursor c{r.binder.sq};  // what was appended before is rung for too
    EQUAL(r.relaxed->register_memory(c, {arena_at, 1, 0}, small), Answer::done);
    EQUAL(r.relaxed->register_memory(c, {0x20'0000'0000, 5 * gib, 0}, a), Answer::done);
    r.relaxed->commit(c);
    EQUAL(r.binder.record.host(), r.binder.sq.posted());
  }
  EQUAL(r.word(at + 3, 64 + 24), 5 * gib);
  EQUAL(r.word(at + 3, 128 + 32 + 8), 0x20'0000'0000 + 4 * gib);
  Region b;
  EQUAL(r.make(b, 0x20'0000'0000, 17 * gib), Answer::too_long);
  EQUAL(r.make(b, 0x20'0000'0000, 1000 * gib), Answer::too_long);
  r.relaxed->deregister(std::move(a));
  r.relaxed->deregister(std::move(small));
  r.settle();
}

void after_an_error() {
  Rig r{4};
  Region a;
  EQUAL_FATAL(r.make(a, arena_at, 4096), Answer::done);
  (void)r.binder.complete(0);
  CU_ASSERT_TRUE(a.failed());
  Region b;
  EQUAL(r.make(b, arena_at, 4096), Answer::queue_failed);
  r.binder.recover();
  r.relaxed->deregister(std::move(a));
  r.settle();
  EQUAL(r.relaxed->waiting(), 0);
  std::array<Region, 4> regions;
  for (Region& region : regions) EQUAL(r.make(region, arena_at, 4096), Answer::done);
  for (Region& region : regions) r.relaxed->deregister(std::move(region));
}

// Three wait across the end of the ring of four, and two more behind them.
void grown_with_regions_waiting() {
  Rig r{16};
  r.relaxed = *std::move(Relaxed::create(*r.binder.binder, {.keys = 3, .registrar = &r.memory}));
  std::array<Region, 5> regions;
  const auto make_all = [&](std::size_t n) {
    for (std::size_t i = 0; i < n; i++)
      EQUAL_FATAL(r.make(regions[i], 0x5000 + i * 0x1000, 10), Answer::done);
    r.round();
  };
  for (std::size_t n : {1, 1, 1}) {
    make_all(n);
    r.relaxed->deregister(std::move(regions[0]));
    r.settle();
  }
  make_all(5);
  EQUAL(r.memory.registered, 8);
  for (std::size_t i = 0; i < 3; i++) r.relaxed->deregister(std::move(regions[i]));
  r.relaxed->grow(16);
  EQUAL(r.relaxed->waiting(), 3);
  for (std::size_t i = 3; i < 5; i++) r.relaxed->deregister(std::move(regions[i]));
  r.settle();
  EQUAL(r.relaxed->waiting(), 0);
  EQUAL(r.relaxed->counters().invalidated.read(), 8);
  EQUAL(r.memory.deregistered, 8);
}

constexpr kilim::test::Case of_limits[] = {
    {"uncovered memory is registered once, and released behind its last key", uncovered_memory},
    {"memory that cannot be registered is refused", memory_that_cannot_be_registered},
    {"ranges and rights that no region has are refused", refused},
    {"memory beyond 2 GiB takes several entries", long_memory},
    {"a region of a failed queue is deregistered as any other", after_an_error},
    {"regions that wait for a flush stay in order when the engine grows",
     grown_with_regions_waiting},
};

}  // namespace
}  // namespace relaxed_limits_ut

std::span<const kilim::test::Case> kilim::test::relaxed_limit_cases() {
  return relaxed_limits_ut::of_limits;
}
