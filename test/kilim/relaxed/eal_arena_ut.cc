// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions over EAL's memory: registered run by run, kept, and registered anew when EAL has
// given memory back.
#include <rte_malloc.h>

#include "eal.hh"
#include "kilim/detail/relaxed/eal_watch.hh"
#include "relaxed_fixture.hh"

namespace eal_arena_ut {
namespace {

using namespace kilim;
using kilim::test::Memory;
using relaxed::Answer;
using relaxed::Region;
using relaxed::Relaxed;

struct Bench {
  Memory memory;
  test::BinderFixture binder{8};
  std::unique_ptr<Relaxed> engine =
      *std::move(Relaxed::create(*binder.binder, {.keys = 8, .registrar = &memory}));
  std::byte* const at = static_cast<std::byte*>(rte_malloc(nullptr, 65536, 4096));

  ~Bench() { rte_free(at); }
  Answer make(Region& out, uint64_t offset) {
    queue::WqeCursor c{binder.sq};
    const Answer a = engine->register_memory(
        c, {reinterpret_cast<uint64_t>(at) + offset, 100, mr::Access::local_write}, out);
    engine->commit(c);
    (void)binder.complete();
    return a;
  }
  void settle() {
    for (int i = 0; i < 8; i++) {
      (void)engine->flush();
      (void)binder.complete();
      engine->poll();
    }
  }
  void end(Region& r) {
    engine->deregister(std::move(r));
    settle();
  }
};

void kept() {
  Bench b;
  CU_ASSERT_PTR_NOT_NULL_FATAL(b.at);
  for (int i = 0; i < 3; i++) {
    Region r;
    EQUAL_FATAL(b.make(r, static_cast<uint64_t>(i) * 8192), Answer::done);
    b.end(r);
  }
  EQUAL(b.memory.registered, 1);
  EQUAL(b.memory.deregistered, 0);
}

// The event is called by hand: without hugepages EAL has none.
void given_back() {
  Bench b;
  CU_ASSERT_PTR_NOT_NULL_FATAL(b.at);
  Region lives;
  Region next;
  EQUAL_FATAL(b.make(lives, 0), Answer::done);
  relaxed::note_eal_loss();
  b.settle();
  EQUAL(b.memory.deregistered, 0);  // a region lies in it
  EQUAL_FATAL(b.make(next, 4096), Answer::done);
  EQUAL(b.memory.registered, 2);
  b.end(lives);
  EQUAL(b.memory.deregistered, 1);
  b.end(next);
  EQUAL(b.memory.deregistered, 1);  // kept as before
  relaxed::note_eal_loss();
  b.engine->cover().follow_eal();
  EQUAL(b.memory.deregistered, 2);
  EQUAL_FATAL(b.make(next, 4096), Answer::done);
  EQUAL(b.memory.registered, 3);
  b.end(next);
}

const kilim::test::Case cases[] = {
    {"EAL's memory is registered once, and stays so behind its regions", kept},
    {"when EAL gives memory back, its arenas take no new regions", given_back},
};

}  // namespace
}  // namespace eal_arena_ut

KILIM_TEST_MAIN(eal_arena) {
  if (!kilim::test::start_eal()) return 1;
  return kilim::test::run_cases("relaxed/eal_arena", eal_arena_ut::cases, argc, argv);
}
