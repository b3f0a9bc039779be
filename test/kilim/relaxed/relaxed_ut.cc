// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions over a binder whose device completes when the test says so: what is posted, when
// keys come back, which memory is registered and how often.
#include "case_tables.hh"
#include "kilim/prm/mkc.hh"
#include "relaxed_fixture.hh"

namespace relaxed_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

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

void invalidated_and_still_used(Rig& r, Region& a) {
  r.relaxed->deregister(std::move(a));
  r.settle();
  EQUAL(r.relaxed->waiting(), 0);  // invalidated
  EQUAL(r.make(a, arena_at, 4096), Answer::dry);
}

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
  invalidated_and_still_used(r, a);
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

const kilim::test::Case cases[] = {
    {"access reaches from the first byte to the last page's boundary",
     access_reaches_to_the_last_page},
    {"deregistering only marks, a flush invalidates all that is marked", deregistering_only_marks},
    {"EAGAIN while the pool is dry, and what is marked comes back", dry_until_keys_come_back},
    {"a flush begins by itself when a share of the keys is spent", flushed_when_a_share_is_spent},
    {"a key is handed out again after workers and queues have passed, under a new tag",
     a_key_waits_for_workers_and_queues},
};

}  // namespace
}  // namespace relaxed_ut

KILIM_TEST_MAIN(relaxed) {
  return kilim::test::run_tables(
      "relaxed/relaxed", {relaxed_ut::cases, kilim::test::relaxed_limit_cases()}, argc, argv);
}
