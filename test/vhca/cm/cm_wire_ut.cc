// SPDX-License-Identifier: BSD-3-Clause
// Connection managers of adapters: over a cable, a bad one too, within one adapter, and what queue
// pair 1 takes and leaves. Queues are brought up by what the managers agreed on.
#include <cerrno>

#include "ut.hh"
#include "vhca/cm/messages.hh"
#include "vhca/core/core_clock.hh"
#include "vhca/hca/connections.hh"
#include "vhca/transport/gsi.hh"
#include "wire_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using namespace kilim::vhca::cm;

namespace {

constexpr uint64_t service = service_id_of(PortSpace::tcp, 7471);

uint64_t now() {
  return clock_ns();
}

// A program that listens, connects and goes on by itself.
class Program : public cm::Observer {
 public:
  Program(Rig& rig, uint32_t qpn) : agent(**connection_agent(*rig.hca, 1)), qpn_(qpn) {}
  Answer on_event(const Event& e) noexcept override {
    events.push_back(e);
    AcceptRequest accept;
    accept.qpn = qpn_;
    accept.starting_psn = 0x777;
    accept.responder_resources = accept.initiator_depth = 4;
    if (e.kind == EventKind::request) done(agent.accept(e.id, accept, now()));
    if (e.kind == EventKind::response) done(agent.establish(e.id, {}, now()));
    if (e.kind == EventKind::disconnect) done(agent.answer_disconnect(e.id, {}, now()));
    if (e.kind == EventKind::sidr_request)
      done(agent.answer_resolve(e.id, {SidrStatus::success, qpn_, 0x55, {}, {}}, now()));
    return Answer::taken;
  }
  static void done(const Status& s) noexcept {
    if (!s.ok()) std::abort();
  }
  [[nodiscard]] bool heard(EventKind kind) const {
    return !events.empty() && events.back().kind == kind;
  }
  [[nodiscard]] bool is(CommId id, State state) const {
    const Result<State> s = agent.state(id);
    return s.ok() && *s == state;
  }
  Agent& agent;
  std::vector<Event> events;

 private:
  uint32_t qpn_;
};

Route route(const Mac& from, const Mac& to) {
  Route r;
  port_gid(from, 0, r.sgid);
  port_gid(to, 0, r.dgid);
  r.dmac = to;
  return r;
}

// Of an impatient program: a message that is lost goes again after three milliseconds.
ConnectRequest request_for(const Route& way, uint32_t qpn) {
  ConnectRequest r;
  r.service_id = service;
  r.route = way;
  r.qpn = qpn;
  r.starting_psn = 0x999;
  r.responder_resources = r.initiator_depth = 4;
  r.packet_life_time = 8;
  r.remote_cm_timeout = r.local_cm_timeout = 8;
  return r;
}

LinkShape shape_of(const std::string& wire = "") {
  LinkShape s;
  s.left_wire = wire;
  // A capture of one end has all.
  if (wire.find("tee:") == std::string::npos) s.right_wire = wire;
  return s;
}

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
  rc |= modify_qp(*r.hca, qp.qpn, a,
                  state | path | path_mtu | dest_qpn | rq_psn | max_dest_rd_atomic | min_rnr_timer);
  a.state = QpState::rts;
  a.sq_psn = v.sq_psn;
  a.timeout = v.timeout;
  a.retry_cnt = v.retry_count;
  a.rnr_retry = v.rnr_retry;
  a.max_rd_atomic = v.max_rd_atomic;
  return rc | modify_qp(*r.hca, qp.qpn, a,
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
  CU_ASSERT(deadline >= before + 3'000'000 && deadline <= now() + 3'000'000);
}

// In the left adapter's place is the test, which writes datagrams to queue pair 1 by hand.
class Byhand {
 public:
  explicit Byhand(bool with_agent) : w_(shape_of()) {
    if (with_agent) program_.emplace(w_.right, 1);
  }
  // The packet that such a request has; the caller changes it.
  static RocePacket packet() {
    RocePacket p;
    p.service = roce::Service::ud;
    p.op = roce::Op::send_only;
    p.dest_qpn = 1;
    p.src_qpn = 1;
    p.qkey = gsi_qkey;
    return p;
  }
  void send(const RocePacket& p, std::size_t bytes) {
    Mad m;
    write_request(m);
    send(p, m, bytes);
  }
  void send(RocePacket p, const Mad& m, std::size_t bytes = mad_bytes) {
    p.flags = roce::flags_of(p.service, *roce::op_row(static_cast<uint8_t>(p.op)));
    RocePath path;
    path.src = left_mac;
    path.dst = right_mac;
    port_gid(left_mac, 0, path.sgid);
    port_gid(right_mac, 0, path.dgid);
    std::vector<std::byte> frame(roce_overhead + bytes);
    std::copy_n(m.begin(), std::min(bytes, m.size()), frame.begin() + at(p));
    const std::size_t n = build_roce(path, p, bytes, frame);
    EQUAL(static_cast<int>(wire().send({frame.data(), n})), static_cast<int>(Wire::Sent::taken));
    while (w_.right.hca->run() != 0) {
    }
  }
  // The next frame of the adapter.
  std::optional<RocePacket> next() {
    const std::span<const std::byte> frame = wire().peek();
    if (frame.empty()) return std::nullopt;
    frame_.assign(frame.begin(), frame.end());
    wire().drop();
    RocePacket p;
    if (parse_roce(frame_, p) != RoceParse::ok) return std::nullopt;
    return p;
  }
  [[nodiscard]] uint64_t received() const { return program_->agent.counts().received; }
  [[nodiscard]] uint64_t drops() {
    return w_.right.hca->context.journal->count(Journal::Kind::frame_drop);
  }

  static void write_request(Mad& m) {
    write_req(m, {0x1234, 0, 0x99}, {7, 16, false}, request_for(route(left_mac, right_mac), 5));
  }

 private:
  static std::ptrdiff_t at(const RocePacket& p) {
    return static_cast<std::ptrdiff_t>(roce_payload_at(p.flags));
  }
  Wire& wire() { return *w_.left.hca->config.wires[0]; }
  WireRig w_;
  std::optional<Program> program_;
  std::vector<std::byte> frame_;
};

void queue_pair_1_answers_as_a_datagram_of_its_own() {
  Byhand h(true);
  h.send(Byhand::packet(), mad_bytes);
  const std::optional<RocePacket> p = h.next();
  EQUAL_FATAL(p.has_value(), true);
  CU_ASSERT(p->service == roce::Service::ud && p->op == roce::Op::send_only);
  EQUAL(p->dest_qpn, 1);
  EQUAL(p->src_qpn, 1);
  EQUAL(p->qkey, 0x80010000);
  EQUAL_FATAL(p->payload.size(), 256);
  const auto rej = message_of<RejMad>(p->payload);
  EQUAL(rej.header.attribute.host(), 0x12);
  EQUAL(rej.remote_comm_id.host(), 0x1234);
  EQUAL(rej::reason::get(rej), 8);  // nobody listens
  CU_ASSERT(p->smac == right_mac);
}

void queue_pair_1_drops_what_is_not_for_it() {
  Byhand h(true);
  RocePacket p = Byhand::packet();
  p.qkey = 0x11111111;
  h.send(p, mad_bytes);
  p = Byhand::packet();
  p.op = roce::Op::send_only_imm;
  h.send(p, mad_bytes);
  for (const std::size_t bytes : {0u, 24u, 255u, 257u, 1024u}) h.send(Byhand::packet(), bytes);
  EQUAL(h.received(), 0);
  EQUAL(h.next().has_value(), false);
  h.send(Byhand::packet(), mad_bytes);
  EQUAL(h.received(), 1);
}

// As Linux (drivers/infiniband/core/mad.c, generate_unmatched_resp(), validate_mad()).
void who_gets_or_sets_what_is_not_there_is_told_so() {
  struct Ask {
    uint8_t base, of_class, method;
    uint16_t attribute;
    bool answered;
  };
  for (const Ask& a : {Ask{1, 7, 1, 1, true},
                       {1, 7, 2, 1, true},
                       {1, 4, 1, 0x12, true},
                       {1, 3, 2, 0x35, true},
                       {1, 0x30, 1, 7, true},
                       {1, 7, 1, 0x10, false},
                       {1, 4, 3, 0x12, false},
                       {1, 4, 0x81, 0x12, false},
                       {2, 4, 1, 0x12, false},
                       {1, 1, 1, 0x10, false},
                       {1, 0x81, 1, 0x10, false}}) {
    Byhand h(true);
    Mad m;
    Byhand::write_request(m);
    m[0] = std::byte{a.base};
    m[1] = std::byte{a.of_class};
    m[3] = std::byte{a.method};
    m[5] = std::byte{0x55};
    m[16] = static_cast<std::byte>(a.attribute >> 8);
    m[17] = static_cast<std::byte>(a.attribute);
    h.send(Byhand::packet(), m);
    const std::optional<RocePacket> p = h.next();
    EQUAL_FATAL(p.has_value(), a.answered);
    if (!a.answered) continue;
    m[3] = std::byte{0x81};
    m[4] = std::byte{0};
    m[5] = std::byte{0x0c};
    EQUAL_FATAL(p->payload.size(), m.size());
    EQUAL(std::memcmp(p->payload.data(), m.data(), m.size()), 0);
    EQUAL(p->dest_qpn, 1);
  }
}

void a_port_whose_manager_nobody_asked_for_has_no_queue_pair_1() {
  Byhand h(false);
  h.send(Byhand::packet(), mad_bytes);
  EQUAL(h.drops(), 1);
  EQUAL(h.next().has_value(), false);
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
  EQUAL(connection_agent(*r.hca, 0).error().code, ENODEV);
  EQUAL(connection_agent(*r.hca, 2).error().code, ENODEV);
  EQUAL(r.hca->connections == nullptr, true);
  CU_ASSERT(*connection_agent(*r.hca, 1) == *connection_agent(*r.hca, 1));
  RigShape s;
  s.connect = false;
  s.profile.lid = 1;
  Rig infiniband(s);
  EQUAL(connection_agent(*infiniband.hca, 1).error().code, EOPNOTSUPP);
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
    {"queue pair 1 answers as a datagram of its own",
     queue_pair_1_answers_as_a_datagram_of_its_own},
    {"queue pair 1 drops what is not for it", queue_pair_1_drops_what_is_not_for_it},
    {"who gets or sets what is not there is told so",
     who_gets_or_sets_what_is_not_there_is_told_so},
    {"a port whose manager nobody asked for has no queue pair 1",
     a_port_whose_manager_nobody_asked_for_has_no_queue_pair_1},
    {"a dead adapter keeps its managers still", a_dead_adapter_keeps_its_managers_still},
    {"each message goes to a capture", each_message_goes_to_a_capture},
    {"only ports that speak RoCE have a manager", only_ports_that_speak_roce_have_a_manager},
};

}  // namespace

KILIM_UT_MAIN("cm_wire", cases)
