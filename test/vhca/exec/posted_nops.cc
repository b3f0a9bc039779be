// SPDX-License-Identifier: BSD-3-Clause
// NOPs behind a request have been read when its completion shows, on each way that a request takes.
// Part of order_failures_ut.
#include "order_fixture.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::test {
namespace posted_nops_ut {
namespace {

// As soon as the request has completed, other bytes stand where the NOPs were: those of a lap
// later.
void nops_have_been_read(OrderRig& r, const Wqe& request) {
  TestQp& qp = r.rig().a;
  const uint16_t first = qp.pi;
  r.put(request);
  for (int i = 0; i < 3; i++) r.put(Wqe(Opcode::nop).quiet());
  qp.ring(r.rig().uar);
  std::optional<Completion> c;
  for (int i = 0; i < 10'000 && !c; i++) {
    // One request a turn: whoever reads no further has not read the NOPs.
    (void)r.rig().hca->run(1);
    if (&r.peer() != &r.rig()) (void)r.peer().hca->run(1);
    c = r.rig().cq_a.poll();
  }
  CU_ASSERT_FATAL(c.has_value());
  const auto behind = static_cast<uint16_t>(qp.pi - 3);
  for (uint16_t i = behind; i != qp.pi; i++)
    std::memset(qp.sq.data() + std::size_t{i % qp.shape.sq_wqebbs} * 64, 0xee, 64);
  EQUAL(r.settle().size(), 0);
  EQUAL(c->op, CqeOpcode::req);
  EQUAL(c->index, first);
  EQUAL(r.rig().state(qp), QpState::rts);
  EQUAL(r.rig().hca->qps.at(qp.qpn.value())->sq.ci, qp.pi);
}

Wqe with_event(Wqe w) {
  w.flags = prm::ctrl::cq_update_and_event;
  return w;
}

void each_way_reads_them(const char* order, Way way, bool general) {
  Wqe (*const requests[])(OrderRig&) = {
      [](OrderRig& r) { return r.write(); },
      [](OrderRig& r) { return with_event(r.write()); },
      [](OrderRig& r) { return r.read(); },
      [](OrderRig& r) { return r.add(1); },
      [](OrderRig& r) {
        return Wqe(Opcode::rdma_write)
            .raddr(r.far().at(0), r.rkey)
            .data(r.memory().at(0), 64, r.lkey);
      },
      [](OrderRig& r) {
        return Wqe(Opcode::atomic_cs)
            .raddr(r.far().at(0), r.rkey)
            .atomic(1, 0)
            .data(r.memory().at(0), 8, r.lkey);
      },
      [](OrderRig& r) {
        const uint32_t theirs = r.peer().reg(r.far(), rw_access).lkey.value();
        r.peer_qp().recv(r.far().at(half_bytes), 64, theirs);
        return Wqe(Opcode::send).data(r.memory().at(0), 64, r.lkey);
      },
      [](OrderRig& r) { return r.bind('b'); },
      [](OrderRig& r) { return Wqe(Opcode::local_inval, r.key); },
      [](OrderRig&) { return Wqe(Opcode::nop); },
  };
  for (const auto make : requests) {
    OrderRig r(order_of(order), way);
    r.rig().hca->straight = !general;
    nops_have_been_read(r, make(r));
  }
}

void the_straight_way_reads_nops_before_it_tells() {
  each_way_reads_them("strict", Way::loopback, false);
}

void the_general_way_reads_nops_before_it_tells() {
  each_way_reads_them("strict", Way::loopback, true);
}

void the_wire_reads_nops_before_it_tells() {
  each_way_reads_them("strict", Way::wire, false);
}

void other_orders_read_nops_before_they_tell() {
  for (const char* order : {"late-umr", "late-read", "resend", "weak:3"})
    for (const Way way : ways) each_way_reads_them(order, way, false);
}

// One that completes, and one that is no NOP, are left to their turn.
void what_is_more_than_a_nop_is_not_read_early() {
  OrderRig r(order_of("strict"), Way::loopback);
  for (const Wqe& next : {Wqe(Opcode::nop), r.write().quiet()}) {
    TestQp& qp = r.rig().a;
    r.put(r.bind('b'));
    r.put(next);
    qp.ring(r.rig().uar);
    (void)r.rig().hca->run(1);
    EQUAL(r.rig().hca->qps.at(qp.qpn.value())->sq.ci, static_cast<uint16_t>(qp.pi - 1));
    (void)r.settle();
    EQUAL(r.rig().hca->qps.at(qp.qpn.value())->sq.ci, qp.pi);
  }
}

constexpr kilim::test::Case nop_cases[] = {
    {"the straight way reads NOPs behind a request before it tells",
     the_straight_way_reads_nops_before_it_tells},
    {"the general way reads NOPs behind a request before it tells",
     the_general_way_reads_nops_before_it_tells},
    {"the wire's way reads NOPs behind a request before it tells",
     the_wire_reads_nops_before_it_tells},
    {"other orders read NOPs behind a request before they tell",
     other_orders_read_nops_before_they_tell},
    {"what is more than a NOP is not read early", what_is_more_than_a_nop_is_not_read_early},
};

}  // namespace
}  // namespace posted_nops_ut

std::span<const kilim::test::Case> posted_nops_cases() {
  return posted_nops_ut::nop_cases;
}

}  // namespace kilim::vhca::test
