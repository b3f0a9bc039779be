// SPDX-License-Identifier: BSD-3-Clause
// Part of signature_ut. Queues that stop at a wrong block: in order, weakly ordered, on a wire; and
// when an error is told again.
#include "sign_fixture.hh"
#include "vhca/hca/commands.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace signature_stops_ut {
namespace {

// INIT2INIT_QP, as libmlx5 asks for it; then the queue is to be connected anew.
void let_drain(Rig& rig, TestQp& qp) {
  rig.to_state(qp, QpState::reset);
  qp.pi = 0;
  qp.publish();
  rig.to_init(qp);
  std::array<std::byte, prm::qp_cmd::in_bytes> in{};
  std::array<std::byte, 16> out{};
  auto put = [&](std::size_t at, auto v) { std::memcpy(in.data() + at, &v, sizeof(v)); };
  put(0, be16{prm::cmd::qp_init2init});
  put(8, be32{qp.qpn.value()});
  put(prm::qp_cmd::in_mask, be32{prm::qp_cmd::mask_drain_sigerr});
  put(prm::qp_cmd::in_context + prm::qp_cmd::pd, be32{prm::qp_cmd::drain_sigerr});
  EQUAL(hca::command(*rig.hca, in, out), 0);
  EQUAL(out[0], std::byte{0});
}

void goes_on_when_it_is_told(Rig& rig, End& e, uint16_t next) {
  rig.to_state(rig.a, QpState::rts);
  const std::optional<Completion> sent = e.wait();
  CU_ASSERT_TRUE_FATAL(sent.has_value());
  EQUAL(sent->index, next);
  EQUAL(sent->syndrome, Syndrome::none);
  CU_ASSERT_TRUE(rig.wait(rig.cq_b).has_value());
}

void a_queue_stops_behind_a_wrong_block() {
  Rig rig;
  let_drain(rig, rig.a);
  rig.to_rtr(rig.a, rig.b.qpn);
  rig.to_rts_only(rig.a);
  End e{rig, rig.a, rig.cq_a};
  EQUAL(shown(e), Syndrome::none);
  std::memset(e.arena.data(), 1, 516);
  rig.b.recv(e.buffer.at(8192), 64, e.plain);
  Wqe data(Opcode::rdma_write);
  const uint16_t second = static_cast<uint16_t>(rig.a.pi + 1);
  rig.a.put(data.raddr(e.buffer.at(0), e.plain).data(0, 512, e.key).quiet());
  // mlx5dv_qp_cancel_posted_send_wrs(3): the queue stops before the next request with
  // IBV_SEND_FENCE.
  Wqe answer = Wqe(Opcode::send).data(e.buffer.at(0), 16, e.plain);
  answer.flags |= prm::ctrl::fence;
  rig.a.put(answer);
  rig.a.ring(rig.uar);
  for (int i = 0; i < 20; i++) rig.run();
  EQUAL(rig.events.of(5), 1);  // SQ_DRAINED
  EQUAL(rig.state(rig.a), QpState::sqd);
  e.take_errors();
  EQUAL(e.errors.size(), 1);
  CU_ASSERT_FALSE(rig.cq_b.poll().has_value());
  EQUAL(rig.hca->qps.at(rig.a.qpn.value())->sq.ci, second);
  goes_on_when_it_is_told(rig, e, second);
}

// What is late finds the wrong block in the middle of a WQE's turn that has to wait for all of it.
void a_weak_queue_stops_before_what_nobody_reads() {
  RigShape shape;
  shape.order = order_of("resend");
  Rig rig(shape);
  let_drain(rig, rig.a);
  rig.to_rtr(rig.a, rig.b.qpn);
  rig.to_rts_only(rig.a);
  End e{rig, rig.a, rig.cq_a};
  EQUAL(shown(e), Syndrome::none);
  std::memset(e.arena.data(), 1, 516);
  Wqe data(Opcode::rdma_write);
  rig.a.put(data.raddr(e.buffer.at(0), e.plain).data(0, 512, e.key).quiet());
  const uint16_t second = rig.a.pi;
  rig.a.put(Wqe(static_cast<Opcode>(0x1f)));
  rig.a.ring(rig.uar);
  for (int i = 0; i < 20; i++) rig.run();
  EQUAL(rig.state(rig.a), QpState::sqd);
  e.take_errors();
  EQUAL(e.errors.size(), 1);
  EQUAL(rig.hca->qps.at(rig.a.qpn.value())->sq.ci, second);
  rig.to_state(rig.a, QpState::rts);
  const std::optional<Completion> refused = e.wait();
  CU_ASSERT_TRUE_FATAL(refused.has_value());
  EQUAL(refused->index, second);
  EQUAL(refused->syndrome, Syndrome::local_qp_op);
}

void a_queue_on_a_wire_stops_behind_a_wrong_block() {
  const LinkShape s;
  WireRig w{s};
  let_drain(w.left, w.left.a);
  WireRig::connect(w.left, {w.left.a, w.right.a.qpn, QpType::rc}, right_mac, s, s.left_psn,
                   s.right_psn);
  End e{w.left, w.left.a, w.left.cq_a};
  EQUAL(shown(e), Syndrome::none);
  std::memset(e.arena.data(), 1, 516);
  Pages far(4096);
  const MrKeys key = w.right.reg(far, rw_access);
  w.right.a.recv(far.at(2048), 64, key.lkey.value());
  Wqe data(Opcode::rdma_write);
  w.left.a.put(data.raddr(far.at(0), key.rkey.value()).data(0, 512, e.key).quiet());
  w.left.a.put(Wqe(Opcode::send).data(e.buffer.at(0), 16, e.plain));
  w.left.a.ring(w.left.uar);
  for (int i = 0; i < 100'000 && w.left.state(w.left.a) != QpState::sqd; i++) w.settle();
  EQUAL(w.left.state(w.left.a), QpState::sqd);
  EQUAL(w.left.events.of(5), 1);  // SQ_DRAINED
  e.take_errors();
  EQUAL(e.errors.size(), 1);
  w.settle();
  CU_ASSERT_FALSE(w.right.cq_a.poll().has_value());
  w.left.to_state(w.left.a, QpState::rts);
  CU_ASSERT_TRUE(w.wait(w.left.cq_a).has_value() && w.wait(w.right.cq_a).has_value());
}

void one_error_is_told_until_the_key_is_armed_again() {
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
  auto write = [&] {
    Wqe w(Opcode::rdma_write);
    EQUAL(e.post(w.raddr(e.buffer.at(0), e.plain).data(0, 512, e.key)), Syndrome::none);
  };
  EQUAL(shown(e), Syndrome::none);
  std::memset(e.arena.data(), 3, 516);
  write();
  write();
  EQUAL(e.errors.size(), 1);
  EQUAL(shown(e), Syndrome::none);
  write();
  EQUAL(e.errors.size(), 2);
  EQUAL(rig.journal.count(Journal::Kind::sign_error), 2);
}

constexpr kilim::test::Case of_stops[] = {
    {"a queue stops behind a wrong block where it was asked to",
     a_queue_stops_behind_a_wrong_block},
    {"a weak queue stops before what nobody reads", a_weak_queue_stops_before_what_nobody_reads},
    {"a queue on a wire stops behind a wrong block too",
     a_queue_on_a_wire_stops_behind_a_wrong_block},
    {"one error is told of until the key is armed again",
     one_error_is_told_until_the_key_is_armed_again},
};

}  // namespace
}  // namespace signature_stops_ut
}  // namespace kilim::vhca::test

std::span<const kilim::test::Case> kilim::vhca::test::signature_stop_cases() {
  return signature_stops_ut::of_stops;
}
