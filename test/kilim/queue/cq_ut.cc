// SPDX-License-Identifier: BSD-3-Clause
// The completion queue over an array.
#include "kilim/queue/cq.hh"
#include "kilim/queue/rc_wqe.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "ring.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::queue;
using kilim::test::CqRing;
using kilim::test::SqRing;
using prm::CqeOpcode;

void preset_is_empty() {
  CqRing<4> ring;
  Cq cq{ring.geometry()};
  Completion c[4];
  CU_ASSERT_EQUAL(cq.poll(c), 0);
  CU_ASSERT_PTR_NULL(cq.peek(0));
  CU_ASSERT_EQUAL(cq.drain(8).cqes, 0);
  CU_ASSERT_EQUAL(ring.record.host(), 0);
}

void decodes() {
  CqRing<4> ring;
  Cq cq{ring.geometry()};
  ring.write(CqeOpcode::req, 3);
  ring.write(CqeOpcode::resp_send_imm, 9, 1500);
  Completion c[4];
  CU_ASSERT_EQUAL_FATAL(cq.poll(c), 2);
  CU_ASSERT_TRUE(c[0].ok() && c[0].of_requester());
  CU_ASSERT_EQUAL(c[0].wqe_counter, 3);
  CU_ASSERT_EQUAL(c[0].qpn.value(), 0xabcdef);
  CU_ASSERT_EQUAL(c[0].wqe_opcode, prm::Opcode::rdma_write);
  CU_ASSERT_TRUE(c[1].ok() && !c[1].of_requester());
  CU_ASSERT_EQUAL(c[1].byte_len, 1500);
  CU_ASSERT_EQUAL(c[1].imm, 0x11223344);
  CU_ASSERT_EQUAL(ring.record.host(), 2);
}

template <uint32_t Bytes>
void owner_bit_wraps() {
  CqRing<4, Bytes> ring;
  Cq cq{ring.geometry()};
  Completion c[3];
  uint32_t seen = 0;
  for (uint32_t round = 0; round < 1000; round++) {
    const uint32_t n = round % 4;
    for (uint32_t i = 0; i < n; i++)
      ring.write(CqeOpcode::req, static_cast<uint16_t>(ring.written));
    CU_ASSERT_EQUAL_FATAL(cq.poll(c), n);
    for (uint32_t i = 0; i < n; i++)
      CU_ASSERT_EQUAL_FATAL(c[i].wqe_counter, static_cast<uint16_t>(seen + i));
    seen += n;
    CU_ASSERT_EQUAL_FATAL(cq.poll(c), 0);  // what lies there is of the pass before
  }
  CU_ASSERT_EQUAL(ring.record.host(), seen & 0xffffff);
}

void poll_stops_at_the_span() {
  CqRing<8> ring;
  Cq cq{ring.geometry()};
  for (uint16_t i = 0; i < 5; i++) ring.write(CqeOpcode::req, i);
  Completion c[8];
  CU_ASSERT_EQUAL(cq.poll(std::span{c}.first(2)), 2);
  CU_ASSERT_EQUAL(cq.poll(c), 3);
  CU_ASSERT_EQUAL(c[0].wqe_counter, 2);
}

void errors_are_values() {
  CqRing<4> ring;
  Cq cq{ring.geometry()};
  ring.write_error(CqeOpcode::req_err, prm::Syndrome::remote_access, 6);
  ring.write_error(CqeOpcode::resp_err, prm::Syndrome::wr_flush, 1);
  Completion c[2];
  CU_ASSERT_EQUAL_FATAL(cq.poll(c), 2);
  CU_ASSERT_FALSE(c[0].ok());
  CU_ASSERT_TRUE(c[0].of_requester());
  CU_ASSERT_EQUAL(c[0].syndrome, prm::Syndrome::remote_access);
  CU_ASSERT_EQUAL(c[0].vendor_syndrome, 0x51);
  CU_ASSERT_EQUAL(c[0].wqe_opcode, prm::Opcode::umr);
  CU_ASSERT_EQUAL(c[0].wqe_counter, 6);
  CU_ASSERT_FALSE(c[1].of_requester());
  CU_ASSERT_EQUAL(c[1].syndrome, prm::Syndrome::wr_flush);
}

void drain_counts() {
  CqRing<8> ring;
  Cq cq{ring.geometry()};
  for (uint16_t i = 0; i < 5; i++) ring.write(CqeOpcode::req, static_cast<uint16_t>(10 + i));
  Cq::Drained d = cq.drain(3);
  CU_ASSERT_EQUAL(d.cqes, 3);
  CU_ASSERT_EQUAL(d.wqe_counter, 12);
  ring.write_error(CqeOpcode::req_err, prm::Syndrome::local_prot, 15);
  d = cq.drain(64);
  CU_ASSERT_EQUAL(d.cqes, 2);
  CU_ASSERT_EQUAL(d.wqe_counter, 14);
  CU_ASSERT_TRUE(d.error);
  d = cq.drain(64);
  CU_ASSERT_TRUE(d.error && d.cqes == 0);
  Completion c[1];
  CU_ASSERT_EQUAL(cq.poll(c), 1);
  CU_ASSERT_EQUAL(c[0].wqe_counter, 15);
}

void peek_and_consume() {
  CqRing<4> ring;
  Cq cq{ring.geometry()};
  ring.write(CqeOpcode::resp_send, 0, 64);
  ring.write(CqeOpcode::resp_send, 1, 65);
  CU_ASSERT_PTR_NOT_NULL_FATAL(cq.peek(1));
  CU_ASSERT_EQUAL(cq.peek(1)->byte_cnt.host(), 65);
  CU_ASSERT_PTR_NULL(cq.peek(2));
  CU_ASSERT_EQUAL(ring.record.host(), 0);
  cq.consume(2);
  CU_ASSERT_EQUAL(ring.record.host(), 2);
  CU_ASSERT_PTR_NULL(cq.peek(0));
}

// A queue with one block for each of `n` requests, with wr ids from 100 on.
void post(Sq& sq, uint32_t n) {
  const Sge piece{0x1000, 64, Lkey{5}};
  WqeCursor c{sq};
  for (uint32_t i = 0; i < n; i++)
    CU_ASSERT_TRUE_FATAL(rdma_write(c, {0x2000, Rkey{6}}, piece, {.id = 100 + i}));
  c.commit();
}

void poll_with_the_send_queue() {
  CqRing<8> ring;
  SqRing<8> blocks;
  Cq cq{ring.geometry()};
  Sq sq{blocks.geometry(), blocks.wr_ids};
  post(sq, 8);
  ring.write(CqeOpcode::req, 0);
  ring.write(CqeOpcode::req, 2);
  ring.write(CqeOpcode::resp_send, 7, 640);
  Completion c[8];
  CU_ASSERT_EQUAL_FATAL(cq.poll(c, sq), 3);
  CU_ASSERT_EQUAL(c[0].wr_id, 100);
  CU_ASSERT_EQUAL(c[1].wr_id, 102);
  CU_ASSERT_TRUE(!c[2].of_requester() && c[2].byte_len == 640 && c[2].wr_id == 0);
  CU_ASSERT_EQUAL(sq.credits().value(), 3);
  ring.write_error(CqeOpcode::req_err, prm::Syndrome::remote_access, 4);
  CU_ASSERT_EQUAL_FATAL(cq.poll(c, sq), 1);
  CU_ASSERT_TRUE(!c[0].ok() && c[0].wr_id == 104);
  CU_ASSERT_EQUAL(c[0].syndrome, prm::Syndrome::remote_access);
  CU_ASSERT_EQUAL(sq.credits().value(), 5);
  ring.write(CqeOpcode::resp_send, 1, 3);
  CU_ASSERT_EQUAL(cq.poll(c, sq), 1);
  CU_ASSERT_EQUAL(sq.credits().value(), 5);
  CU_ASSERT_EQUAL(cq.poll(c, sq), 0);
  CU_ASSERT_EQUAL(ring.record.host(), 5);
}

const kilim::test::Case cases[] = {
    {"a preset ring is empty", preset_is_empty},
    {"completions of requester and responder", decodes},
    {"the owner bit turns with each pass, entries of 64 bytes", owner_bit_wraps<64>},
    {"the owner bit turns with each pass, entries of 128 bytes", owner_bit_wraps<128>},
    {"poll stops where the span ends", poll_stops_at_the_span},
    {"errors come with syndrome and opcode", errors_are_values},
    {"a poll with the send queue gives wr ids and room back", poll_with_the_send_queue},
    {"drain counts and stops before an error", drain_counts},
    {"peek shows CQEs, consume gives them back", peek_and_consume},
};

}  // namespace

KILIM_UT_MAIN("queue/cq", cases)
