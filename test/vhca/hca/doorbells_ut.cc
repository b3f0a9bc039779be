// SPDX-License-Identifier: BSD-3-Clause
// Doorbells of pages with many queues: the one that is named is served at once, and none is lost
// that is not; nor is what is posted behind read late.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include <malloc.h>

#include "crowd_fixture.hh"
#include "ut.hh"
#include "vhca/memory/valgrind.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {
namespace doorbells_ut {
namespace {

constexpr std::size_t many = 1000;
using Sends = hca::PageQueues<wq::Qp>;
// However the others ring, a record waits no longer than so many turns.
constexpr std::size_t patience = (many / Sends::batch + 2) * Sends::seldom;

void a_named_queue_is_served_in_the_same_turn() {
  Crowd c(many, 0);
  for (std::size_t i : {std::size_t{0}, many / 2, many - 1, many / 3}) {
    c.post(i);
    c.ring(i, i % 4);
    CU_ASSERT(c.turn() != 0);
    CU_ASSERT(c.done(i));
  }
  for (std::size_t word = 0; word < 4; word++) {
    c.post(10 + word);
    c.ring(10 + word, word);
  }
  c.turn();
  for (std::size_t word = 0; word < 4; word++) CU_ASSERT(c.done(10 + word));
}

void doorbells_that_were_stored_over_are_found() {
  Crowd c(many, 0);
  for (std::size_t i = 0; i < many; i += 97) {
    c.post(i);
    c.ring(i);
  }
  c.rig.run();
  for (std::size_t i = 0; i < many; i += 97) CU_ASSERT(c.done(i));
}

// Of a small page all are looked at in the turn of a doorbell, whichever it names.
void a_small_page_is_looked_at_as_a_whole() {
  constexpr std::size_t few = 3;
  for (std::size_t named = 0; named < few; named++) {
    Crowd c(few, few);
    for (std::size_t i = 0; i < few; i++) {
      c.post(i);
      c.arm((named + 1 + i) % few);  // the named one last, over the others
    }
    c.ring(named);
    c.turn();
    for (std::size_t i = 0; i < few; i++) {
      CU_ASSERT(c.done(i));
      CU_ASSERT(c.armed(i));
    }
  }
}

// Beside a queue that rings each turn.
void a_record_is_found_while_others_ring() {
  Crowd c(many, 0);
  c.post(3);
  std::size_t turns = 0;
  for (; !c.done(3) && turns < patience; turns++) {
    c.post(500);
    c.ring(500);
    c.turn();
    CU_ASSERT(c.done(500));
  }
  CU_ASSERT(turns < patience);
}

// libmlx5 leaves the memory of a client's own allocator as it is.
void what_nobody_has_written_is_not_believed() {
  Crowd c(4, 0);
  c.leave_garbage(2);
  c.post(1);
  c.ring(1);
  c.rig.run();
  CU_ASSERT(c.done(1));
  CU_ASSERT(c.done(2));
  CU_ASSERT(c.rig.hca->qps.at(c.qpns[2].value())->state == QpState::rts);
  c.post(2);
  c.ring(2);
  c.turn();
  CU_ASSERT(c.done(2));
}

// A client that stores doorbells over each other is looked at more often.
void where_there_is_news_nothing_is_put_off() {
  Crowd c(many, 0);
  for (std::size_t i = 0; i < many; i++) c.post(i);
  std::size_t turns = 0;
  for (std::size_t i = 0; i < many; turns++) {
    c.ring(many - 1);
    c.turn();
    while (i < many && c.done(i)) i++;
    CU_ASSERT_FATAL(turns < Sends::seldom + many / Sends::batch + 1);
  }
}

void the_adapter_does_not_rest_before_the_circle_ends() {
  Crowd c(many, 0);
  c.post(many - 1);
  c.ring(3);
  std::size_t turns = 0;
  for (; c.turn() != 0; turns++) CU_ASSERT(c.done(many - 1) || !c.rig.hca->idle());
  CU_ASSERT(c.done(many - 1));
  CU_ASSERT(c.rig.hca->idle());
  CU_ASSERT(turns >= many / Sends::batch);
  CU_ASSERT(turns <= many / Sends::batch + 2);
}

void a_doorbell_of_a_destroyed_queue_loses_nothing() {
  Crowd c(many, 0);
  const Qpn gone = c.qpns[7];
  c.post(3);
  c.ring(7);
  EQUAL(hca::destroy_qp(*c.rig.hca, gone), 0);
  c.rig.run();
  CU_ASSERT(c.done(3));
  c.post(4);
  c.ring_number(gone.value());
  c.rig.run();
  CU_ASSERT(c.done(4));
}

// The last queue takes the place of one that goes, which the circle has passed.
void queues_that_go_hide_no_record() {
  Crowd c(many, 0);
  c.post(many - 1);
  c.ring(3);
  c.turn();
  c.turn();
  CU_ASSERT(!c.done(many - 1));
  EQUAL(hca::destroy_qp(*c.rig.hca, c.qpns[20]), 0);
  c.rig.run();
  CU_ASSERT(c.done(many - 1));
  for (std::size_t i = 0; i < many; i++)
    EQUAL(hca::destroy_qp(*c.rig.hca, c.qpns[i]), i == 20 ? -EINVAL : 0);
  c.ring_number(1);
  c.rig.run();
}

void any_number_is_harmless() {
  Crowd c(many, 20);
  uint64_t x = 1;
  for (int i = 0; i < 2000; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    c.ring_number(static_cast<uint32_t>(x >> 32), i % 4);
    mmio_store(c.rig.uar + prm::uar::cq_doorbell, be64{x});
    c.turn();
  }
  c.post(5);
  c.ring_number(~0u);
  c.rig.run();
  CU_ASSERT(c.done(5));
}

// Of another page: nobody's, as on a card.
void a_page_speaks_for_its_own_queues_only() {
  Crowd c(many, 0);
  const hca::Uar& other = **c.rig.hca->uars.alloc();
  CqSpec spec;
  Pages memory(4096);
  spec.buf = memory.va();
  spec.record = Va{memory.at(2048)};
  spec.cqe_count = 8;
  spec.uar_page = other.index;
  EQUAL(hca::create_cq(*c.rig.hca, spec, &c.rig.events).ok(), true);
  c.post(5);
  mmio_store(other.page.data() + prm::uar::blueflame, be64{uint64_t{c.qpns[5].value()} << 8});
  c.rig.run();
  CU_ASSERT(!c.done(5));
  c.ring(6);
  c.rig.run();
  CU_ASSERT(c.done(5));
}

void an_armed_queue_of_many_is_heard_at_once() {
  Crowd c(0, many);
  for (std::size_t i : {std::size_t{0}, many / 2, many - 1}) {
    c.arm(i);
    c.turn();
    CU_ASSERT(c.armed(i));
  }
  for (std::size_t i = 1; i < many; i += 97) c.arm(i);
  c.rig.run();
  for (std::size_t i = 1; i < many; i += 97) CU_ASSERT(c.armed(i));
}

// What was asked for before a command is done before it (resize_cq).
void a_command_comes_behind_every_record() {
  Crowd c(many, 40);
  c.post(many - 1);
  c.ring(0);
  c.arm(39);
  c.arm(0);
  EQUAL(hca::resize_cq(*c.rig.hca, c.rig.cq_b.cqn, c.rig.cq_b.memory.va(), 128), 0);
  CU_ASSERT(c.done(many - 1));
  CU_ASSERT(c.armed(39));
}

void stopped_stores_are_served_from_every_record() {
  Crowd c(many, 40);
  c.post(many - 1);
  {
    const LockGuard guard(c.rig.hca->lock);
    c.rig.hca->expect_stores();
  }
  c.rig.run();
  CU_ASSERT(c.done(many - 1));
}

// What the heap gave for each of so many objects; a sanitizer's heap does not say.
double bytes_each(std::size_t before, std::size_t count) {
  const std::size_t now = ::mallinfo2().uordblks;
  return now > before ? static_cast<double>(now - before) / static_cast<double>(count) : 0;
}

// Ten times as many in the long check; memory of the adapter's own, without rings.
void queues_and_regions_without_number() {
  const char* mode = std::getenv("KILIM_CHECK");
  const bool longer = mode != nullptr && std::strcmp(mode, "long") == 0;
  const std::size_t queues = memory::under_valgrind() ? 1000 : longer ? 100'000 : 10'000;
  const std::size_t regions = 10 * queues;
  std::size_t before = ::mallinfo2().uordblks;
  Crowd c(queues, 1);
  const double of_queue = bytes_each(before, queues);
  Pages memory(4096);
  std::vector<MkeyIndex> keys;
  keys.reserve(regions);
  before = ::mallinfo2().uordblks;
  for (std::size_t i = 0; i < regions; i++)
    keys.push_back(index_of(c.rig.reg(memory, rw_access).lkey));
  const double of_region = bytes_each(before, regions);
  std::printf("%zu queues of %.0f bytes, %zu regions of %.0f ", queues, of_queue, regions,
              of_region);
  CU_ASSERT(of_queue < 3072);
  CU_ASSERT(of_region < 512);
  for (std::size_t i = 0; i < queues; i += queues / 100) {
    c.post(i);
    c.ring(i);
    c.turn();
    CU_ASSERT(c.done(i));
  }
  for (const MkeyIndex key : keys) EQUAL(hca::dereg_mr(*c.rig.hca, key), 0);
  for (const Qpn qpn : c.qpns) EQUAL(hca::destroy_qp(*c.rig.hca, qpn), 0);
}

// As crypto_mlx5 does, which writes a slot anew when it sees the entry of what stood before its
// NOP.
void nops_behind_a_request_are_read_before_its_entry_shows() {
  Rig rig;
  rig.a.put(Wqe(prm::Opcode::nop));
  rig.a.put(Wqe(prm::Opcode::nop).quiet());
  rig.a.ring(rig.uar);
  std::optional<Completion> shown;
  for (int turn = 0; turn < 4 && !shown; turn++) {
    (void)rig.hca->run(1);
    shown = rig.cq_a.poll();
  }
  CU_ASSERT_FATAL(shown.has_value());
  std::memset(rig.a.sq.data() + 64, 0xff, 64);  // of no request
  rig.run();
  CU_ASSERT(!rig.cq_a.poll().has_value());
}

const kilim::test::Case cases[] = {
    {"NOPs behind a request are read before its entry shows",
     nops_behind_a_request_are_read_before_its_entry_shows},
    {"a named queue is served in the same turn", a_named_queue_is_served_in_the_same_turn},
    {"doorbells that were stored over are found", doorbells_that_were_stored_over_are_found},
    {"a small page is looked at as a whole", a_small_page_is_looked_at_as_a_whole},
    {"a record is found while others ring", a_record_is_found_while_others_ring},
    {"what nobody has written is not believed", what_nobody_has_written_is_not_believed},
    {"where there is news nothing is put off", where_there_is_news_nothing_is_put_off},
    {"the adapter does not rest before the circle ends",
     the_adapter_does_not_rest_before_the_circle_ends},
    {"a doorbell of a destroyed queue loses nothing",
     a_doorbell_of_a_destroyed_queue_loses_nothing},
    {"queues that go hide no record", queues_that_go_hide_no_record},
    {"any number is harmless", any_number_is_harmless},
    {"a page speaks for its own queues only", a_page_speaks_for_its_own_queues_only},
    {"an armed queue of many is heard at once", an_armed_queue_of_many_is_heard_at_once},
    {"a command comes behind every record", a_command_comes_behind_every_record},
    {"queues and regions without number", queues_and_regions_without_number},
    {"stopped stores are served from every record", stopped_stores_are_served_from_every_record},
};

}  // namespace
}  // namespace doorbells_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(doorbells, kilim::vhca::test::doorbells_ut::cases)
