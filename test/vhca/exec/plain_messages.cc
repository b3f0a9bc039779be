// SPDX-License-Identifier: BSD-3-Clause
// SENDs and atomics on the straight way. Part of plain_ut.
#include <cstring>

#include "plain_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace plain_messages_ut {
namespace {

using prm::CqeOpcode;

// Receive WQEs of four segments, of which one is used; B's send queue is where entries go, too.
void sends_go_the_straight_way() {
  Side s(31, false);
  const uint32_t src = s.keys[Side::whole_src], dst = s.keys[Side::whole_dst];
  for (uint32_t i = 0; i < 3; i++) s.rig.b.recv(s.dst.at(i * 100), 100, dst);
  Wqe send(Opcode::send);
  send.data(s.src.at(40), 64, src);
  s.rig.a.put(Wqe(send).quiet());
  s.rig.a.put(send);
  EQUAL(work_of(s, Wqe(Opcode::send).data(s.src.at(7), 3, src)), 3 * exec::plain_work);
  EQUAL(std::memcmp(s.dst.data(), s.src.data() + 40, 64), 0);
  EQUAL(std::memcmp(s.dst.data() + 100, s.src.data() + 40, 64), 0);
  EQUAL(std::memcmp(s.dst.data() + 200, s.src.data() + 7, 3), 0);
  for (uint16_t i = 0; i < 3; i++) {
    const std::optional<Completion> c = s.rig.cq_b.poll();
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->op, CqeOpcode::resp_send);
    EQUAL(c->qpn, s.rig.b.qpn.value());
    EQUAL(c->index, i);
    EQUAL(c->bytes, i < 2 ? 64 : 3);
    EQUAL(c->uidx, 0xb);
    EQUAL(c->rqpn, s.rig.a.qpn.value());
  }
  CU_ASSERT(!s.rig.cq_b.poll());
}

// The general way says what is wrong with each.
void sends_that_are_not_plain_are_left_alone() {
  const uint32_t none = 0;
  struct Row {
    uint32_t room, bytes, lkey_off, recv_key_off;
    CqeOpcode received;
    Syndrome sent;
  };
  const Row rows[] = {{50, 64, 0, none, CqeOpcode::resp_err, Syndrome::remote_inval_req},
                      {64, 64, 1, none, CqeOpcode::invalid, Syndrome::local_prot},
                      {64, 64, 0, 1, CqeOpcode::resp_err, Syndrome::remote_op}};
  for (const Row& row : rows) {
    Side s(32, false);
    s.rig.b.recv(s.dst.at(0), row.room, s.keys[Side::whole_dst] + row.recv_key_off);
    const std::byte before = s.dst.data()[0];
    Wqe send(Opcode::send);
    send.data(s.src.at(0), row.bytes, s.keys[Side::whole_src] + row.lkey_off);
    EQUAL(s.rig.run_one(s.rig.a, send).syndrome, row.sent);
    EQUAL(s.dst.data()[0], before);
    const std::optional<Completion> c = s.rig.cq_b.poll();
    EQUAL(c ? c->op : CqeOpcode::invalid, row.received);
  }
}

// A queue that sends to itself, both of its completions in one ring that is nearly full.
void a_send_needs_room_for_both_entries() {
  Side s(33, false);
  s.rig.to_state(s.rig.a, QpState::reset);
  s.rig.a.pi = s.rig.a.head = 0;
  std::memset(s.rig.a.record.data(), 0, 8);
  s.rig.to_rts(s.rig.a, s.rig.a.qpn);
  uint32_t sent = 0, received = 0;
  for (uint32_t i = 0; i < 200; i++) {
    s.rig.a.recv(s.dst.at(0), 64, s.keys[Side::whole_dst]);
    s.rig.a.put(Wqe(Opcode::send).data(s.src.at(i), 64, s.keys[Side::whole_src]));
    s.rig.a.ring(s.rig.uar);
    s.rig.run();
    EQUAL(std::memcmp(s.dst.data(), s.src.data() + i, 64), 0);
    if (i % 5 != 4) continue;
    while (const std::optional<Completion> c = s.rig.cq_a.poll())
      (c->op == CqeOpcode::req ? sent : received)++;
  }
  EQUAL(sent, 200);
  EQUAL(received, 200);
}

// As the general way says it, and no entry is written over another.
void sends_do_not_overrun_what_both_entries_share() {
  Side s(37, false);
  s.rig.to_state(s.rig.a, QpState::reset);
  s.rig.a.pi = s.rig.a.head = 0;
  std::memset(s.rig.a.record.data(), 0, 8);
  s.rig.to_rts(s.rig.a, s.rig.a.qpn);
  // The second entry of the ring: with the third one the messages' pairs begin.
  EQUAL(s.rig.run_one(s.rig.a, Wqe(Opcode::nop)).op, CqeOpcode::req);
  const auto post = [&] {
    s.rig.a.recv(s.dst.at(0), 64, s.keys[Side::whole_dst]);
    s.rig.a.put(Wqe(Opcode::send).data(s.src.at(0), 64, s.keys[Side::whole_src]));
  };
  for (uint32_t i = 0; i < 31; i++) {
    post();
    s.rig.a.ring(s.rig.uar);
    (void)s.rig.hca->run();
    EQUAL(s.work(), exec::plain_work);
  }
  EQUAL(s.rig.events.count, 0);
  post();
  post();
  s.rig.a.ring(s.rig.uar);
  s.rig.run();
  constexpr uint32_t cq_err = 0;
  EQUAL(s.rig.events.of(cq_err), 1);
  for (uint32_t i = 0; i < 64; i++) {
    const std::optional<Completion> c = s.rig.cq_a.poll();
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->index, (i + 1) / 2);
  }
}

void atomics_go_the_straight_way() {
  Side s(34, false);
  auto* word = reinterpret_cast<uint64_t*>(s.dst.data() + 64);
  const auto answer = [&s] {
    uint64_t said = 0;
    std::memcpy(&said, s.src.data() + 4, sizeof said);
    return said;
  };
  *word = 40;
  const auto ask = [&](Opcode op, uint64_t swap_add, uint64_t compare) {
    Wqe w(op);
    return w.raddr(s.dst.at(64), s.keys[Side::whole_dst])
        .atomic(swap_add, compare)
        .data(s.src.at(4), 8, s.keys[Side::whole_src]);
  };
  EQUAL(work_of(s, ask(Opcode::atomic_fa, 2, 0)), exec::plain_work);
  EQUAL(*word, 42);
  EQUAL(answer(), 40);
  EQUAL(work_of(s, ask(Opcode::atomic_cs, 7, 42)), exec::plain_work);
  EQUAL(*word, 7);
  EQUAL(answer(), 42);
  EQUAL(work_of(s, ask(Opcode::atomic_cs, 9, 42)), exec::plain_work);
  EQUAL(*word, 7);
  EQUAL(answer(), 7);
  s.rig.a.put(ask(Opcode::atomic_fa, 1, 0));
  EQUAL(s.rig.run_one(s.rig.a, ask(Opcode::atomic_fa, 1, 0)).bytes, 8);
  EQUAL(*word, 9);
}

void atomics_that_are_not_plain_are_left_alone() {
  Wqe (*const asks[])(Side&) = {
      [](Side& s) {  // not aligned
        return Wqe(Opcode::atomic_fa).raddr(s.dst.at(4), s.keys[Side::whole_dst]);
      },
      [](Side& s) {  // no right to atomics
        return Wqe(Opcode::atomic_fa).raddr(s.src.at(0), s.keys[Side::readable]);
      },
      [](Side& s) {
        return Wqe(Opcode::atomic_fa).raddr(s.dst.at(region_bytes), s.keys[Side::whole_dst]);
      }};
  for (const auto make : asks) {
    Side s(35, false);
    Wqe w = make(s);
    w.atomic(1, 0).data(s.src.at(0), 8, s.keys[Side::whole_src]);
    CU_ASSERT(s.rig.run_one(s.rig.a, w).syndrome != Syndrome::none);
  }
}

// Nobody does it twice.
void an_atomic_without_a_place_for_its_answer_happens_once() {
  Side s(36, false);
  auto* word = reinterpret_cast<uint64_t*>(s.dst.data());
  *word = 1;
  s.src.unmap();
  Wqe w(Opcode::atomic_fa);
  w.raddr(s.dst.at(0), s.keys[Side::whole_dst]).atomic(1, 0);
  w.data(s.src.at(0), 8, s.keys[Side::whole_src]);
  EQUAL(s.rig.run_one(s.rig.a, w).syndrome, Syndrome::local_prot);
  EQUAL(*word, 2);
  EQUAL(s.rig.journal.count(Journal::Kind::fault), 1);
}

}  // namespace
}  // namespace plain_messages_ut

void sends_and_atomics_go_the_straight_way() {
  plain_messages_ut::sends_go_the_straight_way();
  plain_messages_ut::sends_that_are_not_plain_are_left_alone();
  plain_messages_ut::a_send_needs_room_for_both_entries();
  plain_messages_ut::sends_do_not_overrun_what_both_entries_share();
  plain_messages_ut::atomics_go_the_straight_way();
  plain_messages_ut::atomics_that_are_not_plain_are_left_alone();
  plain_messages_ut::an_atomic_without_a_place_for_its_answer_happens_once();
}

}  // namespace kilim::vhca::test
