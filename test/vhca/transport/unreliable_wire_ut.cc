// SPDX-License-Identifier: BSD-3-Clause
// Unreliable connections and datagrams between two adapters: what arrives is whole and right, what
// is lost is lost without a word, and nobody waits.
#include <algorithm>

#include "case_tables.hh"
#include "unreliable_fixture.hh"
#include "vhca/wq/qp_error.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace unreliable_wire_ut {
namespace {

constexpr uint32_t lengths[] = {0, 1, 255, 256, 1024, 1025, 4096, 70000};

void messages_of_every_length_and_mtu_arrive() {
  for (uint8_t mtu = 1; mtu <= 5; mtu++) {
    WireRig w(connection(mtu));
    UnreliableSides s(w);
    std::size_t at = 1;
    for (uint32_t n : lengths) {
      CU_ASSERT(good(w.post(s.write(Opcode::rdma_write, at, n))));
      w.settle();
      CU_ASSERT(s.same(at, at, n));
      CU_ASSERT(n == 0 || !s.same(at, at, n + 1));
      at += n + 1;
      w.right.a.recv(s.far.at(at), 100'000, s.far_key.lkey.value());
      CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send_imm, 77), at, n).solicited())));
      std::optional<Completion> c = w.wait(w.right.cq_a);
      CU_ASSERT_FATAL(c.has_value());
      EQUAL(c->op, prm::CqeOpcode::resp_send_imm);
      EQUAL(c->bytes, n);
      EQUAL(c->imm, 77);
      CU_ASSERT(c->solicited);
      CU_ASSERT(s.same(at, at, n));
      at += n + 1;
    }
    EQUAL(w.right.state(w.right.a), QpState::rts);
  }
}

// Each message says in its first word which one it is; its bytes follow from that.
void on_a_bad_wire_what_arrives_is_whole() {
  WireRig w(connection(1, "+fault:drop:0.05:dup:0.05:reorder:0.05:corrupt:0.02:seed:3"));
  UnreliableSides s(w);
  constexpr uint32_t bytes = 1500, count = 200;
  for (uint32_t i = 0; i < count; i++) {
    auto* at = s.near.data() + i * bytes;
    std::fill_n(at, bytes, static_cast<std::byte>(i + 1));
    w.right.a.recv(s.far.at(i * bytes), bytes, s.far_key.lkey.value());
    w.left.a.put(s.with(Wqe(Opcode::send), i * bytes, bytes));
  }
  w.left.a.ring(w.left.uar);
  for (uint32_t i = 0; i < count; i++) CU_ASSERT_FATAL(good(w.wait(w.left.cq_a)));
  w.settle();
  uint32_t arrived = 0;
  int before = 0;
  while (std::optional<Completion> c = w.right.cq_a.poll()) {
    EQUAL(c->op, prm::CqeOpcode::resp_send);
    EQUAL(c->bytes, bytes);
    const std::byte* got = s.far.data() + arrived * bytes;
    auto message = static_cast<int>(*got);
    CU_ASSERT(std::all_of(got, got + bytes, [got](std::byte b) { return b == *got; }));
    CU_ASSERT(message > before);
    before = message;
    arrived++;
  }
  // Six packets a message: about half of them have met no mishap.
  CU_ASSERT(arrived > 10);
  CU_ASSERT(arrived < count);
  EQUAL(w.right.state(w.right.a), QpState::rts);
  EQUAL(w.left.state(w.left.a), QpState::rts);
}

void without_a_receive_nothing_waits() {
  WireRig w(connection());
  UnreliableSides s(w);
  CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send), 0, 1000))));
  w.settle();
  w.right.a.recv(s.far.at(0), 1000, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send), 5, 1000))));
  CU_ASSERT(w.wait(w.right.cq_a).has_value());
  CU_ASSERT(s.same(5, 0, 1000));
  CU_ASSERT(!w.right.cq_a.poll().has_value());
}

void what_is_not_allowed_is_dropped_or_fails_the_receive() {
  WireRig w(connection());
  UnreliableSides s(w);
  Wqe bad_key =
      s.with(Wqe(Opcode::rdma_write).raddr(s.far.at(0), s.far_key.rkey.value() + 1), 0, 9);
  CU_ASSERT(good(w.post(bad_key)));
  w.settle();
  EQUAL(s.far.data()[1], std::byte{0});
  EQUAL(w.right.state(w.right.a), QpState::rts);
  EQUAL(w.right.events.of(wq::event::qp_access_err), 0);
  w.right.a.recv(s.far.at(0), 99, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send), 0, 100))));
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
}

void what_needs_an_answer_is_refused_here() {
  for (Opcode op : {Opcode::rdma_read, Opcode::atomic_fa, Opcode::send_inval}) {
    WireRig w(connection());
    UnreliableSides s(w);
    std::optional<Completion> c = w.post(s.write(op, 0, 8));
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_qp_op);
  }
}

void a_peer_that_is_gone_stops_nobody() {
  WireRig w(connection());
  UnreliableSides s(w);
  w.right.to_state(w.right.a, QpState::reset);
  for (int i = 0; i < 20; i++) CU_ASSERT(good(w.post(s.write(Opcode::rdma_write, 0, 5000))));
  EQUAL(w.left.state(w.left.a), QpState::rts);
}

void draining_sends_the_message_under_way_to_its_end() {
  WireRig w(connection());
  UnreliableSides s(w);
  w.left.a.put(s.write(Opcode::rdma_write, 0, 70'000));
  w.left.a.put(s.write(Opcode::rdma_write, 100'000, 100));
  w.left.a.ring(w.left.uar);
  w.left.hca->run(1);
  QpAttr attr;
  attr.state = QpState::sqd;
  attr.en_sqd_async_notify = 1;
  EQUAL(hca::modify_qp(*w.left.hca, w.left.a.qpn, attr, qp_mask::state | qp_mask::en_sqd_async), 0);
  EQUAL(w.left.events.count, 0);
  CU_ASSERT(good(w.wait(w.left.cq_a)));
  w.settle();
  CU_ASSERT(s.same(0, 0, 70'000));
  EQUAL(w.left.events.count, 1);
  CU_ASSERT(!w.left.cq_a.poll().has_value());
  w.left.to_state(w.left.a, QpState::rts);
  CU_ASSERT(good(w.wait(w.left.cq_a)));
  w.settle();
  CU_ASSERT(s.same(100'000, 100'000, 100));
}

// Its sequence numbers are used up: the peer drops what it has of it.
void a_message_that_fails_half_way_is_left_behind() {
  WireRig w(connection());
  UnreliableSides s(w), more(w);
  w.left.a.put(s.write(Opcode::rdma_write, 0, 70'000));
  w.left.a.ring(w.left.uar);
  w.left.hca->run(1);
  CU_ASSERT(!w.left.cq_a.poll().has_value());
  EQUAL(hca::dereg_mr(*w.left.hca, index_of(s.near_key.lkey)), 0);
  std::optional<Completion> c = w.wait(w.left.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_prot);
  EQUAL(w.left.state(w.left.a), QpState::sqe);
  EQUAL(w.left.to_state(w.left.a, QpState::rts), 0);
  for (std::size_t at : {1000u, 5000u}) {
    CU_ASSERT(good(w.post(more.write(Opcode::rdma_write, at, 3000))));
    w.settle();
    CU_ASSERT(more.same(at, at, 3000));
  }
  EQUAL(w.right.state(w.right.a), QpState::rts);
}

constexpr Case cases[] = {
    {"messages of every length and MTU arrive", messages_of_every_length_and_mtu_arrive},
    {"on a bad wire what arrives is whole", on_a_bad_wire_what_arrives_is_whole},
    {"without a receive nothing waits", without_a_receive_nothing_waits},
    {"what is not allowed is dropped or fails the receive",
     what_is_not_allowed_is_dropped_or_fails_the_receive},
    {"what needs an answer is refused here", what_needs_an_answer_is_refused_here},
    {"a peer that is gone stops nobody", a_peer_that_is_gone_stops_nobody},
    {"draining sends the message under way to its end",
     draining_sends_the_message_under_way_to_its_end},
    {"a message that fails half way is left behind", a_message_that_fails_half_way_is_left_behind},
};

}  // namespace
}  // namespace unreliable_wire_ut

KILIM_TEST_MAIN(unreliable_wire) {
  return kilim::test::run_tables("vhca/transport unreliable services on a wire",
                                 {unreliable_wire_ut::cases, kilim::vhca::test::datagram_cases()},
                                 argc, argv);
}
