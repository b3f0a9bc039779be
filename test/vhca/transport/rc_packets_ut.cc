// SPDX-License-Identifier: BSD-3-Clause
// The RC protocol packet by packet: the test is the peer, builds each packet by hand and sees each
// that the adapter sends. What only a peer that errs, or that counts, brings to light.
#include <optional>

#include "hand_fixture.hh"
#include "ut.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::test {
namespace rc_packets_ut {
namespace {

void a_write_shorter_than_it_said_is_refused() {
  Hand h({});
  h.send(Op::write_first, to_adapter, mtu, {.va = h.at(0), .rkey = h.rkey(), .length = 600});
  h.send(Op::write_last, to_adapter + 1, 100);
  std::optional<transport::RocePacket> p = h.next();
  while (p.has_value() && p->ack_kind == transport::roce::aeth::ack) p = h.next();
  CU_ASSERT_FATAL(p.has_value());
  EQUAL(p->ack_kind, transport::roce::aeth::nak);
  EQUAL(p->ack_value, static_cast<uint8_t>(transport::roce::aeth::Nak::invalid_request));
  EQUAL(h.state(), QpState::err);
}

void a_read_that_comes_again_asks_for_the_same() {
  Hand h({});
  const transport::RocePacket ask{.va = h.at(0), .rkey = h.rkey(), .length = 2 * mtu};
  for (int i = 0; i < 2; i++) {
    h.send(Op::read_request, to_adapter, 0, ask);
    CU_ASSERT(h.next_is(Op::read_first, to_adapter));
    CU_ASSERT(h.next_is(Op::read_last, to_adapter + 1));
  }
  transport::RocePacket longer = ask;
  longer.length = 3 * mtu;
  h.send(Op::read_request, to_adapter, 0, longer);
  CU_ASSERT(!h.next().has_value());
  EQUAL(h.state(), QpState::rts);
}

void a_read_again_of_a_key_that_is_gone_is_refused() {
  WireRig w;
  Pages near(4096), far(4096);
  const MrKeys near_key = w.left.reg(near, rw_access), far_key = w.right.reg(far, rw_access);
  w.left.a.put(Wqe(Opcode::rdma_read)
                   .raddr(far.at(0), far_key.rkey.value())
                   .data(near.at(0), 3000, near_key.lkey.value()));
  w.left.a.ring(w.left.uar);
  while (w.left.hca->run() != 0) {
  }
  while (w.right.hca->run() != 0) {
  }
  wire::Wire* wire = w.left.hca->config.wires[0].get();
  CU_ASSERT(!wire->peek().empty());
  while (!wire->peek().empty()) wire->drop();
  EQUAL(hca::dereg_mr(*w.right.hca, index_of(far_key.rkey)), 0);
  const std::optional<Completion> c = w.wait(w.left.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::remote_access);
}

// A refusal names the packet that it is for, also in the middle of the first answer.
void a_refused_part_of_a_read_is_named() {
  Hand h({});
  h.send(Op::read_request, to_adapter, 0, {.va = h.at(0), .rkey = h.rkey(), .length = 3 * mtu});
  CU_ASSERT(h.next_is(Op::read_first, to_adapter));
  CU_ASSERT(h.next_is(Op::read_middle, to_adapter + 1));
  CU_ASSERT(h.next_is(Op::read_last, to_adapter + 2));
  h.send(Op::read_request, to_adapter + 1, 0,
         {.va = h.at(mtu), .rkey = h.rkey() ^ 1, .length = 2 * mtu});
  const std::optional<transport::RocePacket> p = h.next();
  CU_ASSERT(p.has_value() && p->ack_kind == transport::roce::aeth::nak && p->psn == to_adapter + 1);
  CU_ASSERT(p.has_value() &&
            p->ack_value == static_cast<uint8_t>(transport::roce::aeth::Nak::remote_access));
  EQUAL(h.state(), QpState::err);
}

void a_nak_is_enough_without_a_timer() {
  Hand h({.timeout = 0});
  h.post(Opcode::rdma_write, 600);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT(h.next_is(Op::write_first, from_adapter));
    CU_ASSERT(h.next_is(Op::write_middle, from_adapter + 1));
    CU_ASSERT(h.next_is(Op::write_last, from_adapter + 2));
    CU_ASSERT(!h.next().has_value());
    if (i == 0) h.send(Op::acknowledge, from_adapter, 0, {.ack_kind = transport::roce::aeth::nak});
  }
  h.send(Op::acknowledge, from_adapter + 2, 0,
         {.ack_kind = transport::roce::aeth::ack, .ack_value = 31});
  CU_ASSERT(!h.next().has_value());
  const std::optional<Completion> c = h.completion();
  CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::req);
}

void an_answer_of_another_length_ends_the_queue() {
  Hand h({});
  h.post(Opcode::rdma_read, 600);
  CU_ASSERT(h.next_is(Op::read_request, from_adapter));
  h.send(Op::read_first, from_adapter, mtu);
  h.send(Op::read_middle, from_adapter + 1, 100);
  (void)h.next();
  const std::optional<Completion> c = h.completion();
  CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::req_err && c->syndrome == Syndrome::bad_resp);
}

void no_more_reads_are_under_way_than_the_peer_takes() {
  Hand h({.timeout = 0, .reads = 2});
  for (int i = 0; i < 3; i++) h.post(Opcode::rdma_read, 8);
  CU_ASSERT(h.next_is(Op::read_request, from_adapter));
  CU_ASSERT(h.next_is(Op::read_request, from_adapter + 1));
  CU_ASSERT(!h.next().has_value());
  h.send(Op::read_only, from_adapter, 8);
  CU_ASSERT(h.next_is(Op::read_request, from_adapter + 2));
}

// The context keeps the number's logarithm.
void of_no_reads_one_is_under_way() {
  Hand h({.timeout = 0, .reads = 0});
  for (int i = 0; i < 2; i++) h.post(Opcode::rdma_read, 8);
  CU_ASSERT(h.next_is(Op::read_request, from_adapter));
  CU_ASSERT(!h.next().has_value());
  h.send(Op::read_only, from_adapter, 8);
  CU_ASSERT(h.next_is(Op::read_request, from_adapter + 1));
}

void a_fenced_request_waits_for_the_read_before_it() {
  Hand h({.timeout = 0});
  h.post(Opcode::rdma_read, 8);
  h.post(Opcode::rdma_write, 8, prm::ctrl::fence);
  CU_ASSERT(h.next_is(Op::read_request, from_adapter));
  CU_ASSERT(!h.next().has_value());
  h.send(Op::read_only, from_adapter, 8);
  CU_ASSERT(h.next_is(Op::write_only, from_adapter + 1));
}

void a_dead_peer_is_tried_as_often_as_asked() {
  Hand h({.timeout = 1, .retry_cnt = 3});
  h.post(Opcode::rdma_write, 8);
  int sent = 0;
  std::optional<Completion> c;
  for (int i = 0; i < 100'000 && !c.has_value(); i++) {
    while (h.next_is(Op::write_only, from_adapter)) sent++;
    c = h.completion();
    if (!c.has_value()) ::usleep(20);
  }
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::transport_retry_exc);
  EQUAL(sent, 1 + 3);
}

// What a queue's user finds in the completion queue when it is told of the last WQE.
class LastWqe : public EventSink {
 public:
  void completion(void*) noexcept override {}
  void async(uint32_t type, void*) noexcept override {
    if (type != wq::event::last_wqe_reached) return;
    told++;
    found = cq->poll();
  }
  TestCq* cq = nullptr;
  int told = 0;
  std::optional<Completion> found;
};

// The first packet of a message has come and has taken a receive WQE of a shared queue.
struct HalfMessage {
  HalfMessage() : shared(h.adapter()) {
    user.cq = &shared.cq;
    h.use(shared, user);
    shared.recv(h.at(0), mtu + 10, h.lkey());
    h.send(Op::send_first, to_adapter, mtu);
    CU_ASSERT(h.next_is(Op::acknowledge, to_adapter));
    CU_ASSERT(!shared.cq.poll().has_value());
  }
  // Whether this is all that the receive WQE completes with.
  bool ended(const std::optional<Completion>& c, Syndrome with) {
    (void)h.next();
    return c.has_value() && c->op == prm::CqeOpcode::resp_err && c->index == 0 &&
           c->syndrome == with && !shared.cq.poll().has_value();
  }
  Hand h{LinkShape{}};
  SharedQueue shared;
  LastWqe user;
};

void a_shared_receive_completes_before_the_last_wqe_is_told() {
  {
    HalfMessage m;
    EQUAL(m.h.adapter().to_state(m.h.queue(), QpState::err), 0);
    CU_ASSERT(m.ended(m.user.found, Syndrome::wr_flush));
    EQUAL(m.user.told, 1);
  }
  {
    HalfMessage m;
    m.h.send(Op::write_middle, to_adapter + 1, mtu);
    (void)m.h.next();
    CU_ASSERT(m.ended(m.user.found, Syndrome::wr_flush));
    EQUAL(m.user.told, 1);
  }
  HalfMessage m;
  m.h.send(Op::send_middle, to_adapter + 1, mtu);  // more than there is room for
  (void)m.h.next();
  CU_ASSERT(m.ended(m.user.found, Syndrome::local_length));
  EQUAL(m.user.told, 1);
}

void a_queue_that_goes_gives_its_shared_receive_back() {
  {
    HalfMessage m;
    EQUAL(m.h.adapter().to_state(m.h.queue(), QpState::reset), 0);
    CU_ASSERT(m.ended(m.shared.cq.poll(), Syndrome::wr_flush));
    EQUAL(m.user.told, 0);
  }
  HalfMessage m;
  EQUAL(hca::destroy_qp(*m.h.adapter().hca, m.h.queue().qpn), 0);
  CU_ASSERT(m.ended(m.shared.cq.poll(), Syndrome::wr_flush));
  EQUAL(m.user.told, 0);
}

constexpr kilim::test::Case cases[] = {
    {"a WRITE shorter than it said is refused", a_write_shorter_than_it_said_is_refused},
    {"a READ that comes again asks for the same", a_read_that_comes_again_asks_for_the_same},
    {"a READ again of a key that is gone is refused",
     a_read_again_of_a_key_that_is_gone_is_refused},
    {"a refused part of a READ is named", a_refused_part_of_a_read_is_named},
    {"a NAK is enough without a timer", a_nak_is_enough_without_a_timer},
    {"an answer of another length ends the queue", an_answer_of_another_length_ends_the_queue},
    {"no more READs are under way than the peer takes",
     no_more_reads_are_under_way_than_the_peer_takes},
    {"of no READs one is under way", of_no_reads_one_is_under_way},
    {"a fenced request waits for the READ before it",
     a_fenced_request_waits_for_the_read_before_it},
    {"a dead peer is tried as often as asked", a_dead_peer_is_tried_as_often_as_asked},
    {"a shared receive completes before the last WQE is told",
     a_shared_receive_completes_before_the_last_wqe_is_told},
    {"a queue that goes gives its shared receive back",
     a_queue_that_goes_gives_its_shared_receive_back},
};

}  // namespace
}  // namespace rc_packets_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(rc_packets, kilim::vhca::test::rc_packets_ut::cases)
