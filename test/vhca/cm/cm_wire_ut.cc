// SPDX-License-Identifier: BSD-3-Clause
// Connection managers of adapters: over a cable, a bad one too, within one adapter. Queues are
// brought up by what the managers agreed on.
#include <cerrno>

#include "case_tables.hh"
#include "cm_wire_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using namespace kilim::vhca::cm;

namespace cm_wire_ut {
namespace {

// Two adapters on a cable whose programs are about to connect.
struct Pair {
  explicit Pair(const std::string& wire = "")
      : w(shape_of(wire)),
        left(w.left, w.left.b.qpn.value()),
        right(w.right, w.right.b.qpn.value()) {
    Program::done(right.agent.listen(service, right, 9));
  }
  CommId connect() {
    return *left.agent.connect(request_for(route(left_mac, right_mac), w.left.b.qpn.value()), left,
                               8, now());
  }
  // Until `ready`, or five seconds are over.
  template <typename F>
  bool wait(F&& ready) {
    for (const uint64_t end = now() + 5'000'000'000; now() < end;) {
      if (w.left.hca->run() + w.right.hca->run() == 0) ::usleep(50);
      if (ready()) return true;
    }
    return false;
  }
  WireRig w;
  Program left, right;
};

// Brings a queue to RTS as a program does by rdma_init_qp_attr().
int bring_up(Rig& r, TestQp& qp, const Agent& agent, CommId id) {
  const QpValues v = *agent.qp_values(id, QpStep::rts);
  int rc = r.to_init(qp);
  QpAttr a;
  a.state = QpState::rtr;
  a.path_mtu = v.path_mtu;
  a.dest_qpn = Qpn{v.dest_qpn};
  a.rq_psn = v.rq_psn;
  a.max_dest_rd_atomic = v.max_dest_rd_atomic;
  a.min_rnr_timer = 1;
  a.path.is_global = true;
  a.path.port = 1;
  a.path.dgid = v.route.dgid;
  a.path.dmac = v.route.dmac;
  using namespace qp_mask;
  rc |= hca::modify_qp(
      *r.hca, qp.qpn, a,
      state | path | path_mtu | dest_qpn | rq_psn | max_dest_rd_atomic | min_rnr_timer);
  a.state = QpState::rts;
  a.sq_psn = v.sq_psn;
  a.timeout = v.timeout;
  a.retry_cnt = v.retry_count;
  a.rnr_retry = v.rnr_retry;
  a.max_rd_atomic = v.max_rd_atomic;
  return rc | hca::modify_qp(*r.hca, qp.qpn, a,
                             state | sq_psn | timeout | retry_cnt | rnr_retry | max_rd_atomic);
}

void queues_are_connected_by_what_was_agreed_on() {
  Pair p;
  const CommId id = p.connect();
  EQUAL_FATAL(p.wait([&] { return p.right.heard(EventKind::established); }), true);
  const CommId peer = p.right.events[0].id;
  CU_ASSERT(p.right.events[0].route.dmac == left_mac);
  EQUAL_FATAL(bring_up(p.w.left, p.w.left.b, p.left.agent, id), 0);
  EQUAL_FATAL(bring_up(p.w.right, p.w.right.b, p.right.agent, peer), 0);
  Pages from(4096), to(4096);
  const MrKeys a = p.w.left.reg(from, rw_access), b = p.w.right.reg(to, rw_access);
  from.data()[17] = std::byte{0x5a};
  p.w.right.b.recv(to.at(0), 4096, b.lkey.value());
  p.w.left.b.put(Wqe(Opcode::send).data(from.at(0), 64, a.lkey.value()));
  p.w.left.b.ring(p.w.left.uar);
  const std::optional<Completion> c = p.w.wait(p.w.right.cq_b);
  EQUAL_FATAL(c.has_value(), true);
  EQUAL(c->bytes, 64);
  EQUAL(static_cast<int>(to.data()[17]), 0x5a);
  Program::done(p.left.agent.disconnect(id, {}, now()));
  CU_ASSERT(p.wait([&] { return p.left.heard(EventKind::timewait_over); }));
}

void connections_come_and_go_over_a_bad_cable() {
  Pair p("+fault:drop:0.2:dup:0.1:reorder:0.1:corrupt:0.1:seed:5");
  for (int i = 0; i < 20; i++) {
    const CommId id = p.connect();
    EQUAL_FATAL(p.wait([&] { return p.right.heard(EventKind::established); }), true);
    const CommId peer = p.right.events.back().id;
    Program::done(p.left.agent.disconnect(id, {}, now()));
    const auto over = [](const Program& who, CommId which) {
      return who.is(which, State::timewait) || who.is(which, State::idle);
    };
    EQUAL_FATAL(p.wait([&] { return over(p.left, id) && over(p.right, peer); }), true);
    p.left.agent.destroy(id, now());
    p.right.agent.destroy(peer, now());
  }
  EQUAL(p.left.agent.ids() + p.right.agent.ids(), 0);
  CU_ASSERT(p.left.agent.counts().retries + p.right.agent.counts().retries > 0);
}

void an_adapter_connects_to_itself_without_a_wire() {
  RigShape s;
  s.connect = false;
  Rig r(s);
  Program p(r, r.b.qpn.value());
  Program::done(p.agent.listen(service, p, 9));
  const CommId id =
      *p.agent.connect(request_for(route(test_mac, test_mac), r.a.qpn.value()), p, 8, now());
  std::vector<int> fds;
  uint64_t deadline = 0;
  r.hca->wait_set(fds, deadline);
  EQUAL(deadline, 0);
  EQUAL(r.hca->idle(), false);
  while (r.hca->run() != 0) {
  }
  EQUAL(p.is(id, State::established), true);
  EQUAL(p.events.size(), 3);
  EQUAL(r.hca->idle(), false);  // it has timers to look at
}

void a_service_is_resolved_over_a_cable() {
  Pair p;
  ResolveRequest r;
  r.service_id = service;
  r.route = route(left_mac, right_mac);
  const CommId id = *p.left.agent.resolve(r, p.left, 8, now());
  EQUAL_FATAL(p.wait([&] { return p.left.heard(EventKind::sidr_answer); }), true);
  CU_ASSERT(p.left.events[0].id == id);
  EQUAL(p.left.events[0].remote_qpn, p.w.right.b.qpn.value());
  EQUAL(p.left.events[0].remote_qkey, 0x55);
}

// The engine sleeps until the next message has to go again, and no longer.
void the_engine_wakes_for_the_managers_timers() {
  Pair p;
  const uint64_t before = now();
  p.connect();
  p.w.left.hca->run();
  std::vector<int> fds;
  uint64_t deadline = 0;
  p.w.left.hca->wait_set(fds, deadline);
  CU_ASSERT(deadline >= before + 3'000'000);
  CU_ASSERT(deadline <= now() + 3'000'000);
}

void a_dead_adapter_keeps_its_managers_still() {
  Pair p;
  p.connect();
  p.w.left.hca->context.dead = true;
  std::vector<int> fds;
  uint64_t deadline = 0;
  p.w.left.hca->wait_set(fds, deadline);
  const uint64_t sent = p.left.agent.counts().sent;
  ::usleep(10'000);
  p.w.left.hca->run();
  EQUAL(p.left.agent.counts().sent, sent);
}

void only_ports_that_speak_roce_have_a_manager() {
  Rig r;
  EQUAL(hca::connection_agent(*r.hca, 0).error().code, ENODEV);
  EQUAL(hca::connection_agent(*r.hca, 2).error().code, ENODEV);
  EQUAL(r.hca->connections == nullptr, true);
  CU_ASSERT(*hca::connection_agent(*r.hca, 1) == *hca::connection_agent(*r.hca, 1));
  RigShape s;
  s.connect = false;
  s.profile.lid = 1;
  Rig infiniband(s);
  EQUAL(hca::connection_agent(*infiniband.hca, 1).error().code, EOPNOTSUPP);
}

// One of each message that a manager sends, for dissect.py, which says where to: else nothing.
void each_message_goes_to_a_capture() {
  const char* file = std::getenv("KILIM_CM_CAPTURE");
  if (file == nullptr) return;
  Pair p(std::string("+tee:") + file);
  ConnectRequest r = request_for(route(left_mac, right_mac), 0x4321);
  r.ip = IpHeader{};
  r.ip->source_port = 0x1234;
  r.ip->source[12] = r.ip->destination[12] = 10;
  r.ip->source[15] = 1;
  r.ip->destination[15] = 2;
  const CommId id = *p.left.agent.connect(r, p.left, 8, now());
  CU_ASSERT(p.wait([&] { return p.right.heard(EventKind::established); }));
  Program::done(p.left.agent.disconnect(id, {}, now()));
  CU_ASSERT(p.wait([&] { return p.left.heard(EventKind::disconnected); }));
  ResolveRequest s;
  s.service_id = service;
  s.route = route(left_mac, right_mac);
  CU_ASSERT(p.left.agent.resolve(s, p.left, 8, now()).ok());
  CU_ASSERT(p.wait([&] { return p.left.heard(EventKind::sidr_answer); }));
  r.service_id++;
  CU_ASSERT(p.left.agent.connect(r, p.left, 8, now()).ok());
  CU_ASSERT(p.wait([&] { return p.left.heard(EventKind::rejected); }));
}

constexpr Case cases[] = {
    {"queues are connected by what was agreed on", queues_are_connected_by_what_was_agreed_on},
    {"connections come and go over a bad cable", connections_come_and_go_over_a_bad_cable},
    {"an adapter connects to itself without a wire", an_adapter_connects_to_itself_without_a_wire},
    {"a service is resolved over a cable", a_service_is_resolved_over_a_cable},
    {"the engine wakes for the managers' timers", the_engine_wakes_for_the_managers_timers},
    {"a dead adapter keeps its managers still", a_dead_adapter_keeps_its_managers_still},
    {"each message goes to a capture", each_message_goes_to_a_capture},
    {"only ports that speak RoCE have a manager", only_ports_that_speak_roce_have_a_manager},
};

}  // namespace
}  // namespace cm_wire_ut

KILIM_TEST_MAIN(cm_wire) {
  return kilim::test::run_tables("cm_wire", {cm_wire_ut::cases, queue_pair_1_cases()}, argc, argv);
}
