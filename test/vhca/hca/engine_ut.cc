// SPDX-License-Identifier: BSD-3-Clause
// The adapter around its queues: completion events, overrun, memory that goes away, fairness,
// objects that are in use, a thousand lives.
#include <optional>

#include <sys/mman.h>

#include "case_tables.hh"
#include "engine_cases.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {
namespace engine_ut {
namespace {

constexpr uint32_t cq_err = 0, qp_fatal = 1, device_fatal = 8;

void nop(Rig& rig) {
  rig.a.put(Wqe(Opcode::nop));
  rig.a.ring(rig.uar);
  rig.run();
}

// A driver that forgets the doorbell hangs, as on a card (doc/decisions/0008).
void a_record_alone_is_not_executed() {
  Rig rig;
  rig.a.put(Wqe(Opcode::nop));
  rig.a.publish();
  rig.run();
  CU_ASSERT(!rig.cq_a.poll().has_value());
  rig.a.ring(rig.uar);
  rig.run();
  CU_ASSERT(rig.cq_a.poll().has_value() && !rig.cq_a.poll().has_value());
}

// The store is on its way, and the record is there: the client wrote it before.
void a_stopped_doorbell_is_served_from_the_record() {
  Rig rig;
  rig.a.put(Wqe(Opcode::nop));
  rig.a.publish();
  {
    const LockGuard guard(rig.hca->lock);
    rig.hca->expect_stores();
  }
  CU_ASSERT(!rig.hca->idle());
  rig.run();
  CU_ASSERT(rig.cq_a.poll().has_value());
  EQUAL(rig.hca->doorbells.load(std::memory_order_relaxed), 0);
  rig.a.put(Wqe(Opcode::nop));
  rig.a.publish();
  rig.run();
  CU_ASSERT(!rig.cq_a.poll().has_value());  // that was for one turn
  rig.a.ring(rig.uar);
  rig.run();
  CU_ASSERT(rig.cq_a.poll().has_value());
  EQUAL(rig.hca->doorbells.load(std::memory_order_relaxed), 1);
}

void an_armed_queue_tells_once() {
  Rig rig;
  nop(rig);
  EQUAL(rig.events.completions, 0);
  CU_ASSERT(rig.cq_a.poll().has_value());
  rig.cq_a.arm(rig.uar, false);
  rig.run();
  EQUAL(rig.events.completions, 0);
  nop(rig);
  nop(rig);
  EQUAL(rig.events.completions, 1);
}

void the_very_first_arm_is_seen() {
  Rig rig;
  rig.cq_a.arm(rig.uar, false);  // the word is 0, as memory was
  rig.run();
  nop(rig);
  EQUAL(rig.events.completions, 1);
}

void arming_over_waiting_entries_tells_at_once() {
  Rig rig;
  nop(rig);
  rig.cq_a.arm(rig.uar, false);
  rig.run();
  EQUAL(rig.events.completions, 1);
}

void solicited_arming_waits_for_solicited_entries() {
  Rig rig;
  Pages mem(4096);
  uint32_t key = rig.reg(mem, rw_access).lkey.value();
  for (int i = 0; i < 2; i++) rig.b.recv(mem.at(0), 64, key);
  rig.cq_b.arm(rig.uar, true);
  rig.run();
  EQUAL(rig.run_one(rig.a, Wqe(Opcode::send).data(mem.at(128), 8, key)).syndrome, Syndrome::none);
  EQUAL(rig.events.completions, 0);
  rig.run_one(rig.a, Wqe(Opcode::send).data(mem.at(128), 8, key).solicited());
  EQUAL(rig.events.completions, 1);
}

void solicited_arming_hears_of_errors() {
  Rig rig;
  rig.cq_a.arm(rig.uar, true);
  rig.run();
  rig.run_one(rig.a, Wqe(Opcode::nop));
  EQUAL(rig.events.completions, 0);
  EQUAL(rig.run_one(rig.a, Wqe(Opcode::rdma_write).raddr(0, 0).data(0, 8, 0)).op,
        prm::CqeOpcode::req_err);
  EQUAL(rig.events.completions, 1);
}

// Two threads may ask, each for what it needs.
void the_wider_of_two_requests_for_an_event_holds() {
  for (bool solicited_first : {false, true}) {
    Rig rig;
    rig.cq_a.arm(rig.uar, solicited_first);
    rig.run();
    rig.cq_a.arm(rig.uar, !solicited_first);
    rig.run();
    nop(rig);
    EQUAL(rig.events.completions, 1);
    // The event has answered both.
    rig.cq_a.poll();
    rig.cq_a.sn++;
    rig.cq_a.arm(rig.uar, true);
    rig.run();
    nop(rig);
    EQUAL(rig.events.completions, 1);
  }
}

void an_overrun_kills_the_completion_queue() {
  RigShape s;
  s.cq_entries = 4;
  Rig rig(s);
  for (int i = 0; i < 5; i++) rig.a.put(Wqe(Opcode::nop));
  rig.a.ring(rig.uar);
  rig.run();
  EQUAL(rig.events.of(cq_err), 1);
  EQUAL(rig.events.log[0].second, &rig.cq_a);
  EQUAL(rig.events.of(qp_fatal), 1);
  EQUAL(rig.state(rig.a), QpState::err);
  for (int i = 0; i < 4; i++) EQUAL(rig.cq_a.poll()->index, i);
  CU_ASSERT(!rig.cq_a.poll());
}

// What is taken away while the adapter still knows of it.
enum class Gone { local_payload, remote_payload, list, send_ring, recv_ring, records, cq };

struct Loss {
  Gone what;
  Syndrome want;   // none: no completion at all
  uint32_t event;  // 99: none
  QpState a, b;
};
const Loss losses[] = {
    {Gone::local_payload, Syndrome::local_prot, 99, QpState::err, QpState::rts},
    {Gone::remote_payload, Syndrome::remote_access, 3, QpState::err, QpState::err},
    {Gone::list, Syndrome::local_prot, 99, QpState::err, QpState::rts},
    {Gone::send_ring, Syndrome::none, qp_fatal, QpState::err, QpState::rts},
    {Gone::recv_ring, Syndrome::remote_op, qp_fatal, QpState::err, QpState::err},
    {Gone::records, Syndrome::none, qp_fatal, QpState::err, QpState::rts},
    {Gone::cq, Syndrome::none, cq_err, QpState::err, QpState::rts},
};

Wqe request_for(const Loss& loss, Rig& rig, const Pages& near, const Pages& far, MrKeys kn,
                MrKeys kf) {
  if (loss.what == Gone::recv_ring) {
    rig.b.recv(far.at(0), 64, kf.lkey.value());
    return Wqe(Opcode::send).data(near.at(0), 64, kn.lkey.value());
  }
  if (loss.what == Gone::list) {
    uint32_t key = rig.make_key(4);
    UmrShape shape;
    shape.flags = 0;
    Wqe w = umr_wqe(key, shape, {});
    w.bytes[21] = std::byte{4};  // four octowords
    return w.data(near.at(0), 64, kn.lkey.value());
  }
  Wqe w(Opcode::rdma_write);
  return w.raddr(far.at(0), kf.rkey.value()).data(near.at(0), 64, kn.lkey.value());
}

void memory_that_goes_away_is_an_error_not_a_crash() {
  for (const Loss& loss : losses) {
    Rig rig;
    Pages near(4096), far(4096);
    Wqe w = request_for(loss, rig, near, far, rig.reg(near, rw_access), rig.reg(far, rw_access));
    rig.a.put(w);
    rig.a.ring(rig.uar);
    Pages* gone[] = {&near, &far, &near, &rig.a.sq, &rig.b.rings, &rig.a.record, &rig.cq_a.memory};
    gone[static_cast<int>(loss.what)]->unmap();
    for (int i = 0; i < 3; i++) rig.run();
    bool readable = loss.what != Gone::cq;
    std::optional<Completion> c = readable ? rig.cq_a.poll() : std::nullopt;
    EQUAL(c.has_value(), loss.want != Syndrome::none);
    CU_ASSERT(!c || c->syndrome == loss.want);
    CU_ASSERT(loss.event == 99 ? rig.events.count == 0 : rig.events.of(loss.event) == 1);
    EQUAL(rig.state(rig.a), loss.a);
    EQUAL(rig.state(rig.b), loss.b);
    bool payload = loss.what == Gone::local_payload || loss.what == Gone::remote_payload;
    EQUAL(rig.journal.count(Journal::Kind::fault), payload ? 1u : 0u);
  }
}

// The pages were pinned for writing; what the processor may do with them is another matter.
void memory_may_turn_read_only() {
  Rig rig;
  Pages near(4096), far(4096);
  MrKeys kn = rig.reg(near, rw_access), kf = rig.reg(far, rw_access);
  EQUAL(::mprotect(far.data(), far.size(), PROT_READ), 0);
  Wqe w(Opcode::rdma_write);
  w.raddr(far.at(0), kf.rkey.value()).data(near.at(0), 64, kn.lkey.value());
  EQUAL(rig.run_one(rig.a, w).syndrome, Syndrome::none);
  CU_ASSERT(std::memcmp(far.data(), near.data(), 64) == 0);
}

void registration_answers_as_pinning_does() {
  Rig rig;
  Pages p(16384);
  auto reg = [&](uint64_t at, uint64_t n, uint32_t access) {
    Result<MrKeys> r = hca::reg_mr(*rig.hca, {rig.pd, Va{at}, n, Iova{at}, access});
    return r ? 0 : r.error().code;
  };
  EQUAL(reg(p.at(10), 9000, access::local_write), 0);
  EQUAL(::mprotect(p.data() + 4096, 4096, PROT_READ), 0);
  EQUAL(reg(p.at(0), 8192, access::local_write), EFAULT);
  EQUAL(reg(p.at(0), 8192, 0), 0);
  EQUAL(::mprotect(p.data() + 4096, 4096, PROT_NONE), 0);
  EQUAL(reg(p.at(0), 8192, 0), EFAULT);
  EQUAL(::munmap(p.data() + 12288, 4096), 0);
  EQUAL(reg(p.at(8192), 4096, 0), 0);
  EQUAL(reg(p.at(8192), 4097, 0), EFAULT);
  EQUAL(reg(~0ull - 100, 200, 0), EINVAL);
  EQUAL(reg(0x7000'0000'0000'0000, 64, 0), EFAULT);
  EQUAL(reg(p.at(0), 0, 0), EINVAL);
  EQUAL(reg(p.at(0), 64, access::remote_write), EINVAL);
  EQUAL(reg(p.at(12288), 64, access::on_demand), 0);
  EQUAL(hca::reg_mr(*rig.hca, {Pdn{1}, p.va(), 64, Iova{p.at(0)}, 0}).error().code, EINVAL);
  EQUAL(hca::reg_mr(*rig.hca, {rig.pd, p.va(), 64, Iova{p.at(1)}, 0}).error().code, EINVAL);
}

void queues_take_turns() {
  RigShape s;
  s.a.sq_wqebbs = s.b.sq_wqebbs = 128;
  Rig rig(s);
  for (int i = 0; i < 100; i++) rig.a.put(Wqe(Opcode::nop));
  for (int i = 0; i < 5; i++) rig.b.put(Wqe(Opcode::nop));
  rig.a.ring(rig.uar);
  rig.b.ring(rig.uar);
  EQUAL(rig.hca->run(40), 40);  // a budget is kept, and the short queue was not starved
  for (int i = 0; i < 5; i++) CU_ASSERT(rig.cq_b.poll().has_value());
  rig.run();
  for (int i = 0; i < 100; i++) CU_ASSERT(rig.cq_a.poll().has_value());
}

void requests_complete_unexecuted_where_asked() {
  Rig rig;
  rig.hca->executing = false;
  const Wqe write =
      std::move(Wqe(Opcode::rdma_write).raddr(16, 1).data(16, 64, 1));  // no such keys
  rig.a.put(write);
  rig.a.ring(rig.uar);
  rig.run();
  const auto done = rig.cq_a.poll();
  CU_ASSERT(done.has_value() && done->op == prm::CqeOpcode::req);
  EQUAL(rig.journal.count(Journal::Kind::unexecuted), 1);
  rig.hca->executing = true;
  rig.a.put(write);
  rig.a.ring(rig.uar);
  rig.run();
  const auto failed = rig.cq_a.poll();
  CU_ASSERT(failed.has_value() && failed->op == prm::CqeOpcode::req_err);
  EQUAL(rig.journal.count(Journal::Kind::unexecuted), 1);
}

void a_queue_goes_with_its_work_pending() {
  Rig rig;
  Pages mem(4096);
  uint32_t key = rig.reg(mem, rw_access).lkey.value();
  rig.a.put(Wqe(Opcode::send).data(mem.at(0), 8, key));
  rig.a.ring(rig.uar);
  rig.hca->run();  // waits for a receive WQE
  EQUAL(hca::destroy_qp(*rig.hca, rig.a.qpn), 0);
  rig.run();
  rig.b.put(Wqe(Opcode::nop));
  rig.b.ring(rig.uar);
  EQUAL(rig.to_state(rig.b, QpState::err), 0);
  EQUAL(hca::destroy_qp(*rig.hca, rig.b.qpn), 0);
  rig.run();
  CU_ASSERT(!rig.cq_a.poll() && !rig.cq_b.poll());
}

const kilim::test::Case cases[] = {
    {"a doorbell record without a doorbell is not executed", a_record_alone_is_not_executed},
    {"a doorbell that is stopped on its way is served from the record",
     a_stopped_doorbell_is_served_from_the_record},
    {"an armed queue tells once", an_armed_queue_tells_once},
    {"the very first arm is seen", the_very_first_arm_is_seen},
    {"arming over waiting entries tells at once", arming_over_waiting_entries_tells_at_once},
    {"solicited arming waits for solicited entries", solicited_arming_waits_for_solicited_entries},
    {"solicited arming hears of errors", solicited_arming_hears_of_errors},
    {"the wider of two requests for an event holds", the_wider_of_two_requests_for_an_event_holds},
    {"an overrun kills the completion queue", an_overrun_kills_the_completion_queue},
    {"memory that goes away is an error, not a crash",
     memory_that_goes_away_is_an_error_not_a_crash},
    {"memory may turn read-only", memory_may_turn_read_only},
    {"registration answers as pinning does", registration_answers_as_pinning_does},
    {"queues take turns", queues_take_turns},
    {"requests complete unexecuted where that is asked", requests_complete_unexecuted_where_asked},
    {"a queue goes with its work pending", a_queue_goes_with_its_work_pending},
};

}  // namespace
}  // namespace engine_ut
}  // namespace kilim::vhca::test

KILIM_TEST_MAIN(engine) {
  using namespace kilim::vhca::test;
  return kilim::test::run_tables("engine", {engine_ut::cases, engine_life_cases()}, argc, argv);
}
