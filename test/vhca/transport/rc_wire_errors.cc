// SPDX-License-Identifier: BSD-3-Clause
// Part of rc_wire_ut. What is lost, late or refused: retries and their ends (IBTA 9.7), and packets
// that nobody should send.
#include <algorithm>
#include <random>

#include "rc_wire_fixture.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/qp_error.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace rc_wire_errors_ut {
namespace {

// Any of four kinds, judged by its data; an atomic adds 3 to the first word of the far side.
void any_request(WireRig& w, Sides& s, std::mt19937& rng, std::size_t at, uint32_t n) {
  auto* word = reinterpret_cast<uint64_t*>(s.far.data());
  const uint64_t before = *word;
  switch (rng() % 4) {
    case 0:
      CU_ASSERT_FATAL(succeeded(w.post(rdma(Opcode::rdma_write, s, at, n))));
      CU_ASSERT(s.same(at, at, n));
      break;
    case 1:
      CU_ASSERT_FATAL(succeeded(w.post(rdma(Opcode::rdma_read, s, at, n))));
      CU_ASSERT(s.same(at, at, n));
      break;
    case 2:
      w.right.a.recv(s.far.at(at), n + 1, s.far_key.lkey.value());
      CU_ASSERT_FATAL(succeeded(w.post(with_data(Wqe(Opcode::send), s, at, n))));
      CU_ASSERT(s.same(at, at, n) && w.right.cq_a.poll().has_value());
      CU_ASSERT(!w.right.cq_a.poll().has_value());
      break;
    default:
      CU_ASSERT_FATAL(succeeded(w.post(Wqe(Opcode::atomic_fa)
                                           .raddr(s.far.at(0), s.far_key.rkey.value())
                                           .atomic(3, 0)
                                           .data(s.near.at(0), 8, s.near_key.lkey.value()))));
      EQUAL(*word, before + 3);
      break;
  }
}

// A few hundred requests of all kinds; right data in spite of the wire.
void on_a_bad_wire(const std::string& faults) {
  LinkShape shape{.left_wire = "+fault:" + faults + ":seed:1",
                  .right_wire = "+fault:" + faults + ":seed:2",
                  .mtu = 1};
  WireRig w(shape);
  Sides s(w);
  auto* word = reinterpret_cast<uint64_t*>(s.far.data());
  *word = 0;
  std::mt19937 rng(5);
  for (int i = 0; i < 300; i++) {
    auto n = static_cast<uint32_t>(rng() % 3000);
    std::size_t at = 4096 + rng() % (area - 8192);
    for (std::size_t k = 0; k < n; k++) s.near.data()[at + k] = static_cast<std::byte>(rng());
    any_request(w, s, rng, at, n);
  }
}

void a_bad_wire_changes_nothing_but_the_time() {
  on_a_bad_wire("drop:0.05");
  on_a_bad_wire("dup:0.2");
  on_a_bad_wire("reorder:0.1");
  on_a_bad_wire("corrupt:0.03");
  on_a_bad_wire("drop:0.02:dup:0.02:reorder:0.02:corrupt:0.01");
}

void a_receiver_that_is_late_is_waited_for() {
  WireRig w;
  Sides s(w);
  w.left.a.put(Wqe(Opcode::send).data(s.near.at(0), 5000, s.near_key.lkey.value()));
  w.left.a.ring(w.left.uar);
  for (int i = 0; i < 200; i++) {
    w.left.hca->run();
    w.right.hca->run();
    ::usleep(20);
  }
  CU_ASSERT(!w.left.cq_a.poll().has_value());
  w.right.a.recv(s.far.at(0), 5000, s.far_key.lkey.value());
  CU_ASSERT(succeeded(w.wait(w.left.cq_a)));
  CU_ASSERT(s.same(0, 0, 5000));
}

void patience_with_a_receiver_ends() {
  WireRig w({.rnr_retry = 2});
  Sides s(w);
  std::optional<Completion> c =
      w.post(Wqe(Opcode::send).data(s.near.at(0), 8, s.near_key.lkey.value()));
  CU_ASSERT(bad(c, Syndrome::rnr_retry_exc));
  EQUAL(w.left.state(w.left.a), QpState::err);
}

void a_dead_peer_ends_in_retry_exceeded_and_a_flush() {
  WireRig w({.timeout = 4, .retry_cnt = 2});
  Sides s(w);
  for (int i = 0; i < 3; i++) w.left.a.put(rdma(Opcode::rdma_write, s, 0, 100));
  w.left.a.ring(w.left.uar);
  CU_ASSERT(bad(w.left.wait(w.left.cq_a), Syndrome::transport_retry_exc));
  CU_ASSERT(bad(w.left.wait(w.left.cq_a), Syndrome::wr_flush));
  CU_ASSERT(bad(w.left.wait(w.left.cq_a), Syndrome::wr_flush));
  EQUAL(w.left.state(w.left.a), QpState::err);
}

void a_receive_that_is_too_short() {
  WireRig w;
  Sides s(w);
  w.right.a.recv(s.far.at(0), 1999, s.far_key.lkey.value());
  CU_ASSERT(bad(w.post(Wqe(Opcode::send).data(s.near.at(0), 2000, s.near_key.lkey.value())),
                Syndrome::remote_inval_req));
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
}

void what_the_responder_refuses_fails_at_both_ends() {
  struct Row {
    Syndrome there;
    uint32_t event;
    uint32_t access;
    std::size_t at;
    Opcode op;
  };
  const Row rows[] = {
      {Syndrome::remote_access, wq::event::qp_access_err, Rig::all_access, area,
       Opcode::rdma_write},
      {Syndrome::remote_access, wq::event::qp_access_err, Rig::all_access, area, Opcode::rdma_read},
      {Syndrome::remote_inval_req, wq::event::qp_req_err, 0, 0, Opcode::rdma_write},
      {Syndrome::remote_inval_req, wq::event::qp_req_err, 0, 0, Opcode::rdma_read},
  };
  for (const Row& row : rows) {
    WireRig w({.access = row.access});
    Sides s(w);
    Wqe wqe = Wqe(row.op)
                  .raddr(s.far.at(row.at), s.far_key.rkey.value())
                  .data(s.near.at(0), 2000, s.near_key.lkey.value());
    CU_ASSERT(bad(w.post(wqe), row.there));
    EQUAL(w.right.state(w.right.a), QpState::err);
    EQUAL(w.right.events.of(row.event), 1);
  }
  a_receive_that_is_too_short();
}

void the_queues_own_mistakes_fail_here_behind_what_is_under_way() {
  WireRig w;
  Sides s(w);
  w.left.a.put(rdma(Opcode::rdma_read, s, 0, 50'000));
  w.left.a.put(Wqe(Opcode::rdma_write).raddr(s.far.at(0), 1).data(s.near.at(area), 9, 1));
  w.left.a.ring(w.left.uar);
  CU_ASSERT(succeeded(w.wait(w.left.cq_a)));
  CU_ASSERT(s.same(0, 0, 50'000));
  CU_ASSERT(bad(w.wait(w.left.cq_a), Syndrome::local_prot));
  EQUAL(w.right.state(w.right.a), QpState::rts);
}

// READs of 100 bytes from the left, as by a requester that is made by hand.
void ask(WireRig& w, const Sides& s, uint32_t first, uint32_t count) {
  transport::RocePath path{.src = left_mac, .dst = right_mac};
  port_gid(left_mac, 0, path.sgid);
  port_gid(right_mac, 0, path.dgid);
  std::vector<std::byte> frame(256);
  for (uint32_t i = first; i < first + count; i++) {
    transport::RocePacket p;
    const auto* row = std::find_if(
        std::begin(transport::roce::op_rows), std::end(transport::roce::op_rows),
        [](const transport::roce::OpRow& r) { return r.op == transport::roce::Op::read_request; });
    p.op = row->op;
    p.flags = row->flags;
    p.dest_qpn = w.right.a.qpn.value();
    p.psn = transport::roce::psn_add(0xfffff0, i);
    p.va = s.far.at(i * 100);
    p.rkey = s.far_key.rkey.value();
    p.length = 100;
    const std::size_t n = transport::build_roce(path, p, 0, frame);
    w.left.hca->config.wires[0]->send({frame.data(), n});
  }
}

// Answers that are late are asked for again, then the first of them come and make room.
void a_read_behind_late_answers_is_taken() {
  WireRig w;
  Sides s(w);
  ask(w, s, 0, 16);
  w.right.hca->run();
  ask(w, s, 0, 17);
  while (w.right.hca->run() != 0) {
  }
  EQUAL(w.right.state(w.right.a), QpState::rts);
  ask(w, s, 17, 17);  // nobody has answered the first of these
  while (w.right.hca->run() != 0) {
  }
  EQUAL(w.right.state(w.right.a), QpState::err);
}

void draining_waits_for_what_is_under_way() {
  WireRig w;
  Sides s(w);
  w.left.a.put(rdma(Opcode::rdma_read, s, 0, 50'000));
  w.left.a.ring(w.left.uar);
  w.left.hca->run();
  QpAttr attr;
  attr.state = QpState::sqd;
  attr.en_sqd_async_notify = 1;
  EQUAL(hca::modify_qp(*w.left.hca, w.left.a.qpn, attr, qp_mask::state | qp_mask::en_sqd_async), 0);
  EQUAL(w.left.events.of(wq::event::sq_drained), 0);
  CU_ASSERT(succeeded(w.wait(w.left.cq_a)));
  CU_ASSERT(s.same(0, 0, 50'000));
  EQUAL(w.left.events.of(wq::event::sq_drained), 1);
}

// Of the kind that `row` says; its number is near those that are expected.
template <typename Random>
transport::RocePacket any_packet(const transport::roce::OpRow& row, const Sides& s, uint32_t turn,
                                 Random rng) {
  transport::RocePacket p;
  p.op = row.op;
  p.flags = row.flags;
  bool answer = (row.flags & transport::roce::flag::response) != 0;
  p.psn = transport::roce::psn_add(answer ? 5 : 0xfffff0, rng() % 8 - 2 + turn);
  p.ack_request = (rng() & 1) != 0;
  p.va = s.far.at(rng() % area);
  p.rkey = rng() % 4 != 0 ? s.far_key.rkey.value() : static_cast<uint32_t>(rng());
  p.length = rng() % 8 != 0 ? static_cast<uint32_t>(rng() % 2000) : static_cast<uint32_t>(rng());
  p.ack_kind = rng() % 4;
  p.ack_value = rng() % 32;
  return p;
}

// Well-formed packets of any kind and number, from the right address.
void packets_that_nobody_should_send_hurt_nobody() {
  std::mt19937 source(11);
  auto rng = [&] { return static_cast<uint32_t>(source()); };
  for (int round = 0; round < 40; round++) {
    WireRig w({.mtu = 1, .timeout = 0});
    Sides s(w);
    wire::Wire* wire = w.left.hca->config.wires[0].get();
    std::vector<std::byte> frame(8192);
    transport::RocePath path{.src = left_mac, .dst = right_mac};
    port_gid(left_mac, 0, path.sgid);
    port_gid(right_mac, 0, path.dgid);
    w.right.a.recv(s.far.at(0), 1000, s.far_key.lkey.value());
    w.right.a.put(Wqe(Opcode::rdma_read)
                      .raddr(s.near.at(0), s.near_key.rkey.value())
                      .data(s.far.at(0), 3000, s.far_key.lkey.value()));
    w.right.a.ring(w.right.uar);
    for (int i = 0; i < 200; i++) {
      const transport::roce::OpRow& row =
          transport::roce::op_rows[rng() % std::size(transport::roce::op_rows)];
      transport::RocePacket p = any_packet(row, s, static_cast<uint32_t>(i) / 8, rng);
      p.dest_qpn = w.right.a.qpn.value();
      std::size_t bytes = 0;
      if ((row.flags & transport::roce::flag::payload) != 0)
        bytes = rng() % 3 != 0 ? 256 : rng() % 300;
      std::size_t n = transport::build_roce(path, p, bytes, frame);
      wire->send({frame.data(), n});
      w.right.hca->run();
      while (!wire->peek().empty()) wire->drop();
    }
    QpState state = w.right.state(w.right.a);
    CU_ASSERT(state == QpState::rts || state == QpState::err);
  }
}

constexpr Case of_errors[] = {
    {"a bad wire changes nothing but the time", a_bad_wire_changes_nothing_but_the_time},
    {"a receiver that is late is waited for", a_receiver_that_is_late_is_waited_for},
    {"patience with a receiver ends", patience_with_a_receiver_ends},
    {"a dead peer ends in retry exceeded and a flush",
     a_dead_peer_ends_in_retry_exceeded_and_a_flush},
    {"what the responder refuses fails at both ends",
     what_the_responder_refuses_fails_at_both_ends},
    {"the queue's own mistakes fail here behind what is under way",
     the_queues_own_mistakes_fail_here_behind_what_is_under_way},
    {"a READ behind late answers is taken, one too many is not",
     a_read_behind_late_answers_is_taken},
    {"draining waits for what is under way", draining_waits_for_what_is_under_way},
    {"packets that nobody should send hurt nobody", packets_that_nobody_should_send_hurt_nobody},
};

}  // namespace
}  // namespace rc_wire_errors_ut

std::span<const kilim::test::Case> kilim::vhca::test::rc_wire_error_cases() {
  return rc_wire_errors_ut::of_errors;
}
