// SPDX-License-Identifier: BSD-3-Clause
// Dynamic connections: initiators that go from target to target, on their own adapter and over a
// wire; keys, streams, and what a target does for many at a time.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "case_tables.hh"
#include "dynamic_fixture.hh"
#include "vhca/wq/qp_error.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace dynamic_ut {
namespace {

void an_atomic(Pair& p, Initiator& ini, Target& t, const MrKeys& remote, Pages& memory) {
  auto* word = reinterpret_cast<uint64_t*>(memory.data() + 420'000);
  *word = 40;
  Wqe add = Pair::to(t, Opcode::atomic_fa)
                .raddr(memory.at(420'000), remote.rkey.value())
                .atomic(2, 0)
                .data(p.near.at(420'000), 8, p.near_key.lkey.value());
  CU_ASSERT(good(p.post(ini, add)));
  EQUAL(*word, 42);
  EQUAL(*reinterpret_cast<uint64_t*>(p.near.data() + 420'000), 40);
}

// Every operation once. `here`: the target is on the initiator's own adapter.
void all_operations(Pair& p, Initiator& ini, Target& t, const MrKeys& remote, Pages& memory) {
  auto with = [&](Opcode op, std::size_t at, uint32_t n) {
    return Pair::to(t, op, 9)
        .raddr(memory.at(at), remote.rkey.value())
        .data(p.near.at(at), n, p.near_key.lkey.value());
  };
  auto same = [&](std::size_t at, std::size_t to, std::size_t n) {
    return std::memcmp(p.near.data() + at, memory.data() + to, n) == 0;
  };
  t.queue.recv(memory.at(300'000), 5000, remote.lkey.value());
  CU_ASSERT(good(p.post(ini, p.send(t, 20, 4999))));
  CU_ASSERT(same(20, 300'000, 4999));
  std::optional<Completion> c = p.w.wait(t.queue.cq);
  CU_ASSERT_FATAL(c.has_value());
  EQUAL(c->op, prm::CqeOpcode::resp_send_imm);
  EQUAL(c->bytes, 4999);
  EQUAL(c->imm, 3);
  EQUAL(c->uidx, 0x77);
  EQUAL(c->qpn, t.qpn.value());
  EQUAL(c->rqpn, ini.qp.qpn.value());
  CU_ASSERT(good(p.post(ini, with(Opcode::rdma_write, 400'005, 3000))));
  CU_ASSERT(same(400'005, 400'005, 3000));
  t.queue.recv(memory.at(0), 8, remote.lkey.value());
  CU_ASSERT(good(p.post(ini, with(Opcode::rdma_write_imm, 410'000, 1))));
  c = p.w.wait(t.queue.cq);
  CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::resp_wr_imm && c->imm == 9);
  memory.data()[400'007] = std::byte{0x5a};
  CU_ASSERT(good(p.post(ini, with(Opcode::rdma_read, 400'005, 3000))));
  EQUAL(p.near.data()[400'007], std::byte{0x5a});
  CU_ASSERT(same(400'005, 400'005, 3000));
  an_atomic(p, ini, t, remote, memory);
}

void every_operation_reaches_a_target_on_the_wire() {
  Pair p;
  Initiator ini(p.w.left);
  Target t(p.w.right);
  all_operations(p, ini, t, p.far_key, p.far);
}

void every_operation_reaches_a_target_on_the_same_adapter() {
  Pair p;
  Initiator ini(p.w.left);
  Target t(p.w.left);
  Pages other(area);
  MrKeys key = p.w.left.reg(other, rw_access);
  all_operations(p, ini, t, key, other);
}

void an_initiator_goes_from_target_to_target() {
  Pair p("+fault:drop:0.05:dup:0.05:reorder:0.05:seed:7");
  Initiator ini(p.w.left);
  Target one(p.w.right), two(p.w.right), own(p.w.left);
  Target* targets[] = {&one, &two, &own};
  for (uint32_t round = 0; round < 10; round++) {
    for (uint32_t i = 0; i < 6; i++) {
      Target& t = *targets[i % 3];
      MrKeys key = &t == &own ? p.near_key : p.far_key;
      Pages& memory = &t == &own ? p.near : p.far;
      t.queue.recv(memory.at(500'000 + i * 10'000), 9000, key.lkey.value());
      ini.put(p.send(t, round * 3000 + i, 2000 + i * 1000));
    }
    ini.qp.ring(p.w.left.uar);
    for (uint32_t i = 0; i < 6; i++) CU_ASSERT_FATAL(good(p.w.wait(ini.cq)));
    for (uint32_t i = 0; i < 6; i++) {
      Target& t = *targets[i % 3];
      Pages& memory = &t == &own ? p.near : p.far;
      std::optional<Completion> c = p.w.wait(t.queue.cq);
      CU_ASSERT(c.has_value() && c->bytes == 2000 + i * 1000);
      EQUAL(std::memcmp(p.near.data() + round * 3000 + i, memory.data() + 500'000 + i * 10'000,
                        2000 + i * 1000),
            0);
    }
  }
  for (Target* t : targets) CU_ASSERT(!t->queue.cq.poll().has_value());
}

void a_wrong_key_is_refused_and_the_target_lives_on() {
  Pair p;
  for (Rig* where : {&p.w.right, &p.w.left}) {
    Target t(*where);
    Initiator ini(p.w.left), other(p.w.left);
    MrKeys key = where == &p.w.left ? p.near_key : p.far_key;
    Pages& memory = where == &p.w.left ? p.near : p.far;
    t.queue.recv(memory.at(600'000), 100, key.lkey.value());
    CU_ASSERT(failed(p.post(ini, p.send(t, 0, 50, good_key ^ 1)), Syndrome::remote_access));
    EQUAL(ini.stands(), QpState::err);
    CU_ASSERT(!t.queue.cq.poll().has_value());
    EQUAL(hca::query_qp(*where->hca, t.qpn)->state, QpState::rtr);
    CU_ASSERT(good(p.post(other, p.send(t, 0, 50))) && p.w.wait(t.queue.cq).has_value());
  }
  EQUAL(p.w.right.events.of(wq::event::qp_access_err), 0);
}

void what_a_target_refuses_ends_one_connection() {
  Pair p;
  Target t(p.w.right, access::remote_read);
  for (uint32_t n = 0; n < 3; n++) {
    Initiator writer(p.w.left), longer(p.w.left), foreign(p.w.left), reader(p.w.left);
    const uint32_t rkey = p.far_key.rkey.value();
    CU_ASSERT(failed(p.post(writer, p.write(t, 0, 0, 3000, rkey)), Syndrome::remote_inval_req));
    p.recv(t, 0, 100);
    CU_ASSERT(failed(p.post(longer, p.send(t, 0, 3000)), Syndrome::remote_inval_req));
    std::optional<Completion> c = p.w.wait(t.queue.cq);
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
    auto read = [&](uint32_t key) {
      return Pair::to(t, Opcode::rdma_read)
          .raddr(p.far.at(9), key)
          .data(p.near.at(700'000), 2500, p.near_key.lkey.value());
    };
    CU_ASSERT(failed(p.post(foreign, read(0x12345)), Syndrome::remote_access));
    CU_ASSERT(good(p.post(reader, read(rkey))));
    CU_ASSERT(p.same(700'000, 9, 2500));
  }
  EQUAL(hca::query_qp(*p.w.right.hca, t.qpn)->state, QpState::rtr);
}

void a_late_receiver_is_waited_for_and_a_missing_target_is_not() {
  Pair p;
  Initiator patient(p.w.left), hasty(p.w.left, {.rnr_retry = 0}), lost(p.w.left, {.retry_cnt = 1});
  Target t(p.w.right);
  patient.put(p.send(t, 0, 3000));
  patient.qp.ring(p.w.left.uar);
  for (int i = 0; i < 50; i++) p.w.settle();
  CU_ASSERT(!patient.cq.poll().has_value());
  p.recv(t, 0, 3000);
  CU_ASSERT(good(p.w.wait(patient.cq)));
  CU_ASSERT(p.same(0, 0, 3000));
  CU_ASSERT(failed(p.post(hasty, p.send(t, 0, 10)), Syndrome::rnr_retry_exc));
  Wqe nobody = p.send(t, 0, 10);
  nobody.bytes[27] ^= std::byte{0x40};  // another number
  CU_ASSERT(failed(p.post(lost, nobody), Syndrome::transport_retry_exc));
}

void more_initiators_than_a_target_remembers_take_turns() {
  Pair p;
  Target t(p.w.right);
  constexpr uint32_t many = 34;
  std::vector<std::unique_ptr<Initiator>> all;
  for (uint32_t i = 0; i < many; i++) {
    all.push_back(std::make_unique<Initiator>(p.w.left));
    CU_ASSERT(good(p.post(*all[i], p.write(t, i * 100, i * 100, 100, p.far_key.rkey.value()))));
  }
  CU_ASSERT(p.same(0, 0, many * 100));
  // Who had to give its place away goes on where it was.
  CU_ASSERT(good(p.post(*all[0], p.write(t, 0, 90'000, 9000, p.far_key.rkey.value()))));
  CU_ASSERT(p.same(0, 90'000, 9000));
}

// Of its streams one has failed; with as many as it may have the queue is in error.
void more_streams_fail(Pair& p, Initiator& ini, const Wqe& bad, const Wqe& fine) {
  Wqe quiet = bad;  // the first error of its stream is told, though another has failed
  quiet.flags = prm::ctrl::only_first_error;
  CU_ASSERT(failed(p.post(ini, quiet, 7), Syndrome::remote_access));
  Wqe local = fine;
  local.bytes[local.bytes.size() - 9] ^= std::byte{0xff};
  CU_ASSERT(failed(p.post(ini, local, 8), Syndrome::local_prot));
  EQUAL(ini.stands(), QpState::err);
  CU_ASSERT(failed(p.post(ini, fine, 1), Syndrome::wr_flush));
}

// One stream's requests fail, the others' go on; `t` may be anywhere.
void streams_fail_alone(Pair& p, Target& t, uint32_t rkey, Pages& memory) {
  Initiator ini(p.w.left, {.failing_streams = 2});
  auto write = [&](uint32_t key, std::size_t at) {
    return Pair::to(t, Opcode::rdma_write)
        .raddr(memory.at(800'000 + at), key)
        .data(p.near.at(at), 3000, p.near_key.lkey.value());
  };
  ini.put(write(rkey, 0), 1);
  ini.put(write(0x4242, 0), 2);
  ini.put(write(rkey, 3000), 2);
  ini.put(write(rkey, 6000), 1);
  ini.put(write(rkey, 9000), 3);
  ini.qp.ring(p.w.left.uar);
  CU_ASSERT(good(p.w.wait(ini.cq)));
  CU_ASSERT(failed(p.w.wait(ini.cq), Syndrome::remote_access));
  CU_ASSERT(failed(p.w.wait(ini.cq), Syndrome::wr_flush));
  CU_ASSERT(good(p.w.wait(ini.cq)) && good(p.w.wait(ini.cq)));
  EQUAL(ini.stands(), QpState::rts);
  EQUAL(std::memcmp(p.near.data() + 6000, memory.data() + 806'000, 6000), 0);
  wq::Qp& raw = *p.w.left.hca->qps.at(ini.qp.qpn.value());
  CU_ASSERT(!raw.failed.remove(1));
  CU_ASSERT(raw.failed.remove(2));
  CU_ASSERT(good(p.post(ini, write(rkey, 3000), 2)));
  more_streams_fail(p, ini, write(0x4242, 0), write(rkey, 0));
}

void a_failing_stream_leaves_the_others_alone() {
  Pair p;
  Target there(p.w.right), here(p.w.left);
  streams_fail_alone(p, there, p.far_key.rkey.value(), p.far);
  Pages own(area);
  streams_fail_alone(p, here, p.w.left.reg(own, rw_access).rkey.value(), own);
}

void short_data_comes_in_a_long_entry() {
  Pair p;
  Initiator ini(p.w.left);
  Target t(p.w.right, Rig::all_access, 128);
  p.recv(t, 0, 4096);
  p.far.data()[0] = std::byte{0xee};
  CU_ASSERT(good(p.post(ini, p.send(t, 64, 60))));
  CU_ASSERT(p.w.wait(t.queue.cq).has_value());
  EQUAL(p.far.data()[0], std::byte{0xee});
  EQUAL(std::memcmp(t.queue.cq.memory.data(), p.near.data() + 64, 60), 0);
}

constexpr Case cases[] = {
    {"every operation reaches a target on the wire", every_operation_reaches_a_target_on_the_wire},
    {"every operation reaches a target on the same adapter",
     every_operation_reaches_a_target_on_the_same_adapter},
    {"an initiator goes from target to target", an_initiator_goes_from_target_to_target},
    {"a wrong key is refused and the target lives on",
     a_wrong_key_is_refused_and_the_target_lives_on},
    {"what a target refuses ends one connection", what_a_target_refuses_ends_one_connection},
    {"a late receiver is waited for and a missing target is not",
     a_late_receiver_is_waited_for_and_a_missing_target_is_not},
    {"more initiators than a target remembers take turns",
     more_initiators_than_a_target_remembers_take_turns},
    {"a failing stream leaves the others alone", a_failing_stream_leaves_the_others_alone},
    {"short data comes in a long entry", short_data_comes_in_a_long_entry},
};

}  // namespace
}  // namespace dynamic_ut

KILIM_TEST_MAIN(dynamic) {
  return kilim::test::run_tables("vhca/transport dynamic connections",
                                 {dynamic_ut::cases, kilim::vhca::test::dynamic_packet_cases()},
                                 argc, argv);
}
