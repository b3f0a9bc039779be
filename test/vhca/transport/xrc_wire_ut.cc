// SPDX-License-Identifier: BSD-3-Clause
// XRC between two adapters: one target, several shared receive queues behind it, each message for
// the queue that it names; and what a target refuses.
#include <random>

#include "kilim/prm/av_seg.hh"
#include "shared_queue_fixture.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/qp_error.hh"
#include "wire_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace xrc_wire_ut {
namespace {

// An initiator on the left, a target on the right.
struct Xrc {
  explicit Xrc(const LinkShape& s = {.mtu = 1}, uint32_t near_psn = 0xfffffe)
      : w({.queue = {.type = QpType::ud}}),
        ini({.rq_wqes = 0, .type = QpType::xrc_ini}),
        tgt({.sq_wqebbs = 0, .rq_wqes = 0, .type = QpType::xrc_tgt}),
        xrcd(*hca::open_xrcd(*w.right.hca, {})),
        near_key(w.left.reg(near, rw_access)),
        far_key(w.right.reg(far, rw_access)) {
    QpSpec spec;
    spec.type = QpType::xrc_ini;
    spec.pd = w.left.pd;
    spec.send_cq = w.left.cq_a.cqn;
    spec.buf = ini.rings.va();
    spec.sq_buf = ini.sq.va();
    spec.record = ini.record.va();
    spec.sq_wqebbs = ini.shape.sq_wqebbs;
    spec.uar_page = w.left.uar_page;
    ini.qpn = *hca::create_qp(*w.left.hca, spec, &w.left.events);
    spec = {};
    spec.type = QpType::xrc_tgt;
    spec.xrcd = xrcd;
    tgt.qpn = *hca::create_qp(*w.right.hca, spec, &w.right.events);
    WireRig::connect(w.left, {ini, tgt.qpn, QpType::xrc_ini}, right_mac, s, near_psn, 9);
    WireRig::connect(w.right, {tgt, ini.qpn, QpType::xrc_tgt}, left_mac, s, 9, near_psn);
    for (std::size_t i = 0; i < area; i++)
      near.data()[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  }
  [[nodiscard]] Wqe wqe(Opcode op, uint32_t srqn, uint32_t imm = 0) const {
    prm::XrcSeg x{};
    x.srqn = be32{srqn};
    return Wqe(op, imm).raw(&x, sizeof(x));
  }
  [[nodiscard]] Wqe send(uint32_t srqn, std::size_t at, uint32_t n) const {
    return wqe(Opcode::send_imm, srqn, 3).data(near.at(at), n, near_key.lkey.value());
  }
  std::optional<Completion> post(const Wqe& request) {
    ini.put(request);
    ini.ring(w.left.uar);
    return w.wait(w.left.cq_a);
  }
  void recv(SharedQueue& q, std::size_t at, uint32_t n) {
    q.recv(far.at(at), n, far_key.lkey.value());
  }
  [[nodiscard]] bool same(std::size_t near_at, std::size_t far_at, std::size_t n) const {
    return std::memcmp(near.data() + near_at, far.data() + far_at, n) == 0;
  }
  WireRig w;
  TestQp ini, tgt;
  uint32_t xrcd;
  Pages near{area}, far{area};
  MrKeys near_key, far_key;
};

void each_message_goes_to_the_queue_that_it_names() {
  Xrc x;
  SharedQueue one(x.w.right, x.xrcd), two(x.w.right, x.xrcd);
  for (uint32_t i = 0; i < 6; i++) {
    SharedQueue& q = i % 2 == 0 ? one : two;
    x.recv(q, i * 10'000, 9000);
    CU_ASSERT(good(x.post(x.send(q.srqn, i * 9001, 9000 - i))));
    std::optional<Completion> c = x.w.wait(q.cq);
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->op, prm::CqeOpcode::resp_send_imm);
    EQUAL(c->bytes, 9000 - i);
    EQUAL(c->imm, 3);
    EQUAL(c->uidx, 0x77);
    CU_ASSERT(x.same(i * 9001, i * 10'000, 9000 - i));
  }
  CU_ASSERT(!one.cq.poll().has_value() && !two.cq.poll().has_value());
}

void writes_reads_and_atomics_go_by_the_named_queues_domain() {
  Xrc x;
  SharedQueue q(x.w.right, x.xrcd);
  auto with = [&](Opcode op, std::size_t at, uint32_t n) {
    return x.wqe(op, q.srqn)
        .raddr(x.far.at(at), x.far_key.rkey.value())
        .data(x.near.at(at), n, x.near_key.lkey.value());
  };
  CU_ASSERT(good(x.post(with(Opcode::rdma_write, 5, 3000))));
  CU_ASSERT(x.same(5, 5, 3000));
  x.far.data()[7] = std::byte{0x5a};
  CU_ASSERT(good(x.post(with(Opcode::rdma_read, 5, 3000))));
  CU_ASSERT(x.same(5, 5, 3000));
  EQUAL(x.near.data()[7], std::byte{0x5a});
  auto* word = reinterpret_cast<uint64_t*>(x.far.data() + 4096);
  *word = 40;
  Wqe add = x.wqe(Opcode::atomic_fa, q.srqn)
                .raddr(x.far.at(4096), x.far_key.rkey.value())
                .atomic(2, 0)
                .data(x.near.at(4096), 8, x.near_key.lkey.value());
  CU_ASSERT(good(x.post(add)));
  EQUAL(*word, 42);
}

void a_bad_wire_changes_nothing_but_the_time() {
  LinkShape s{.mtu = 1};
  Xrc x(s);
  SharedQueue q(x.w.right, x.xrcd);
  std::mt19937 rng(3);
  wire::Wire* wire = x.w.left.hca->config.wires[0].get();
  // Every seventh packet of either direction gets lost.
  wire::Wire* other = x.w.right.hca->config.wires[0].get();
  for (uint32_t i = 0; i < 60; i++) {
    auto n = static_cast<uint32_t>(rng() % 3000 + 1);
    x.recv(q, i * 3000, n);
    x.ini.put(x.send(q.srqn, i * 100, n));
    x.ini.ring(x.w.left.uar);
    x.w.left.hca->run();
    if (i % 7 == 0) other->drop();
    x.w.right.hca->run();
    if (i % 5 == 0) wire->drop();
    CU_ASSERT_FATAL(good(x.w.wait(x.w.left.cq_a)));
    std::optional<Completion> c = x.w.wait(q.cq);
    CU_ASSERT(c.has_value() && c->bytes == n);
    CU_ASSERT(x.same(i * 100, i * 3000, n));
  }
}

void a_queue_that_is_not_there_is_refused() {
  Xrc x;
  std::optional<Completion> c = x.post(x.send(0x999, 0, 10));
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::remote_inval_req);
  EQUAL(x.w.right.state(x.tgt), QpState::err);
  EQUAL(x.w.right.events.of(wq::event::qp_req_err), 1);
}

void a_queue_of_another_domain_is_refused() {
  Xrc x;
  uint32_t other = *hca::open_xrcd(*x.w.right.hca, {});
  SharedQueue q(x.w.right, other);
  std::optional<Completion> c = x.post(x.send(q.srqn, 0, 10));
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::remote_inval_req);
}

void a_receiver_that_is_late_is_waited_for() {
  Xrc x;
  SharedQueue q(x.w.right, x.xrcd);
  x.ini.put(x.send(q.srqn, 0, 1000));
  x.ini.ring(x.w.left.uar);
  for (int i = 0; i < 100; i++) {
    x.w.left.hca->run();
    x.w.right.hca->run();
  }
  CU_ASSERT(!x.w.left.cq_a.poll().has_value());
  x.recv(q, 0, 1000);
  CU_ASSERT(good(x.w.wait(x.w.left.cq_a)));
  CU_ASSERT(x.same(0, 0, 1000));
}

// The first packet of a message, from the initiator's address.
void send_frame(Xrc& x, transport::roce::Op op, uint32_t psn, uint32_t srqn) {
  transport::RocePath path{.src = left_mac, .dst = right_mac};
  port_gid(left_mac, 0, path.sgid);
  port_gid(right_mac, 0, path.dgid);
  transport::RocePacket p;
  p.service = transport::roce::Service::xrc;
  p.op = op;
  p.flags =
      transport::roce::flags_of(p.service, *transport::roce::op_row(static_cast<uint8_t>(op)));
  p.dest_qpn = x.tgt.qpn.value();
  p.psn = psn;
  p.srqn = srqn;
  std::vector<std::byte> frame(4096);
  std::size_t n = transport::build_roce(path, p, 256, frame);
  x.w.left.hca->config.wires[0]->send({frame.data(), n});
  x.w.right.hca->run();
}

void a_message_keeps_to_its_queue() {
  Xrc x({.mtu = 1}, 100);
  SharedQueue one(x.w.right, x.xrcd), two(x.w.right, x.xrcd);
  x.recv(one, 0, 5000);
  send_frame(x, transport::roce::Op::send_first, 100, one.srqn);
  send_frame(x, transport::roce::Op::send_middle, 101, two.srqn);
  EQUAL(x.w.right.state(x.tgt), QpState::err);
  x.w.right.hca->run();
  std::optional<Completion> c = one.cq.poll();
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::wr_flush);
  CU_ASSERT(!two.cq.poll().has_value());
}

void a_queue_may_go_in_the_middle_of_a_message() {
  Xrc x({.mtu = 1}, 100);
  SharedQueue one(x.w.right, x.xrcd);
  x.recv(one, 0, 5000);
  send_frame(x, transport::roce::Op::send_first, 100, one.srqn);
  EQUAL(one.destroy(), 0);
  send_frame(x, transport::roce::Op::send_last, 101, one.srqn);
  EQUAL(x.w.right.state(x.tgt), QpState::err);
  for (int i = 0; i < 10; i++) x.w.right.hca->run();
  CU_ASSERT(!one.cq.poll().has_value());
}

constexpr Case cases[] = {
    {"each message goes to the queue that it names", each_message_goes_to_the_queue_that_it_names},
    {"writes, reads and atomics go by the named queue's domain",
     writes_reads_and_atomics_go_by_the_named_queues_domain},
    {"a bad wire changes nothing but the time", a_bad_wire_changes_nothing_but_the_time},
    {"a queue that is not there is refused", a_queue_that_is_not_there_is_refused},
    {"a queue of another domain is refused", a_queue_of_another_domain_is_refused},
    {"a receiver that is late is waited for", a_receiver_that_is_late_is_waited_for},
    {"a message keeps to its queue", a_message_keeps_to_its_queue},
    {"a queue may go in the middle of a message", a_queue_may_go_in_the_middle_of_a_message},
};

}  // namespace
}  // namespace xrc_wire_ut

KILIM_TEST_SUITE(xrc_wire, xrc_wire_ut::cases)
