// SPDX-License-Identifier: BSD-3-Clause
// Epochs: who has to pass before a key comes back; what a binder allocates after set-up.
#include <cstdlib>

#include <malloc.h>

#include "mkey_fixture.hh"
#include "ut.hh"

namespace epoch_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr std::array<Piece, 1> pieces{Piece{0x1000, 10, Lkey{0x100}}};

// Readers 0 and 1, online.
struct Readers {
  Readers() {
    const std::size_t lines = (rte_rcu_qsbr_get_memsize(2) + 63) / 64 * 64;
    state = static_cast<rte_rcu_qsbr*>(std::aligned_alloc(64, lines));
    rte_rcu_qsbr_init(state, 2);
    for (unsigned t = 0; t < 2; t++) {
      rte_rcu_qsbr_thread_register(state, t);
      rte_rcu_qsbr_thread_online(state, t);
    }
  }
  ~Readers() { std::free(state); }
  void pass(unsigned t) const { rte_rcu_qsbr_quiescent(state, t); }
  rte_rcu_qsbr* state;
};

// Another worker's send queue, of which only the counts matter.
struct OtherQueue {
  std::array<uint64_t, 64> wr_ids{};
  alignas(64) std::array<std::byte, 64 * 64> memory{};
  be32 record{0};
  alignas(8) std::array<std::byte, 8> doorbell{};
  queue::Sq sq{{.buf = memory.data(),
                .wqebb_count = 64,
                .record = &record,
                .doorbell = doorbell.data(),
                .qpn = Qpn{9}},
               wr_ids};
  void post() {
    queue::WqeCursor c{sq};
    c.control(prm::Opcode::nop, Octowords{1}, 0, 0);
    c.advance(1, 0);
    c.commit();
  }
};

void bind_and_end(BinderFixture& r) {
  Binding b = r.binder->claim();
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(b));
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE_FATAL(r.binder->bind(c, b, {}, View::of(pieces)).ok());
  r.binder->commit(c);
  r.complete();
}

void readers_then_queues() {
  Readers readers;
  BinderFixture r{1, {}, BinderFixture::blocks, readers.state};
  OtherQueue other;
  QueueClock* clock = r.epochs->add_queue();
  CU_ASSERT_PTR_NOT_NULL_FATAL(clock);
  other.post();
  bind_and_end(r);
  CU_ASSERT_TRUE(r.binder->flush());
  r.complete();
  r.binder->poll();
  readers.pass(0);
  r.binder->poll();
  // Reader 1 may still take the handle and post a WQE with it.
  other.post();
  clock->publish(other.sq);
  CU_ASSERT_FALSE(r.binder->claim());
  readers.pass(1);
  r.binder->poll();
  CU_ASSERT_FALSE(r.binder->claim());
  other.post();  // after both have passed: nothing to wait for
  other.sq.retire(0);
  clock->publish(other.sq);
  r.binder->poll();
  CU_ASSERT_FALSE(r.binder->claim());
  other.sq.retire(1);
  clock->publish(other.sq);
  r.binder->poll();
  CU_ASSERT_TRUE(static_cast<bool>(r.binder->claim()));
  r.epochs->remove_queue(clock);
}

void reset_queue_is_done() {
  BinderFixture r{1};
  OtherQueue other;
  QueueClock* clock = r.epochs->add_queue();
  other.post();
  other.post();
  clock->publish(other.sq);
  bind_and_end(r);
  (void)r.binder->flush();
  r.complete();
  r.binder->poll();
  CU_ASSERT_FALSE(r.binder->claim());
  clock->recover(other.sq);
  other.sq.reset();
  r.binder->poll();
  CU_ASSERT_TRUE(static_cast<bool>(r.binder->claim()));
  other.post();
  clock->publish(other.sq);
  EQUAL(clock->posted(), 3);
  EQUAL(clock->done(), 2);
  r.epochs->remove_queue(clock);
}

// What others post through the key goes well until they are done; then it is invalidated.
void ending_after_the_epoch() {
  Readers readers;
  BinderFixture r{
      1, {.invalidate = InvalidatePolicy::after_epoch}, BinderFixture::blocks, readers.state};
  bind_and_end(r);
  CU_ASSERT_FALSE(r.binder->flush());
  EQUAL(r.binder->deferred(), 1);
  readers.pass(0);
  readers.pass(1);
  r.binder->poll();
  EQUAL(r.binder->invalidations_due(), 0);  // the epoch began behind these
  readers.pass(0);
  readers.pass(1);
  r.binder->poll();
  EQUAL(r.binder->invalidations_due(), 1);
  CU_ASSERT_TRUE(r.binder->flush());
  CU_ASSERT_FALSE(r.binder->claim());
  r.complete();
  CU_ASSERT_TRUE(static_cast<bool>(r.binder->claim()));
}

void too_many_queues() {
  CU_ASSERT_FALSE(Epochs::create(nullptr, 0).ok());
  BinderFixture r{1, {}, BinderFixture::blocks, nullptr, 2};
  QueueClock* second = r.epochs->add_queue();
  CU_ASSERT_PTR_NOT_NULL(second);
  CU_ASSERT_PTR_NULL(r.epochs->add_queue());
  EQUAL(MkeyBinder::create(r.sq, *r.pool, *r.epochs, {}).error().code, ENOSPC);
  r.epochs->remove_queue(second);
  CU_ASSERT_PTR_NOT_NULL(r.epochs->add_queue());
}

// All that is posted completes, or fails in every seventh round.
void complete_round(BinderFixture& r, uint32_t round) {
  queue::Completion done;
  done.opcode = prm::CqeOpcode::req;
  for (uint32_t p = r.done; p != r.sq.posted(); p += r.blocks_of(p)) {
    done.wqe_counter = static_cast<uint16_t>(p);
    r.done = p + r.blocks_of(p);
  }
  if (round % 7 == 3) done.opcode = prm::CqeOpcode::req_err;
  (void)r.binder->handle_completion(done);
  if (!done.ok()) r.recover();
}

// Binding, swapping, ending, failing, recovering: not a byte from the heap.
void no_memory_after_set_up() {
  BinderFixture r{64};
  std::array<Binding, 16> held;
  const auto before = static_cast<std::size_t>(mallinfo2().uordblks);
  std::size_t most = 0;
  for (uint32_t round = 0; round < 200; round++) {
    queue::WqeCursor c{r.sq};
    for (Binding& b : held) {
      if (!b) b = r.binder->claim();
      (void)r.binder->bind(c, b, {}, View::of(pieces));
    }
    r.binder->commit(c);
    complete_round(r, round);
    held[round % 16].end();
    r.binder->poll();
    const auto now = static_cast<std::size_t>(mallinfo2().uordblks);
    most = now > most ? now : most;
  }
  EQUAL(most, before);
  CU_ASSERT_TRUE(r.binder->counters().bound.read() > 1000);
  CU_ASSERT_TRUE(bytes_per_mkey <= 64);
}

const kilim::test::Case cases[] = {
    {"a key comes back when all readers, and then all queues, have passed", readers_then_queues},
    {"a queue that went through RESET has passed", reset_queue_is_done},
    {"an invalidation may wait for the end of the epoch", ending_after_the_epoch},
    {"there is a clock for as many queues as were announced", too_many_queues},
    {"nothing is allocated after set-up", no_memory_after_set_up},
};

}  // namespace
}  // namespace epoch_ut

KILIM_TEST_SUITE(epoch, epoch_ut::cases)
