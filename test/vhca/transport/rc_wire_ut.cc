// SPDX-License-Identifier: BSD-3-Clause
// The RC protocol between two adapters over a good and a bad wire: data, order, patience, refusals,
// and packets that nobody should send.
#include "case_tables.hh"
#include "rc_wire_fixture.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/qp_error.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace rc_wire_ut {
namespace {

constexpr uint32_t lengths[] = {0, 1, 255, 256, 1024, 1025, 4096, 70000};

void writes_and_reads_of_every_length_and_mtu_arrive() {
  for (uint8_t mtu = 1; mtu <= 5; mtu++) {
    WireRig w({.mtu = mtu});
    Sides s(w);
    std::size_t at = 3;
    for (uint32_t n : lengths) {
      CU_ASSERT(succeeded(w.post(rdma(Opcode::rdma_write, s, at, n))));
      CU_ASSERT(s.same(at, at, n));
      at += n + 1;
      CU_ASSERT(n == 0 || !s.same(at, at, n));
      std::optional<Completion> c = w.post(rdma(Opcode::rdma_read, s, at, n));
      CU_ASSERT(succeeded(c) && c->bytes == n);
      CU_ASSERT(s.same(at, at, n));
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
      CU_ASSERT(succeeded(w.post(send.solicited())));
      CU_ASSERT(s.same(9, 0, n));
      std::optional<Completion> c = w.wait(w.right.cq_a);
      CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::resp_send_imm);
      EQUAL(c->bytes, n);
      EQUAL(c->imm, 0x1234567);
      CU_ASSERT(c->solicited);
      EQUAL(c->rqpn, w.left.a.qpn.value());
      w.right.a.recv(s.far.at(0), 8, s.far_key.lkey.value());
      CU_ASSERT(succeeded(w.post(rdma(Opcode::rdma_write_imm, s, 200'000, n, 77))));
      c = w.wait(w.right.cq_a);
      CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::resp_wr_imm && !c->solicited);
      EQUAL(c->bytes, n);
      EQUAL(c->imm, 77);
      CU_ASSERT(s.same(200'000, 200'000, n));
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
  CU_ASSERT(succeeded(w.post(wqe(Opcode::atomic_fa, 2, 0))));
  EQUAL(*word, 42);
  EQUAL(*got, 40);
  CU_ASSERT(succeeded(w.post(wqe(Opcode::atomic_cs, 7, 42))));
  EQUAL(*word, 7);
  CU_ASSERT(succeeded(w.post(wqe(Opcode::atomic_cs, 9, 42))));
  EQUAL(*word, 7);
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
    CU_ASSERT_FATAL(succeeded(c));
    CU_ASSERT(i == 0 || c->index == static_cast<uint16_t>(before + 1));
    before = c->index;
    CU_ASSERT(i % 7 == 0 || s.same(i * 4096, i * 4096, 3000));
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
};

}  // namespace
}  // namespace rc_wire_ut

KILIM_TEST_MAIN(rc_wire) {
  return kilim::test::run_tables("vhca/transport RC on a wire",
                                 {rc_wire_ut::cases, kilim::vhca::test::rc_wire_error_cases()},
                                 argc, argv);
}
