// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions over a binder whose device completes when the test says so: what is posted, when
// keys come back, which memory is registered and how often.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "../mkey/mkey_fixture.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/relaxed/relaxed.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using relaxed::Answer;
using relaxed::Region;
using relaxed::Relaxed;
using test::BinderFixture;

constexpr uint64_t arena_at = 0x10'0000'0000;
constexpr uint64_t arena_bytes = 1 << 20;

// Registers whatever it is asked for, or what may only be read.
class Memory final : public mr::Registrar {
 public:
  Result<mr::Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                     uint64_t page_bytes) override {
    if (read_only && (access & mr::Access::local_write) != 0) return Error{EFAULT, "read-only"};
    if (absent) return Error{EFAULT, "not mapped"};
    if (locked_out) return Error{ENOMEM, "beyond the limit"};
    registered++;
    const auto address = reinterpret_cast<uint64_t>(memory.data());
    return mr::Region{.address = address,
                      .length = memory.size(),
                      .iova = address,
                      .lkey = Lkey{0x7000u + registered},
                      .rkey = Rkey{0x7000u + registered},
                      .page_bytes = page_bytes,
                      .access = access};
  }
  Result<mr::Region> register_memory_at(std::span<std::byte>, Iova, uint32_t, uint64_t) override {
    std::abort();
  }
  Status deregister(const mr::Region&) override {
    deregistered++;
    return Done{};
  }
  uint32_t registered = 0, deregistered = 0;
  bool read_only = false, absent = false, locked_out = false;
};

struct Rig {
  rte_rcu_qsbr* readers = nullptr;
  Memory memory;
  BinderFixture binder;
  std::unique_ptr<Relaxed> relaxed;

  explicit Rig(uint32_t keys, rte_rcu_qsbr* qsbr = nullptr, uint32_t share = 4)
      : readers(qsbr), binder(keys, {}, BinderFixture::blocks, qsbr) {
    relaxed = *std::move(Relaxed::create(
        *binder.binder, {.keys = keys, .registrar = &memory, .flush_share = share}));
    const mr::Region arena{.address = arena_at,
                           .length = arena_bytes,
                           .iova = arena_at,
                           .lkey = Lkey{0x4200},
                           .rkey = Rkey{0x4200},
                           .page_bytes = 4096,
                           .access = mr::Access::all};
    CU_ASSERT_TRUE_FATAL(relaxed->cover().add(arena).ok());
  }
  Answer make(Region& out, uint64_t address, uint64_t bytes,
              uint32_t access = mr::Access::local_write) {
    queue::WqeCursor c{binder.sq};
    const Answer a = relaxed->register_memory(c, {address, bytes, access}, out);
    relaxed->commit(c);
    return a;
  }
  // Everything posted completes, and a round passes.
  void round() {
    (void)binder.complete();
    relaxed->poll();
  }
  // Until nothing is waiting any more; how many rounds that took.
  void settle() {
    for (int i = 0; i < 8; i++) {
      (void)relaxed->flush();
      round();
    }
  }
  [[nodiscard]] uint64_t word(uint32_t position, uint32_t offset) const {
    be64 w;
    std::memcpy(&w, reinterpret_cast<const std::byte*>(&binder.wqe(position)) + offset, sizeof w);
    return w.host();
  }
};

void access_reaches_to_the_last_page() {
  Rig r{4};
  Region a;
  const uint32_t at = r.binder.sq.posted();
  EQUAL_FATAL(r.make(a, arena_at + 100, 5000), Answer::done);
  EQUAL(a.bytes(), 8192 - 100);
  // The second block's first address and length, the third block's only entry.
  EQUAL(r.word(at, 64 + 16), arena_at + 100);
  EQUAL(r.word(at, 64 + 24), 8192 - 100);
  EQUAL(r.word(at, 128), uint64_t{8192 - 100} << 32 | 0x4200);
  EQUAL(r.word(at, 136), arena_at + 100);
  CU_ASSERT_TRUE((r.word(at, 16 + 8) & prm::umr::mask_start_addr) != 0);
  CU_ASSERT_FALSE(a.valid());
  r.round();
  CU_ASSERT_TRUE(a.valid());
  r.relaxed->deregister(std::move(a));
  CU_ASSERT_FALSE(static_cast<bool>(a));
  r.settle();
}

void deregistering_only_marks() {
  Rig r{16};
  std::array<Region, 3> regions;
  for (uint64_t i = 0; i < 3; i++)
    EQUAL_FATAL(r.make(regions[i], arena_at + i * 4096, 4096), Answer::done);
  r.round();
  const uint32_t posted = r.binder.sq.posted();
  for (Region& region : regions) r.relaxed->deregister(std::move(region));
  r.round();
  EQUAL(r.binder.sq.posted(), posted);
  EQUAL(r.relaxed->waiting(), 3);
  EQUAL(r.binder.binder->counters().invalidated.read(), 0);

  CU_ASSERT_FALSE(r.relaxed->flush());
  EQUAL(r.binder.posted().size(), 3);  // one doorbell, three invalidations
  CU_ASSERT_FALSE(r.relaxed->flush());
  EQUAL(r.binder.posted().size(), 3);
  (void)r.binder.complete();
  CU_ASSERT_TRUE(r.relaxed->flush());
  EQUAL(r.relaxed->counters().invalidated.read(), 3);
  EQUAL(r.relaxed->waiting(), 0);
}

void dry_until_keys_come_back() {
  Rig r{4, nullptr, 1};
  std::array<Region, 4> regions;
  for (uint64_t i = 0; i < 4; i++)
    EQUAL_FATAL(r.make(regions[i], arena_at + i * 4096, 4096), Answer::done);
  r.round();
  Region more;
  EQUAL(r.make(more, arena_at, 1), Answer::dry);
  EQUAL(relaxed::errno_of(Answer::dry), EAGAIN);
  EQUAL(r.relaxed->counters().dry.read(), 1);
  r.relaxed->deregister(std::move(regions[2]));
  // The refusal itself has the marked key invalidated: without a flush it works some rounds later.
  EQUAL(r.make(more, arena_at, 1), Answer::dry);
  for (int i = 0; i < 3; i++) r.round();
  EQUAL(r.make(more, arena_at, 1), Answer::done);
  regions[2] = std::move(more);
  for (Region& region : regions) r.relaxed->deregister(std::move(region));
  r.settle();
  EQUAL(r.relaxed->live(), 0);
}

void flushed_when_a_share_is_spent() {
  Rig r{16, nullptr, 4};
  for (int i = 0; i < 5; i++) {
    Region a;
    EQUAL_FATAL(r.make(a, arena_at, 4096), Answer::done);
    r.round();
    EQUAL(r.binder.binder->invalidations_due(), 0);
    r.relaxed->deregister(std::move(a));
  }
  EQUAL(r.relaxed->counters().flushes.read(), 1);
  EQUAL(r.binder.binder->invalidations_due(), 5);
  r.relaxed->poll();
  EQUAL(r.binder.posted().size(), 5);
  r.round();
  EQUAL(r.relaxed->counters().invalidated.read(), 5);
}

struct Readers {
  rte_rcu_qsbr* state;
  Readers() {
    const std::size_t lines = (rte_rcu_qsbr_get_memsize(1) + 63) / 64 * 64;
    state = static_cast<rte_rcu_qsbr*>(std::aligned_alloc(64, lines));
    rte_rcu_qsbr_init(state, 1);
    rte_rcu_qsbr_thread_register(state, 0);
    rte_rcu_qsbr_thread_online(state, 0);
  }
  ~Readers() { std::free(state); }
  void pass() const { rte_rcu_qsbr_quiescent(state, 0); }
};

// One key, another worker, and a queue of that worker's.
void a_key_waits_for_workers_and_queues() {
  Readers readers;
  Rig r{1, readers.state};
  BinderFixture other{1};
  mkey::QueueClock* clock = r.binder.epochs->add_queue();
  Region a;
  EQUAL_FATAL(r.make(a, arena_at, 4096), Answer::done);
  r.round();
  const Lkey before = a.lkey();
  {
    queue::WqeCursor c{other.sq};  // the worker posts something by the handle
    CU_ASSERT_TRUE(umr::local_invalidate(c, before, {}).ok());
    c.commit();
  }
  clock->publish(other.sq);
  r.relaxed->deregister(std::move(a));
  r.settle();
  EQUAL(r.relaxed->waiting(), 0);  // invalidated
  EQUAL(r.make(a, arena_at, 4096), Answer::dry);
  readers.pass();
  r.settle();
  EQUAL(r.make(a, arena_at, 4096), Answer::dry);
  (void)other.sq.retire(0);
  clock->publish(other.sq);
  r.settle();
  EQUAL_FATAL(r.make(a, arena_at, 4096), Answer::done);
  r.round();
  EQUAL(index_of(a.lkey()), index_of(before));
  CU_ASSERT_NOT_EQUAL(tag_of(a.lkey()), tag_of(before));
  r.relaxed->deregister(std::move(a));
  r.binder.epochs->remove_queue(clock);
}

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

const kilim::test::Case cases[] = {
    {"access reaches from the first byte to the last page's boundary",
     access_reaches_to_the_last_page},
    {"deregistering only marks, a flush invalidates all that is marked", deregistering_only_marks},
    {"EAGAIN while the pool is dry, and what is marked comes back", dry_until_keys_come_back},
    {"a flush begins by itself when a share of the keys is spent", flushed_when_a_share_is_spent},
    {"a key is handed out again after workers and queues have passed, under a new tag",
     a_key_waits_for_workers_and_queues},
    {"uncovered memory is registered once, and released behind its last key", uncovered_memory},
    {"memory that cannot be registered is refused", memory_that_cannot_be_registered},
    {"ranges and rights that no region has are refused", refused},
    {"memory beyond 2 GiB takes several entries", long_memory},
    {"a region of a failed queue is deregistered as any other", after_an_error},
    {"regions that wait for a flush stay in order when the engine grows",
     grown_with_regions_waiting},
};

}  // namespace

KILIM_UT_MAIN("relaxed/relaxed", cases)
