// SPDX-License-Identifier: BSD-3-Clause
// Every opcode of an RC queue between two queues of one adapter, data compared byte for byte, rings
// wrapping, both sizes of CQE.
#include <random>

#include "case_tables.hh"
#include "rc_loopback_fixture.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::test {
namespace rc_loopback_ut {
namespace {

void send_arrives_with_its_immediate() {
  Bench t;
  t.rig.b.recv(t.dst.at(0), 4096, t.kd.lkey.value());
  Completion c = t.rig.run_one(
      t.rig.a,
      Wqe(Opcode::send_imm, 0xcafe).data(t.src.at(3), 1000, t.ks.lkey.value()).solicited());
  EQUAL(c.op, CqeOpcode::req);
  EQUAL(c.wqe_opcode, 0x0b);
  EQUAL(c.uidx, 0xa);
  std::optional<Completion> r = t.rig.cq_b.poll();
  CU_ASSERT_FATAL(r.has_value());
  EQUAL(r->op, CqeOpcode::resp_send_imm);
  EQUAL(r->bytes, 1000);
  EQUAL(r->imm, 0xcafe);
  EQUAL(r->uidx, 0xb);
  EQUAL(r->rqpn, t.rig.a.qpn.value());
  CU_ASSERT(r->solicited);
  EQUAL(r->qpn, t.rig.b.qpn.value());
  EQUAL(r->index, 0);
  CU_ASSERT(same(t.dst.data(), t.src.data() + 3, 1000));
  EQUAL(t.dst.data()[1000], std::byte{0});
}

void send_scatters_over_segments() {
  Bench t;
  std::array<std::array<uint64_t, 3>, 3> segs = {{{t.dst.at(1), 7, t.kd.lkey.value()},
                                                  {t.dst.at(100), 50, t.kd.lkey.value()},
                                                  {t.dst.at(500), 500, t.kd.lkey.value()}}};
  t.rig.b.recv(segs);
  Wqe w(Opcode::send);
  w.data(t.src.at(0), 40, t.ks.lkey.value()).data(t.src.at(1000), 60, t.ks.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).op, CqeOpcode::req);
  EQUAL(t.rig.cq_b.poll()->bytes, 100);
  std::vector<std::byte> want(t.src.data(), t.src.data() + 40);
  want.insert(want.end(), t.src.data() + 1000, t.src.data() + 1060);
  CU_ASSERT(same(t.dst.data() + 1, want.data(), 7));
  CU_ASSERT(same(t.dst.data() + 100, want.data() + 7, 50));
  CU_ASSERT(same(t.dst.data() + 500, want.data() + 57, 43));
  EQUAL(t.dst.data()[543], std::byte{0});
}

void inline_data_needs_no_key() {
  Bench t;
  t.rig.b.recv(t.dst.at(0), 64, t.kd.lkey.value());
  std::array<std::byte, 37> text;
  text.fill(std::byte{0x77});
  EQUAL(t.rig.run_one(t.rig.a, Wqe(Opcode::send).inlined(text)).op, CqeOpcode::req);
  EQUAL(t.rig.cq_b.poll()->bytes, 37);
  CU_ASSERT(same(t.dst.data(), text.data(), 37));
  Wqe w(Opcode::rdma_write);
  w.raddr(t.dst.at(777), t.kd.rkey.value()).inlined(text);
  EQUAL(t.rig.run_one(t.rig.a, w).op, CqeOpcode::req);
  CU_ASSERT(same(t.dst.data() + 777, text.data(), 37));
}

void write_and_read_move_data() {
  Bench t;
  for (uint32_t n : {1u, 8u, 63u, 64u, 4096u, 65000u}) {
    fill(t.src, n);
    Wqe w(Opcode::rdma_write);
    w.raddr(t.dst.at(5), t.kd.rkey.value()).data(t.src.at(9), n, t.ks.lkey.value());
    EQUAL(t.rig.run_one(t.rig.a, w).op, CqeOpcode::req);
    CU_ASSERT(same(t.dst.data() + 5, t.src.data() + 9, n));
    fill(t.dst, n + 1);
    Wqe r(Opcode::rdma_read);
    r.raddr(t.dst.at(11), t.kd.rkey.value()).data(t.src.at(2), n, t.ks.lkey.value());
    Completion c = t.rig.run_one(t.rig.a, r);
    EQUAL(c.op, CqeOpcode::req);
    EQUAL(c.bytes, n);
    EQUAL(c.wqe_opcode, 0x10);
    CU_ASSERT(same(t.src.data() + 2, t.dst.data() + 11, n));
  }
}

void write_with_immediate_uses_a_receive_wqe() {
  Bench t;
  t.rig.b.recv(t.dst.at(40000), 16, t.kd.lkey.value());
  Wqe w(Opcode::rdma_write_imm, 99);
  w.raddr(t.dst.at(0), t.kd.rkey.value()).data(t.src.at(0), 128, t.ks.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).op, CqeOpcode::req);
  std::optional<Completion> r = t.rig.cq_b.poll();
  CU_ASSERT_FATAL(r.has_value());
  EQUAL(r->op, CqeOpcode::resp_wr_imm);
  EQUAL(r->imm, 99);
  EQUAL(r->bytes, 128);
  CU_ASSERT(same(t.dst.data(), t.src.data(), 128));
  EQUAL(t.dst.data()[40000], std::byte{0});
}

uint64_t word(const Pages& p, std::size_t at) {
  uint64_t v;
  std::memcpy(&v, p.data() + at, sizeof(v));
  return v;
}
void set_word(const Pages& p, std::size_t at, uint64_t v) {
  std::memcpy(p.data() + at, &v, sizeof(v));
}

void atomics_return_the_old_value() {
  Bench t;
  set_word(t.dst, 64, 1000);
  Wqe fa(Opcode::atomic_fa);
  fa.raddr(t.dst.at(64), t.kd.rkey.value()).atomic(23, 0).data(t.src.at(8), 8, t.ks.lkey.value());
  Completion c = t.rig.run_one(t.rig.a, fa);
  EQUAL(c.op, CqeOpcode::req);
  EQUAL(c.bytes, 8);
  EQUAL(word(t.src, 8), 1000);
  EQUAL(word(t.dst, 64), 1023);
  Wqe miss(Opcode::atomic_cs);
  miss.raddr(t.dst.at(64), t.kd.rkey.value()).atomic(5, 4).data(t.src.at(8), 8, t.ks.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, miss).op, CqeOpcode::req);
  EQUAL(word(t.src, 8), 1023);
  EQUAL(word(t.dst, 64), 1023);
  Wqe hit(Opcode::atomic_cs);
  hit.raddr(t.dst.at(64), t.kd.rkey.value())
      .atomic(5, 1023)
      .data(t.src.at(16), 8, t.ks.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, hit).op, CqeOpcode::req);
  EQUAL(word(t.src, 16), 1023);
  EQUAL(word(t.dst, 64), 5);
}

// WQEs of all lengths around the end of a small ring, inline data included.
void rings_wrap_anywhere(uint32_t cqe_bytes) {
  RigShape s;
  s.cqe_bytes = cqe_bytes;
  s.cq_entries = 16;
  s.a.sq_wqebbs = 16;
  s.b.rq_wqes = 4;
  s.b.rq_signature = true;
  Bench t(s);
  std::minstd_rand random(5);
  for (unsigned i = 0; i < 400; i++) {
    std::size_t n = random() % 700 + 1;
    std::vector<std::byte> text(n);
    for (std::byte& b : text) b = static_cast<std::byte>(random());
    std::size_t at = random() % 1000;
    t.rig.b.recv(t.dst.at(at), 800, t.kd.lkey.value());
    Completion c = t.rig.run_one(t.rig.a, Wqe(Opcode::send).inlined(text));
    EQUAL_FATAL(c.op, CqeOpcode::req);
    std::optional<Completion> r = t.rig.cq_b.poll();
    CU_ASSERT_FATAL(r.has_value());
    EQUAL_FATAL(r->bytes, n);
    EQUAL_FATAL(r->index, i);
    CU_ASSERT_FATAL(same(t.dst.data() + at, text.data(), n));
  }
}
void rings_wrap_with_64_byte_cqes() {
  rings_wrap_anywhere(64);
}
void rings_wrap_with_128_byte_cqes() {
  rings_wrap_anywhere(128);
}

void a_queue_may_be_its_own_peer() {
  RigShape s;
  s.connect = false;
  Bench t(s);
  t.rig.to_rts(t.rig.a, t.rig.a.qpn);
  Wqe w(Opcode::rdma_write);
  w.raddr(t.dst.at(0), t.kd.rkey.value()).data(t.src.at(0), 512, t.ks.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).op, CqeOpcode::req);
  CU_ASSERT(same(t.dst.data(), t.src.data(), 512));
}

void unsignaled_wqes_complete_silently() {
  Bench t;
  for (int i = 0; i < 5; i++) {
    Wqe w(Opcode::rdma_write);
    w.raddr(t.dst.at(64 * static_cast<std::size_t>(i)), t.kd.rkey.value())
        .data(t.src.at(0), 64, t.ks.lkey.value());
    t.rig.a.put(i < 4 ? w.quiet() : w);
  }
  t.rig.a.ring(t.rig.uar);
  t.rig.run();
  std::optional<Completion> c = t.rig.cq_a.poll();
  CU_ASSERT(c && c->index == 4);
  CU_ASSERT(!t.rig.cq_a.poll());
  CU_ASSERT(same(t.dst.data() + 192, t.src.data(), 64));
}

void a_record_without_doorbell_is_not_work() {
  Bench t;
  t.rig.a.put(Wqe(Opcode::nop));
  t.rig.a.publish();
  CU_ASSERT(!t.rig.hca->uars.pending());
  t.rig.run();
  CU_ASSERT(!t.rig.cq_a.poll());
  t.rig.a.ring(t.rig.uar);
  CU_ASSERT(t.rig.hca->uars.pending());
  t.rig.run();
  CU_ASSERT(!t.rig.hca->uars.pending());
  CU_ASSERT(t.rig.cq_a.poll().has_value());
}

void the_first_message_establishes_communication() {
  RigShape s;
  s.connect = false;
  Bench t(s);
  t.rig.to_rts(t.rig.a, t.rig.b.qpn);
  EQUAL(t.rig.to_init(t.rig.b), 0);
  EQUAL(t.rig.to_rtr(t.rig.b, t.rig.a.qpn), 0);
  for (int i = 0; i < 2; i++) {
    Wqe w(Opcode::rdma_write);
    w.raddr(t.dst.at(0), t.kd.rkey.value()).data(t.src.at(0), 8, t.ks.lkey.value());
    EQUAL(t.rig.run_one(t.rig.a, w).op, CqeOpcode::req);
  }
  EQUAL(t.rig.events.of(4), 1);
  EQUAL(t.rig.events.log[0].second, &t.rig.b);
}

const kilim::test::Case cases[] = {
    {"send arrives with its immediate", send_arrives_with_its_immediate},
    {"send scatters over segments", send_scatters_over_segments},
    {"inline data needs no key", inline_data_needs_no_key},
    {"write and read move data", write_and_read_move_data},
    {"write with immediate uses a receive WQE", write_with_immediate_uses_a_receive_wqe},
    {"atomics return the old value", atomics_return_the_old_value},
    {"rings wrap with 64 byte CQEs", rings_wrap_with_64_byte_cqes},
    {"rings wrap with 128 byte CQEs", rings_wrap_with_128_byte_cqes},
    {"a queue may be its own peer", a_queue_may_be_its_own_peer},
    {"unsignaled WQEs complete silently", unsignaled_wqes_complete_silently},
    {"a record without doorbell is not work", a_record_without_doorbell_is_not_work},
    {"the first message establishes communication", the_first_message_establishes_communication},
};

}  // namespace
}  // namespace rc_loopback_ut
}  // namespace kilim::vhca::test

KILIM_TEST_MAIN(rc_loopback) {
  return kilim::test::run_tables(
      "rc_loopback",
      {kilim::vhca::test::rc_loopback_ut::cases, kilim::vhca::test::rc_invalidate_cases()}, argc,
      argv);
}
