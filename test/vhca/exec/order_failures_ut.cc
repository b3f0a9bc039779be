// SPDX-License-Identifier: BSD-3-Clause
// The weak order where something goes wrong or has to wait: completions stay in the ring's order, a
// failure flushes what stands behind it, nothing waits for ever. And many random requests that
// carry just the fences they need: the same outcome in every order.
#include <random>

#include "order_fixture.hh"
#include "ut.hh"
#include "vhca/hca/fatal.hh"

namespace kilim::vhca::test {
namespace {

using prm::CqeOpcode;
constexpr std::array ways = {Way::loopback, Way::wire};

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
    CU_ASSERT(done[2].syndrome == Syndrome::wr_flush && done[3].syndrome == Syndrome::wr_flush);
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
    CU_ASSERT(done[1].syndrome == Syndrome::wr_flush && done[2].syndrome == Syndrome::wr_flush);
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
    CU_ASSERT(done[31].syndrome == Syndrome::wr_flush && r.mine(0) == 'a');
  });
}

void a_queue_that_runs_dry_has_nothing_late() {
  for (const char* order : {"late-umr", "late-read", "resend", "weak"}) {
    for (const Way way : ways) {
      OrderRig r(order_of(order), way);
      const uint64_t umrs = r.rig().journal.count(Journal::Kind::umr);
      r.put(r.bind('b').quiet());
      CU_ASSERT(r.run().empty() && r.rig().journal.count(Journal::Kind::umr) == umrs + 1);
      r.put(r.read().quiet());
      CU_ASSERT(r.run().empty() && r.mine(half_bytes) == 'f');
      r.put(r.write().quiet());
      CU_ASSERT(r.run().empty() && r.sent() == 'f');
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
  CU_ASSERT(in_order(done) && done[3].op == CqeOpcode::req && r.sent() == 'b');
}

void a_reset_forgets_what_is_late() {
  OrderRig r(order_of("late-umr"), Way::loopback);
  const uint64_t umrs = r.rig().journal.count(Journal::Kind::umr);
  r.put(Wqe(Opcode::send).data(0, 64, r.key));  // nobody receives
  r.put(r.bind('b'));
  r.rig().a.ring(r.rig().uar);
  (void)r.rig().hca->run();
  const Qp& qp = *r.rig().hca->qps.at(r.rig().a.qpn.value());
  CU_ASSERT(!qp.weak->empty());
  CU_ASSERT(r.rig().to_state(r.rig().a, QpState::reset) == 0 && qp.weak->empty());
  TestQp& a = r.rig().a;
  a.pi = a.head = 0;
  std::memset(a.record.data(), 0, 8);
  r.rig().to_rts(a, r.rig().b.qpn);
  r.put(r.write());
  const std::vector<Completion> done = r.run();
  CU_ASSERT(done.size() == 1 && done[0].op == CqeOpcode::req && r.sent() == 'a');
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
    die(*r.rig().hca);
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

// --- random requests ---

// What the fences of a careful client are: as the kernel's, and strong where a key that requests
// use is changed.
class Fences {
 public:
  uint8_t of(Opcode op) {
    const bool change = op == Opcode::umr || op == Opcode::local_inval;
    const bool answer = op == Opcode::rdma_read || op == Opcode::atomic_fa;
    uint8_t mode = 0;
    if (change && (answers_ || messages_)) mode = 3;
    if (!change && answers_) mode = changes_ ? 4 : 2;
    if (!change && !answers_ && changes_) mode = 1;
    if (mode == 1 || mode >= 3) changes_ = false;
    if (mode >= 2) answers_ = false;
    if (mode == 3) messages_ = false;
    changes_ = changes_ || change;
    answers_ = answers_ || answer;
    messages_ = messages_ || (!change && !answer);
    return mode;
  }

 private:
  bool changes_ = false, answers_ = false, messages_ = false;
};

struct Outcomes {
  std::vector<std::array<uint32_t, 4>> completions;  // index, opcode, bytes, syndrome
  std::vector<std::byte> mine, theirs;
  bool operator==(const Outcomes&) const = default;
};

Wqe random_request(OrderRig& r, std::minstd_rand& random, Opcode op) {
  const uint32_t bytes = 8 + static_cast<uint32_t>(random() % (random() % 4 == 0 ? 3000 : 64));
  const auto offset = static_cast<uint32_t>(random() % (half_bytes - bytes));
  const auto there = static_cast<uint32_t>(random() % (half_bytes - bytes));
  const char which = random() % 2 == 0 ? 'a' : 'b';
  Wqe w = op == Opcode::umr ? r.bind(which) : Wqe(op);
  if (op == Opcode::rdma_write || op == Opcode::rdma_read)
    w.raddr(r.far().at(there), r.rkey).data(offset, bytes, r.key);
  if (op == Opcode::atomic_fa)
    w.raddr(r.far().at(there & ~7u), r.rkey).atomic(bytes, 0).data(offset & ~7u, 8, r.key);
  if (random() % 3 == 0) w.quiet();
  if (op != Opcode::nop && random() % 200 == 0)
    w.bytes[16 + 11] ^= std::byte{1};  // another key, or a bad UMR
  return w;
}

Outcomes run_random(const char* order, Way way, unsigned seed) {
  constexpr std::array ops = {Opcode::umr,        Opcode::umr,       Opcode::rdma_write,
                              Opcode::rdma_write, Opcode::rdma_read, Opcode::rdma_read,
                              Opcode::atomic_fa,  Opcode::nop};
  OrderRig r(order_of(order), way);
  std::minstd_rand random(seed);
  for (uint32_t i = 0; i < 2 * half_bytes; i++) {
    r.memory().data()[i] = static_cast<std::byte>(random());
    r.far().data()[i] = static_cast<std::byte>(random());
  }
  Outcomes all;
  Fences fences;
  for (int round = 0; round < 12; round++) {
    for (auto n = 1 + random() % 12; n > 0; n--) {
      const Opcode op = ops[random() % ops.size()];
      r.put(random_request(r, random, op), fences.of(op));
    }
    for (const Completion& c : r.run())
      all.completions.push_back(
          {c.index, c.wqe_opcode, c.bytes, static_cast<uint32_t>(c.syndrome)});
    if (r.rig().state(r.rig().a) != QpState::rts) break;
  }
  all.mine.assign(r.memory().data(), r.memory().data() + r.memory().size());
  all.theirs.assign(r.far().data(), r.far().data() + r.far().size());
  return all;
}

void fenced_requests_do_the_same_in_every_order() {
  unsigned failed = 0;
  for (unsigned seed = 1; seed <= 60; seed++) {
    for (const Way way : ways) {
      const Outcomes strict = run_random("strict", way, seed);
      CU_ASSERT(!strict.completions.empty());
      failed += strict.completions.back()[3] != 0 ? 1 : 0;
      for (const char* order : {"weak", "weak:9", "late-umr", "late-read", "resend"}) {
        if (run_random(order, way, seed) == strict) continue;
        CU_FAIL("another outcome");
        std::printf("\n  %s, way %u, seed %u\n", order, static_cast<unsigned>(way), seed);
      }
    }
  }
  CU_ASSERT(failed > 5 && failed < 100);
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
    {"random requests with the fences they need do the same in every order",
     fenced_requests_do_the_same_in_every_order},
};

}  // namespace
}  // namespace kilim::vhca::test

KILIM_UT_MAIN("order_failures", kilim::vhca::test::cases)
