// SPDX-License-Identifier: BSD-3-Clause
// The RC protocol between two adapters over a good and a bad wire: data, order, patience, refusals,
// and packets that nobody should send.
#include <algorithm>
#include <random>

#include "ut.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/qp_error.hh"
#include "wire_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace {

constexpr std::size_t area = 1 << 20;

// Registered memory on both sides, filled with different patterns.
struct Sides {
  Pages near{area}, far{area};
  MrKeys near_key, far_key;
  explicit Sides(WireRig& w)
      : near_key(w.left.reg(near, rw_access)), far_key(w.right.reg(far, rw_access)) {
    for (std::size_t i = 0; i < area; i++) {
      near.data()[i] = static_cast<std::byte>(i * 7 + (i >> 8));
      far.data()[i] = static_cast<std::byte>(i * 13 + (i >> 9) + 1);
    }
  }
  [[nodiscard]] bool same(std::size_t near_at, std::size_t far_at, std::size_t n) const {
    return std::memcmp(near.data() + near_at, far.data() + far_at, n) == 0;
  }
};

bool good(const std::optional<Completion>& c) {
  return c.has_value() && c->syndrome == Syndrome::none && c->op == prm::CqeOpcode::req;
}
bool bad(const std::optional<Completion>& c, Syndrome s) {
  return c.has_value() && c->op == prm::CqeOpcode::req_err && c->syndrome == s;
}

// A segment of length 0 would mean 2 GiB: a message without bytes has none.
Wqe with_data(Wqe w, const Sides& s, std::size_t at, uint32_t bytes) {
  return bytes == 0 ? w : w.data(s.near.at(at), bytes, s.near_key.lkey.value());
}
Wqe rdma(Opcode op, const Sides& s, std::size_t at, uint32_t bytes, uint32_t imm = 0) {
  return with_data(Wqe(op, imm).raddr(s.far.at(at), s.far_key.rkey.value()), s, at, bytes);
}

constexpr uint32_t lengths[] = {0, 1, 255, 256, 1024, 1025, 4096, 70000};

void writes_and_reads_of_every_length_and_mtu_arrive() {
  for (uint8_t mtu = 1; mtu <= 5; mtu++) {
    WireRig w({.mtu = mtu});
    Sides s(w);
    std::size_t at = 3;
    for (uint32_t n : lengths) {
      CU_ASSERT(good(w.post(rdma(Opcode::rdma_write, s, at, n))) && s.same(at, at, n));
      at += n + 1;
      CU_ASSERT(n == 0 || !s.same(at, at, n));
      std::optional<Completion> c = w.post(rdma(Opcode::rdma_read, s, at, n));
      CU_ASSERT(good(c) && c->bytes == n && s.same(at, at, n));
      at += n + 1;
    }
  }
}

void sends_fill_receives_with_immediate_key_and_solicited_event() {
  for (uint8_t mtu : {uint8_t{1}, uint8_t{5}}) {
    WireRig w({.mtu = mtu});
    Sides s(w);
    for (uint32_t n : lengths) {
      w.right.a.recv(s.far.at(0), 100'000, s.far_key.lkey.value());
      Wqe send = with_data(Wqe(Opcode::send_imm, 0x1234567), s, 9, n);
      CU_ASSERT(good(w.post(send.solicited())) && s.same(9, 0, n));
      std::optional<Completion> c = w.wait(w.right.cq_a);
      CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::resp_send_imm);
      CU_ASSERT(c->bytes == n && c->imm == 0x1234567 && c->solicited);
      EQUAL(c->rqpn, w.left.a.qpn.value());
      w.right.a.recv(s.far.at(0), 8, s.far_key.lkey.value());
      CU_ASSERT(good(w.post(rdma(Opcode::rdma_write_imm, s, 200'000, n, 77))));
      c = w.wait(w.right.cq_a);
      CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::resp_wr_imm && !c->solicited);
      CU_ASSERT(c->bytes == n && c->imm == 77 && s.same(200'000, 200'000, n));
    }
  }
}

void atomics_change_the_far_word_and_answer_with_the_old_one() {
  WireRig w;
  Sides s(w);
  auto* word = reinterpret_cast<uint64_t*>(s.far.data() + 64);
  auto* got = reinterpret_cast<uint64_t*>(s.near.data() + 128);
  auto wqe = [&](Opcode op, uint64_t swap_add, uint64_t compare) {
    return Wqe(op)
        .raddr(s.far.at(64), s.far_key.rkey.value())
        .atomic(swap_add, compare)
        .data(s.near.at(128), 8, s.near_key.lkey.value());
  };
  *word = 40;
  CU_ASSERT(good(w.post(wqe(Opcode::atomic_fa, 2, 0))) && *word == 42);
  EQUAL(*got, 40);
  CU_ASSERT(good(w.post(wqe(Opcode::atomic_cs, 7, 42))) && *word == 7);
  CU_ASSERT(good(w.post(wqe(Opcode::atomic_cs, 9, 42))) && *word == 7);
}

void a_deep_queue_completes_in_order() {
  WireRig w({.reads = 3, .queue = {.sq_wqebbs = 256, .rq_wqes = 256}});
  Sides s(w);
  for (uint32_t i = 0; i < 200; i++) {
    Opcode op = i % 3 == 0 ? Opcode::rdma_read : Opcode::rdma_write;
    w.left.a.put(i % 7 == 0 ? Wqe(Opcode::nop) : rdma(op, s, i * 4096, 3000));
  }
  w.left.a.ring(w.left.uar);
  uint16_t before = 0;
  for (uint32_t i = 0; i < 200; i++) {
    std::optional<Completion> c = w.wait(w.left.cq_a);
    CU_ASSERT_FATAL(good(c));
    CU_ASSERT(i == 0 || c->index == static_cast<uint16_t>(before + 1));
    before = c->index;
    CU_ASSERT(i % 7 == 0 || s.same(i * 4096, i * 4096, 3000));
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
  uint64_t added = 0;
  std::mt19937 rng(5);
  for (int i = 0; i < 300; i++) {
    auto n = static_cast<uint32_t>(rng() % 3000);
    std::size_t at = 4096 + rng() % (area - 8192);
    for (std::size_t k = 0; k < n; k++) s.near.data()[at + k] = static_cast<std::byte>(rng());
    switch (rng() % 4) {
      case 0:
        CU_ASSERT_FATAL(good(w.post(rdma(Opcode::rdma_write, s, at, n))));
        CU_ASSERT(s.same(at, at, n));
        break;
      case 1:
        CU_ASSERT_FATAL(good(w.post(rdma(Opcode::rdma_read, s, at, n))));
        CU_ASSERT(s.same(at, at, n));
        break;
      case 2:
        w.right.a.recv(s.far.at(at), n + 1, s.far_key.lkey.value());
        CU_ASSERT_FATAL(good(w.post(with_data(Wqe(Opcode::send), s, at, n))));
        CU_ASSERT(s.same(at, at, n) && w.right.cq_a.poll().has_value());
        CU_ASSERT(!w.right.cq_a.poll().has_value());
        break;
      default:
        CU_ASSERT_FATAL(good(w.post(Wqe(Opcode::atomic_fa)
                                        .raddr(s.far.at(0), s.far_key.rkey.value())
                                        .atomic(3, 0)
                                        .data(s.near.at(0), 8, s.near_key.lkey.value()))));
        EQUAL(*word, added += 3);
        break;
    }
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
  CU_ASSERT(good(w.wait(w.left.cq_a)) && s.same(0, 0, 5000));
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

void what_the_responder_refuses_fails_at_both_ends() {
  struct Row {
    Syndrome there;
    uint32_t event;
    uint32_t access;
    std::size_t at;
    Opcode op;
  };
  const Row rows[] = {
      {Syndrome::remote_access, event::qp_access_err, Rig::all_access, area, Opcode::rdma_write},
      {Syndrome::remote_access, event::qp_access_err, Rig::all_access, area, Opcode::rdma_read},
      {Syndrome::remote_inval_req, event::qp_req_err, 0, 0, Opcode::rdma_write},
      {Syndrome::remote_inval_req, event::qp_req_err, 0, 0, Opcode::rdma_read},
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
  WireRig w;
  Sides s(w);
  w.right.a.recv(s.far.at(0), 1999, s.far_key.lkey.value());
  CU_ASSERT(bad(w.post(Wqe(Opcode::send).data(s.near.at(0), 2000, s.near_key.lkey.value())),
                Syndrome::remote_inval_req));
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
}

void the_queues_own_mistakes_fail_here_behind_what_is_under_way() {
  WireRig w;
  Sides s(w);
  w.left.a.put(rdma(Opcode::rdma_read, s, 0, 50'000));
  w.left.a.put(Wqe(Opcode::rdma_write).raddr(s.far.at(0), 1).data(s.near.at(area), 9, 1));
  w.left.a.ring(w.left.uar);
  CU_ASSERT(good(w.wait(w.left.cq_a)) && s.same(0, 0, 50'000));
  CU_ASSERT(bad(w.wait(w.left.cq_a), Syndrome::local_prot));
  EQUAL(w.right.state(w.right.a), QpState::rts);
}

// READs of 100 bytes from the left, as by a requester that is made by hand.
void ask(WireRig& w, const Sides& s, uint32_t first, uint32_t count) {
  RocePath path{.src = left_mac, .dst = right_mac};
  port_gid(left_mac, 0, path.sgid);
  port_gid(right_mac, 0, path.dgid);
  std::vector<std::byte> frame(256);
  for (uint32_t i = first; i < first + count; i++) {
    RocePacket p;
    const auto* row =
        std::find_if(std::begin(roce::op_rows), std::end(roce::op_rows),
                     [](const roce::OpRow& r) { return r.op == roce::Op::read_request; });
    p.op = row->op;
    p.flags = row->flags;
    p.dest_qpn = w.right.a.qpn.value();
    p.psn = roce::psn_add(0xfffff0, i);
    p.va = s.far.at(i * 100);
    p.rkey = s.far_key.rkey.value();
    p.length = 100;
    const std::size_t n = build_roce(path, p, 0, frame);
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
  EQUAL(modify_qp(*w.left.hca, w.left.a.qpn, attr, qp_mask::state | qp_mask::en_sqd_async), 0);
  EQUAL(w.left.events.of(event::sq_drained), 0);
  CU_ASSERT(good(w.wait(w.left.cq_a)) && s.same(0, 0, 50'000));
  EQUAL(w.left.events.of(event::sq_drained), 1);
}

// Well-formed packets of any kind and number, from the right address.
void packets_that_nobody_should_send_hurt_nobody() {
  std::mt19937 source(11);
  auto rng = [&] { return static_cast<uint32_t>(source()); };
  for (int round = 0; round < 40; round++) {
    WireRig w({.mtu = 1, .timeout = 0});
    Sides s(w);
    Wire* wire = w.left.hca->config.wires[0].get();
    std::vector<std::byte> frame(8192);
    RocePath path{.src = left_mac, .dst = right_mac};
    port_gid(left_mac, 0, path.sgid);
    port_gid(right_mac, 0, path.dgid);
    w.right.a.recv(s.far.at(0), 1000, s.far_key.lkey.value());
    w.right.a.put(Wqe(Opcode::rdma_read)
                      .raddr(s.near.at(0), s.near_key.rkey.value())
                      .data(s.far.at(0), 3000, s.far_key.lkey.value()));
    w.right.a.ring(w.right.uar);
    for (int i = 0; i < 200; i++) {
      RocePacket p;
      const roce::OpRow& row = roce::op_rows[rng() % std::size(roce::op_rows)];
      p.op = row.op;
      p.flags = row.flags;
      p.dest_qpn = w.right.a.qpn.value();
      bool answer = (row.flags & roce::flag::response) != 0;
      p.psn = roce::psn_add(answer ? 5 : 0xfffff0, rng() % 8 - 2 + static_cast<uint32_t>(i) / 8);
      p.ack_request = (rng() & 1) != 0;
      p.va = s.far.at(rng() % area);
      p.rkey = rng() % 4 != 0 ? s.far_key.rkey.value() : static_cast<uint32_t>(rng());
      p.length =
          rng() % 8 != 0 ? static_cast<uint32_t>(rng() % 2000) : static_cast<uint32_t>(rng());
      p.ack_kind = rng() % 4;
      p.ack_value = rng() % 32;
      std::size_t bytes = 0;
      if ((row.flags & roce::flag::payload) != 0) bytes = rng() % 3 != 0 ? 256 : rng() % 300;
      std::size_t n = build_roce(path, p, bytes, frame);
      wire->send({frame.data(), n});
      w.right.hca->run();
      while (!wire->peek().empty()) wire->drop();
    }
    QpState state = w.right.state(w.right.a);
    CU_ASSERT(state == QpState::rts || state == QpState::err);
  }
}

constexpr Case cases[] = {
    {"writes and reads of every length and MTU arrive",
     writes_and_reads_of_every_length_and_mtu_arrive},
    {"sends fill receives with immediate, key and solicited event",
     sends_fill_receives_with_immediate_key_and_solicited_event},
    {"atomics change the far word and answer with the old one",
     atomics_change_the_far_word_and_answer_with_the_old_one},
    {"a deep queue completes in order", a_deep_queue_completes_in_order},
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

KILIM_UT_MAIN("vhca/transport RC on a wire", cases)
