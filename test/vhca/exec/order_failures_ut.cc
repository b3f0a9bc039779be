// SPDX-License-Identifier: BSD-3-Clause
// The weak order where something goes wrong or has to wait: completions stay in the ring's order, a
// failure flushes what stands behind it, nothing waits for ever. And many random requests that
// carry just the fences they need: the same outcome in every order.
#include "case_tables.hh"
#include "order_fixture.hh"
#include "vhca/hca/fatal.hh"

namespace kilim::vhca::test {
namespace order_failures_ut {
namespace {

bool in_order(const std::vector<Completion>& done) {
  for (std::size_t i = 1; i < done.size(); i++) {
    if (static_cast<int16_t>(done[i].index - done[i - 1].index) <= 0) return false;
  }
  return true;
}

void each(const char* order, void (*run)(OrderRig&)) {
  for (const Way way : ways) {
    OrderRig r(order_of(order), way);
    run(r);
  }
}

// A bind that is refused: of more entries than the key holds.
Wqe bad_bind(OrderRig& r) {
  const std::array<prm::Klm, 8> list{};
  return umr_wqe(r.key, {.len = 64}, list);
}

void a_late_bind_fails_in_its_place() {
  each("late-umr", [](OrderRig& r) {
    r.put(r.write());
    r.put(bad_bind(r));
    r.put(r.write());
    r.put(r.write());
    const std::vector<Completion> done = r.run();
    EQUAL_FATAL(done.size(), 4);
    CU_ASSERT(in_order(done) && done[0].op == CqeOpcode::req);
    EQUAL(done[1].syndrome, Syndrome::mw_bind);
    EQUAL(done[2].syndrome, Syndrome::wr_flush);
    EQUAL(done[3].syndrome, Syndrome::wr_flush);
    EQUAL(r.rig().state(r.rig().a), QpState::err);
  });
}

// Both are known to fail before the first of them completes.
void of_two_failures_the_second_is_flushed() {
  each("late-umr", [](OrderRig& r) {
    r.put(bad_bind(r));
    r.put(r.write());
    r.put(Wqe(Opcode::rdma_write).raddr(r.far().at(0), r.rkey).data(0, 8, r.key ^ 1));
    const std::vector<Completion> done = r.run();
    EQUAL_FATAL(done.size(), 3);
    CU_ASSERT(in_order(done) && done[0].syndrome == Syndrome::mw_bind);
    EQUAL(done[1].syndrome, Syndrome::wr_flush);
    EQUAL(done[2].syndrome, Syndrome::wr_flush);
  });
}

void what_stands_before_a_failure_is_done_first() {
  each("weak", [](OrderRig& r) {
    for (int i = 0; i < 10; i++) {
      r.put(r.bind('b'));
      r.put(r.read(), 4);
      r.put(r.write(), 4);
    }
    r.put(Wqe(Opcode::rdma_write).raddr(r.far().at(0), r.rkey ^ 1).data(0, 8, r.key));
    r.put(r.bind('a'));
    const std::vector<Completion> done = r.run();
    EQUAL_FATAL(done.size(), 32);
    CU_ASSERT(in_order(done));
    for (std::size_t i = 0; i < 30; i++) EQUAL(done[i].op, CqeOpcode::req);
    EQUAL(done[30].syndrome, Syndrome::remote_access);
    EQUAL(done[31].syndrome, Syndrome::wr_flush);
    EQUAL(r.mine(0), 'a');
  });
}

void a_queue_that_runs_dry_has_nothing_late() {
  for (const char* order : {"late-umr", "late-read", "resend", "weak"}) {
    for (const Way way : ways) {
      OrderRig r(order_of(order), way);
      const uint64_t umrs = r.rig().journal.count(Journal::Kind::umr);
      r.put(r.bind('b').quiet());
      CU_ASSERT(r.run().empty());
      EQUAL(r.rig().journal.count(Journal::Kind::umr), umrs + 1);
      r.put(r.read().quiet());
      CU_ASSERT(r.run().empty());
      EQUAL(r.mine(half_bytes), 'f');
      r.put(r.write().quiet());
      CU_ASSERT(r.run().empty());
      EQUAL(r.sent(), 'f');
      CU_ASSERT(r.rig().hca->qps.at(r.rig().a.qpn.value())->weak->empty());
    }
  }
}

void nothing_is_late_between_two_turns() {
  each("late-umr", [](OrderRig& r) {
    const uint64_t umrs = r.rig().journal.count(Journal::Kind::umr);
    r.put(r.bind('b'));
    for (int i = 0; i < 8; i++) r.put(r.write());
    r.rig().a.ring(r.rig().uar);
    (void)r.rig().hca->run(2);
    EQUAL(r.rig().journal.count(Journal::Kind::umr), umrs + 1);
    EQUAL(r.settle().size(), 9);
  });
}

// The peer has no receive WQE for a while.
void what_is_late_waits_with_a_message_that_waits() {
  OrderRig r(order_of("weak:3"), Way::loopback);
  const uint32_t theirs = r.peer().reg(r.far(), rw_access).lkey.value();
  r.put(r.read());
  r.put(Wqe(Opcode::send).data(0, 64, r.key));
  r.put(r.bind('b'), 3);
  r.put(r.write(), 1);
  r.rig().a.ring(r.rig().uar);
  (void)r.rig().hca->run();
  EQUAL(r.sent(), '-');
  r.peer_qp().recv(r.far().at(0), 64, theirs);
  std::vector<Completion> done;
  while (done.size() < 4) {
    const std::optional<Completion> c = r.rig().wait(r.rig().cq_a);
    CU_ASSERT_FATAL(c.has_value());
    done.push_back(*c);
  }
  CU_ASSERT(in_order(done) && done[3].op == CqeOpcode::req);
  EQUAL(r.sent(), 'b');
}

void a_reset_forgets_what_is_late() {
  OrderRig r(order_of("late-umr"), Way::loopback);
  const uint64_t umrs = r.rig().journal.count(Journal::Kind::umr);
  r.put(Wqe(Opcode::send).data(0, 64, r.key));  // nobody receives
  r.put(r.bind('b'));
  r.rig().a.ring(r.rig().uar);
  (void)r.rig().hca->run();
  const wq::Qp& qp = *r.rig().hca->qps.at(r.rig().a.qpn.value());
  CU_ASSERT(!qp.weak->empty());
  EQUAL(r.rig().to_state(r.rig().a, QpState::reset), 0);
  CU_ASSERT(qp.weak->empty());
  TestQp& a = r.rig().a;
  a.pi = a.head = 0;
  std::memset(a.record.data(), 0, 8);
  r.rig().to_rts(a, r.rig().b.qpn);
  r.put(r.write());
  const std::vector<Completion> done = r.run();
  CU_ASSERT(done.size() == 1 && done[0].op == CqeOpcode::req);
  EQUAL(r.sent(), 'a');
  EQUAL(r.rig().journal.count(Journal::Kind::umr), umrs);
}

void an_error_state_flushes_what_is_late() {
  OrderRig r(order_of("weak:5"), Way::loopback);
  r.put(Wqe(Opcode::send).data(0, 64, r.key));  // nobody receives
  r.put(r.bind('b'));
  r.put(r.read());
  r.rig().a.ring(r.rig().uar);
  (void)r.rig().hca->run();
  EQUAL(r.rig().to_state(r.rig().a, QpState::err), 0);
  const std::vector<Completion> done = r.settle();
  EQUAL_FATAL(done.size(), 3);
  for (const Completion& c : done) EQUAL(c.syndrome, Syndrome::wr_flush);
  CU_ASSERT(in_order(done));
}

void a_dead_adapter_flushes_what_is_late() {
  each("weak", [](OrderRig& r) {
    for (int i = 0; i < 5; i++) {
      r.put(r.bind('b'));
      r.put(r.read());
    }
    r.rig().a.ring(r.rig().uar);
    (void)r.rig().hca->run(3);
    hca::die(*r.rig().hca);
    const std::vector<Completion> done = r.settle();
    CU_ASSERT(done.size() == 10 && in_order(done));
  });
}

// A queue that is its own peer fails as requester and as responder at once.
void a_queue_to_itself_completes_in_order() {
  RigShape shape;
  shape.order = order_of("weak");
  shape.connect = false;
  Rig rig(shape);
  rig.to_rts(rig.a, rig.a.qpn);
  const Pages memory(4096);
  const MrKeys keys = rig.reg(memory, rw_access);
  for (int i = 0; i < 6; i++)
    rig.a.put(Wqe(i % 2 == 0 ? Opcode::rdma_read : Opcode::rdma_write)
                  .raddr(memory.at(64), i == 5 ? 1 : keys.rkey.value())
                  .data(memory.at(0), 64, keys.lkey.value()));
  rig.a.ring(rig.uar);
  rig.run();
  std::vector<Completion> done;
  while (const std::optional<Completion> c = rig.cq_a.poll()) done.push_back(*c);
  CU_ASSERT(done.size() == 6 && in_order(done) && done[5].syndrome == Syndrome::remote_access);
}

const kilim::test::Case cases[] = {
    {"a late bind that fails does so in its place", a_late_bind_fails_in_its_place},
    {"of two failures the second is flushed", of_two_failures_the_second_is_flushed},
    {"what stands before a failure is done first", what_stands_before_a_failure_is_done_first},
    {"a queue that runs dry has nothing late", a_queue_that_runs_dry_has_nothing_late},
    {"nothing is late between two turns of the engine", nothing_is_late_between_two_turns},
    {"what is late waits with a message that waits", what_is_late_waits_with_a_message_that_waits},
    {"a reset forgets what is late", a_reset_forgets_what_is_late},
    {"the error state flushes what is late", an_error_state_flushes_what_is_late},
    {"a dead adapter flushes what is late", a_dead_adapter_flushes_what_is_late},
    {"a queue that is its own peer completes in order", a_queue_to_itself_completes_in_order},
};

}  // namespace
}  // namespace order_failures_ut
}  // namespace kilim::vhca::test

KILIM_TEST_MAIN(order_failures) {
  return kilim::test::run_tables(
      "order_failures",
      {kilim::vhca::test::order_failures_ut::cases, kilim::vhca::test::order_random_cases(),
       kilim::vhca::test::posted_nops_cases()},
      argc, argv);
}
