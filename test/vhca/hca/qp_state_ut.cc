// SPDX-License-Identifier: BSD-3-Clause
// States of a queue pair: every transition with its attributes, what RESET forgets, what ERR
// flushes, SQD.
#include <cstring>
#include <optional>
#include <string_view>

#include "ut.hh"
#include "vhca/wq/qp_transitions.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {
namespace qp_state_ut {
namespace {

namespace m = qp_mask;

// Rows: from; columns: to. x: allowed, with the attributes that verbs require.
//                                    RESET INIT RTR RTS SQD SQE ERR
constexpr std::string_view rc_matrix[] = {"xx.....", "xxx...x", "x..x..x", "x..xx.x",
                                          "x..xx.x", "x.....x", "x.....x"};
constexpr std::string_view raw_matrix[] = {"xx.....", "xxx...x", "x..x..x", "x..xx.x",
                                           "x..xx.x", "x..x..x", "x.....x"};

uint32_t needed(QpType type, QpState from, QpState to) {
  bool rc = type == QpType::rc;
  if (from == QpState::reset && to == QpState::init)
    return m::state | m::port | (rc ? m::pkey_index | m::access : 0);
  if (rc && from == QpState::init && to == QpState::rtr)
    return m::state | m::path | m::path_mtu | m::dest_qpn | m::rq_psn | m::max_dest_rd_atomic |
           m::min_rnr_timer;
  if (rc && from == QpState::rtr && to == QpState::rts)
    return m::state | m::timeout | m::retry_cnt | m::rnr_retry | m::sq_psn | m::max_rd_atomic;
  return m::state;
}

void check_matrix(QpType type, const std::string_view (&matrix)[7]) {
  for (int i = 0; i < 7; i++) {
    for (int j = 0; j < 7; j++) {
      auto from = static_cast<QpState>(i), to = static_cast<QpState>(j);
      bool want = matrix[i][static_cast<std::size_t>(j)] == 'x';
      uint32_t mask = needed(type, from, to);
      bool got = wq::transition_allowed(type, from, to, mask);
      if (got != want) std::printf("\n    %d -> %d\n", i, j);
      EQUAL(got, want);
      CU_ASSERT(!wq::transition_allowed(type, from, to, mask | m::cap));
      for (uint32_t bit = 2; bit != 0 && want; bit <<= 1) {
        if ((mask & bit) != 0) CU_ASSERT(!wq::transition_allowed(type, from, to, mask & ~bit));
      }
    }
  }
}

void rc_transitions_follow_the_table() {
  check_matrix(QpType::rc, rc_matrix);
  CU_ASSERT(
      wq::transition_allowed(QpType::rc, QpState::rts, QpState::rts, m::access | m::cur_state));
  CU_ASSERT(!wq::transition_allowed(QpType::rc, QpState::rts, QpState::rts, m::qkey));
  CU_ASSERT(wq::transition_allowed(QpType::ud, QpState::reset, QpState::init,
                                   m::state | m::port | m::pkey_index | m::qkey));
  CU_ASSERT(!wq::transition_allowed(QpType::ud, QpState::reset, QpState::init,
                                    m::state | m::port | m::pkey_index));
  CU_ASSERT(!wq::transition_allowed(QpType::uc, QpState::rtr, QpState::rts, m::state));
}
void raw_packet_transitions_follow_the_table() {
  check_matrix(QpType::raw_packet, raw_matrix);
  CU_ASSERT(wq::transition_allowed(QpType::raw_packet, QpState::rtr, QpState::rts,
                                   m::state | m::rate_limit));
  CU_ASSERT(!wq::transition_allowed(QpType::raw_packet, QpState::rts, QpState::rts, m::access));
}

void attributes_out_of_range_are_refused() {
  RigShape s;
  s.connect = false;
  Rig rig(s);
  QpAttr attr;
  attr.state = QpState::init;
  uint32_t mask = m::state | m::port | m::pkey_index | m::access;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), -EINVAL);  // port 0
  attr.port = 2;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), -EINVAL);
  attr.port = 1;
  attr.pkey_index = 1;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), -EINVAL);
  attr.pkey_index = 0;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), 0);
  attr.state = QpState::rtr;
  attr.path_mtu = 5;
  mask = needed(QpType::rc, QpState::init, QpState::rtr);
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), -EINVAL);  // RoCE needs a GID
  attr.path.is_global = true;
  attr.max_dest_rd_atomic = 17;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), -EINVAL);
  attr.max_dest_rd_atomic = 16;
  attr.path_mtu = 6;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), -EINVAL);
  attr.path_mtu = 5;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, mask), 0);
  EQUAL(rig.state(rig.a), QpState::rtr);
  attr.cur_state = QpState::rts;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, m::cur_state), -EINVAL);
  EQUAL(hca::modify_qp(*rig.hca, Qpn{1}, attr, mask), -EINVAL);
}

void reset_forgets_and_the_queue_comes_up_again() {
  Rig rig;
  for (int i = 0; i < 3; i++) EQUAL(rig.run_one(rig.a, Wqe(Opcode::nop)).index, i);
  EQUAL(rig.to_state(rig.a, QpState::reset), 0);
  // The record still says 3: nothing may run from it until the client has zeroed it.
  rig.a.ring(rig.uar);
  rig.run();
  CU_ASSERT(!rig.cq_a.poll());
  rig.a.pi = 0;
  rig.a.publish();
  rig.to_rts(rig.a, rig.b.qpn);
  EQUAL(rig.run_one(rig.a, Wqe(Opcode::nop)).index, 0);
}

// Both ends count from 0 again: the second round's receives are those of the first places.
void reset_forgets_what_was_received() {
  Rig rig;
  Pages mem(4096);
  const uint32_t key = rig.reg(mem, rw_access).lkey.value();
  for (int round = 0; round < 2; round++) {
    for (uint16_t i = 0; i < 3; i++) {
      rig.b.recv(mem.at(64), 8, key);
      EQUAL(rig.run_one(rig.a, Wqe(Opcode::send).data(mem.at(0), 8, key)).index, i);
      std::optional<Completion> c = rig.wait(rig.cq_b);
      CU_ASSERT(c && c->syndrome == Syndrome::none && c->index == i);
    }
    for (TestQp* qp : {&rig.a, &rig.b}) {
      EQUAL(rig.to_state(*qp, QpState::reset), 0);
      qp->pi = qp->head = 0;
      std::memset(qp->record.data(), 0, 2 * sizeof(uint32_t));
    }
    rig.to_rts(rig.a, rig.b.qpn);
    rig.to_rts(rig.b, rig.a.qpn);
  }
}

void err_flushes_both_rings_and_what_comes_later() {
  Rig rig;
  Pages mem(4096);
  uint32_t key = rig.reg(mem, rw_access).lkey.value();
  for (int i = 0; i < 3; i++) rig.a.recv(mem.at(0), 64, key);
  rig.a.put(Wqe(Opcode::nop).quiet());
  EQUAL(rig.to_state(rig.a, QpState::err), 0);
  rig.a.ring(rig.uar);
  rig.run();
  int sends = 0, recvs = 0;
  auto drain = [&] {
    while (std::optional<Completion> c = rig.cq_a.poll()) {
      EQUAL(c->syndrome, Syndrome::wr_flush);
      (c->op == prm::CqeOpcode::req_err ? sends : recvs)++;
    }
  };
  drain();
  EQUAL(sends, 1);
  EQUAL(recvs, 3);
  rig.a.recv(mem.at(0), 64, key);  // rings no doorbell
  rig.run();
  drain();
  EQUAL(recvs, 4);
  EQUAL(rig.events.count, 0);
}

void sqd_stops_and_says_so() {
  Rig rig;
  QpAttr attr;
  attr.state = QpState::sqd;
  attr.en_sqd_async_notify = 1;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, m::state | m::en_sqd_async), 0);
  EQUAL(rig.events.of(5), 1);
  rig.a.put(Wqe(Opcode::nop));
  rig.a.ring(rig.uar);
  rig.run();
  CU_ASSERT(!rig.cq_a.poll());
  EQUAL(rig.to_state(rig.a, QpState::rts), 0);
  rig.run();
  CU_ASSERT(rig.cq_a.poll().has_value());
}

// In weak order the NOP may be under way too.
void sqd_waits_for_the_request_under_way() {
  RigShape shape;
  shape.order = order_of("strict");
  Rig rig(shape);
  Pages mem(4096);
  uint32_t key = rig.reg(mem, rw_access).lkey.value();
  rig.a.put(Wqe(Opcode::send).data(mem.at(0), 8, key));
  rig.a.put(Wqe(Opcode::nop));
  rig.a.ring(rig.uar);
  rig.hca->run();  // not ready at the other end
  QpAttr attr;
  attr.state = QpState::sqd;
  attr.en_sqd_async_notify = 1;
  EQUAL(hca::modify_qp(*rig.hca, rig.a.qpn, attr, m::state | m::en_sqd_async), 0);
  CU_ASSERT(rig.events.of(5) == 0 && hca::query_qp(*rig.hca, rig.a.qpn)->sq_draining == 1);
  rig.b.recv(mem.at(64), 8, key);
  std::optional<Completion> c = rig.wait(rig.cq_a);
  CU_ASSERT_FATAL(c.has_value());
  EQUAL(c->index, 0);
  EQUAL(c->syndrome, Syndrome::none);
  CU_ASSERT_FALSE(rig.cq_a.poll().has_value());
  CU_ASSERT(rig.events.of(5) == 1 && hca::query_qp(*rig.hca, rig.a.qpn)->sq_draining == 0);
}

void a_raw_packet_queue_comes_up() {
  RigShape s;
  s.a.type = QpType::raw_packet;
  s.connect = false;
  Rig rig(s);
  EQUAL(rig.to_init(rig.a), 0);
  EQUAL(rig.to_rtr(rig.a, Qpn{0}), 0);
  EQUAL(rig.to_rts_only(rig.a), 0);
  EQUAL(rig.state(rig.a), QpState::rts);
}

const kilim::test::Case cases[] = {
    {"RC transitions follow the table", rc_transitions_follow_the_table},
    {"raw packet transitions follow the table", raw_packet_transitions_follow_the_table},
    {"attributes out of range are refused", attributes_out_of_range_are_refused},
    {"reset forgets and the queue comes up again", reset_forgets_and_the_queue_comes_up_again},
    {"reset forgets what was received", reset_forgets_what_was_received},
    {"ERR flushes both rings and what comes later", err_flushes_both_rings_and_what_comes_later},
    {"SQD stops and says so", sqd_stops_and_says_so},
    {"SQD waits for the request under way", sqd_waits_for_the_request_under_way},
    {"a raw packet queue comes up", a_raw_packet_queue_comes_up},
};

}  // namespace
}  // namespace qp_state_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(qp_state, kilim::vhca::test::qp_state_ut::cases)
