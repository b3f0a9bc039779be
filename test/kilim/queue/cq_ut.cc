// SPDX-License-Identifier: BSD-3-Clause
// The completion queue over an array.
#include <array>

#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/inline_recv.hh"
#include "kilim/detail/queue/preset.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "ring_fixture.hh"
#include "ut.hh"

namespace cq_ut {
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
  EQUAL(cq.poll(c), 0);
  CU_ASSERT_PTR_NULL(cq.peek(0));
  EQUAL(cq.drain(8).cqes, 0);
  EQUAL(ring.record.host(), 0);
}

// Empty at every look until the device writes, on each of three passes; nothing else is touched.
template <uint32_t Bytes>
void preset_by_the_library() {
  CqRing<4, Bytes> ring;
  auto other = ring.memory;
  preset(ring.geometry());
  for (uint32_t i = 0; i < 4; i++) {
    EQUAL(ring.slot(i)->op_own, 0xf1);
    other[(i + 1) * Bytes - 1] = std::byte{0xf1};
  }
  EQUAL(ring.memory, other);
  Cq cq{ring.geometry()};
  Completion c[4];
  for (uint16_t i = 0; i < 12; i++) {
    EQUAL(cq.poll(c), 0);
    CU_ASSERT_PTR_NULL(cq.peek(0));
    EQUAL(cq.drain(8).cqes, 0);
    ring.write(CqeOpcode::req, i);
    EQUAL_FATAL(cq.poll(c), 1);
    EQUAL(c[0].wqe_counter, i);
  }
}

void decodes() {
  CqRing<4> ring;
  Cq cq{ring.geometry()};
  ring.write(CqeOpcode::req, 3);
  ring.write(CqeOpcode::resp_send_imm, 9, 1500);
  Completion c[4];
  EQUAL_FATAL(cq.poll(c), 2);
  CU_ASSERT_TRUE(c[0].ok() && c[0].of_requester());
  EQUAL(c[0].wqe_counter, 3);
  EQUAL(c[0].qpn.value(), 0xabcdef);
  EQUAL(c[0].wqe_opcode, prm::Opcode::rdma_write);
  CU_ASSERT_TRUE(c[1].ok() && !c[1].of_requester());
  EQUAL(c[1].byte_len, 1500);
  EQUAL(c[1].imm, 0x11223344);
  EQUAL(ring.record.host(), 2);
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
    EQUAL_FATAL(cq.poll(c), n);
    for (uint32_t i = 0; i < n; i++) EQUAL_FATAL(c[i].wqe_counter, static_cast<uint16_t>(seen + i));
    seen += n;
    EQUAL_FATAL(cq.poll(c), 0);  // what lies there is of the pass before
  }
  EQUAL(ring.record.host(), seen & 0xffffff);
}

void poll_stops_at_the_span() {
  CqRing<8> ring;
  Cq cq{ring.geometry()};
  for (uint16_t i = 0; i < 5; i++) ring.write(CqeOpcode::req, i);
  Completion c[8];
  EQUAL(cq.poll(std::span{c}.first(2)), 2);
  EQUAL(cq.poll(c), 3);
  EQUAL(c[0].wqe_counter, 2);
}

void errors_are_values() {
  CqRing<4> ring;
  Cq cq{ring.geometry()};
  ring.write_error(CqeOpcode::req_err, prm::Syndrome::remote_access, 6);
  ring.write_error(CqeOpcode::resp_err, prm::Syndrome::wr_flush, 1);
  Completion c[2];
  EQUAL_FATAL(cq.poll(c), 2);
  CU_ASSERT_FALSE(c[0].ok());
  CU_ASSERT_TRUE(c[0].of_requester());
  EQUAL(c[0].syndrome, prm::Syndrome::remote_access);
  EQUAL(c[0].vendor_syndrome, 0x51);
  EQUAL(c[0].wqe_opcode, prm::Opcode::umr);
  EQUAL(c[0].wqe_counter, 6);
  CU_ASSERT_FALSE(c[1].of_requester());
  EQUAL(c[1].syndrome, prm::Syndrome::wr_flush);
}

void drain_counts() {
  CqRing<8> ring;
  Cq cq{ring.geometry()};
  for (uint16_t i = 0; i < 5; i++) ring.write(CqeOpcode::req, static_cast<uint16_t>(10 + i));
  Cq::Drained d = cq.drain(3);
  EQUAL(d.cqes, 3);
  EQUAL(d.wqe_counter, 12);
  ring.write_error(CqeOpcode::req_err, prm::Syndrome::local_prot, 15);
  d = cq.drain(64);
  EQUAL(d.cqes, 2);
  EQUAL(d.wqe_counter, 14);
  CU_ASSERT_TRUE(d.error);
  d = cq.drain(64);
  CU_ASSERT_TRUE(d.error);
  EQUAL(d.cqes, 0);
  Completion c[1];
  EQUAL(cq.poll(c), 1);
  EQUAL(c[0].wqe_counter, 15);
}

// Up to all entries at once, by drain() and by consume().
template <uint32_t Bytes>
void drained_round_and_round() {
  CqRing<4, Bytes> ring;
  Cq cq{ring.geometry()};
  for (uint32_t round = 0; round < 1000; round++) {
    const uint32_t n = round % 5;
    for (uint32_t i = 0; i < n; i++)
      ring.write(CqeOpcode::req, static_cast<uint16_t>(ring.written));
    if (round % 2 == 0) {
      const Cq::Drained d = cq.drain(64);
      EQUAL_FATAL(d.cqes, n);
      if (n != 0) EQUAL_FATAL(d.wqe_counter, static_cast<uint16_t>(ring.written - 1));
    } else {
      CU_ASSERT_TRUE_FATAL((n == 0) == (cq.peek(0) == nullptr));
      cq.consume(n);
    }
    CU_ASSERT_FALSE(cq.drain(64).error);
    CU_ASSERT_PTR_NULL_FATAL(cq.peek(0));
    EQUAL_FATAL(ring.record.host(), ring.written & 0xffffff);
  }
}

void peek_and_consume() {
  CqRing<4> ring;
  Cq cq{ring.geometry()};
  ring.write(CqeOpcode::resp_send, 0, 64);
  ring.write(CqeOpcode::resp_send, 1, 65);
  CU_ASSERT_PTR_NOT_NULL_FATAL(cq.peek(1));
  EQUAL(cq.peek(1)->byte_cnt.host(), 65);
  CU_ASSERT_PTR_NULL(cq.peek(2));
  EQUAL(ring.record.host(), 0);
  cq.consume(2);
  EQUAL(ring.record.host(), 2);
  CU_ASSERT_PTR_NULL(cq.peek(0));
}

// A block of nine takes title and two entries of minis, and single ones one each: these are marked,
// the others are not touched.
template <uint32_t bytes>
void compression_marks_what_was_written() {
  CqRing<16, bytes> ring;
  Cq cq{ring.geometry()};
  for (uint16_t i = 0; i < 11; i++) ring.write(CqeOpcode::resp_send, i, 64);
  const auto is_marked = [&](uint32_t i) {
    return ring.slot(i)->op_own == prm::cqe::invalid_op_own;
  };
  cq.consume_singles(2);
  for (uint32_t i = 0; i < 11; i++) EQUAL(is_marked(i), i < 2);
  EQUAL(ring.record.host(), 2);
  cq.consume_block(9);
  for (uint32_t i = 2; i < 11; i++) EQUAL(is_marked(i), i == 2 || i == 3 || i == 10);
  EQUAL(ring.record.host(), 11);
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
  EQUAL_FATAL(cq.poll(c, sq), 3);
  EQUAL(c[0].wr_id, 100);
  EQUAL(c[1].wr_id, 102);
  CU_ASSERT_TRUE(!c[2].of_requester());
  EQUAL(c[2].byte_len, 640);
  EQUAL(c[2].wr_id, 0);
  EQUAL(sq.credits().value(), 3);
  ring.write_error(CqeOpcode::req_err, prm::Syndrome::remote_access, 4);
  EQUAL_FATAL(cq.poll(c, sq), 1);
  CU_ASSERT_TRUE(!c[0].ok() && c[0].wr_id == 104);
  EQUAL(c[0].syndrome, prm::Syndrome::remote_access);
  EQUAL(sq.credits().value(), 5);
  ring.write(CqeOpcode::resp_send, 1, 3);
  EQUAL(cq.poll(c, sq), 1);
  EQUAL(sq.credits().value(), 5);
  EQUAL(cq.poll(c, sq), 0);
  EQUAL(ring.record.host(), 5);
}

constexpr std::byte letter(uint32_t message, uint32_t i) {
  return static_cast<std::byte>(message * 31 + i);
}

// Puts message `n` of `bytes` into the entry, as the device does.
template <uint32_t Bytes>
void write_inlined(CqRing<8, Bytes>& ring, uint32_t n, uint32_t bytes) {
  prm::Cqe* e = ring.slot(ring.written);
  auto* data = reinterpret_cast<std::byte*>(e) - (Bytes == 128 ? 64 : 0);
  for (uint32_t i = 0; i < bytes; i++) data[i] = letter(n, i);
  ring.write(CqeOpcode::resp_send, static_cast<uint16_t>(n), bytes);
  e->op_own |= Bytes == 128 ? prm::cqe::inline_scatter_64 : prm::cqe::inline_scatter_32;
}

template <uint32_t Bytes>
void views_of_entries() {
  constexpr uint32_t most = Bytes == 128 ? 64 : 32;
  CqRing<8, Bytes> ring;
  Cq cq{ring.geometry()};
  InlineCounters counters;
  uint32_t sum = 0;
  for (uint32_t bytes = 1; bytes <= most; bytes++) {  // several times round the ring
    write_inlined(ring, bytes, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(cq.peek(0));
    CU_ASSERT_TRUE(has_inline_data(*cq.peek(0)));
    const std::byte* entry = ring.memory.data() + std::size_t{(bytes - 1) % 8} * Bytes;
    std::array<std::byte, 70> copy{};
    const uint32_t seen = for_each_completion(
        cq, 8, counters, [&](const Completion& c, std::span<const std::byte> data) {
          CU_ASSERT_PTR_EQUAL(data.data(), entry);
          EQUAL(data.size(), c.byte_len);
          EQUAL(copy_out(data, copy), bytes);
        });
    EQUAL_FATAL(seen, 1);
    for (uint32_t i = 0; i < bytes; i++) EQUAL_FATAL(copy[i], letter(bytes, i));
    EQUAL(copy[bytes], std::byte{0});
    EQUAL(ring.record.host(), bytes);
    sum += bytes;
  }
  EQUAL(counters.messages.read(), most);
  EQUAL(counters.bytes.read(), sum);
}

void nothing_in_the_entry() {
  CqRing<8> ring;
  Cq cq{ring.geometry()};
  ring.write(CqeOpcode::resp_send, 0, 20);
  ring.write_error(CqeOpcode::resp_err, prm::Syndrome::local_length, 1);
  ring.slot(1)->op_own |= prm::cqe::inline_scatter_32;  // an error carries nothing
  write_inlined<64>(ring, 2, 4);
  ring.slot(2)->byte_cnt = be32{1u << 30};  // more than an entry holds
  InlineCounters counters;
  std::size_t sizes[3]{};
  uint32_t n = 0;
  const auto look = [&](const Completion& c, std::span<const std::byte> data) {
    EQUAL(c.wqe_counter, n);
    EQUAL(c.ok(), n != 1);
    sizes[n++] = data.size();
  };
  EQUAL(for_each_completion(cq, 2, counters, look), 2);
  EQUAL(for_each_completion(cq, 2, counters, look), 1);
  EQUAL(for_each_completion(cq, 2, counters, look), 0);
  EQUAL(sizes[0], 0);
  EQUAL(sizes[1], 0);
  EQUAL(sizes[2], 32);
  EQUAL(counters.messages.read(), 1);
  std::byte small[3]{};
  EQUAL(copy_out(inline_data(*ring.slot(2)), small), 3);
}

const kilim::test::Case cases[] = {
    {"a preset ring is empty", preset_is_empty},
    {"a ring preset by the library is empty", preset_by_the_library<64>},
    {"a ring of 128-byte entries preset by the library is empty", preset_by_the_library<128>},
    {"completions of requester and responder", decodes},
    {"the owner bit turns with each pass, entries of 64 bytes", owner_bit_wraps<64>},
    {"the owner bit turns with each pass, entries of 128 bytes", owner_bit_wraps<128>},
    {"poll stops where the span ends", poll_stops_at_the_span},
    {"errors come with syndrome and opcode", errors_are_values},
    {"a poll with the send queue gives wr ids and room back", poll_with_the_send_queue},
    {"drain counts and stops before an error", drain_counts},
    {"drained round and round", drained_round_and_round<64>},
    {"drained round and round, of 128 bytes", drained_round_and_round<128>},
    {"peek shows CQEs, consume gives them back", peek_and_consume},
    {"a queue with compression marks what the device wrote",
     compression_marks_what_was_written<64>},
    {"a queue with compression marks what the device wrote, entries of 128 bytes",
     compression_marks_what_was_written<128>},
    {"data in an entry of 64 bytes is seen where it lies", views_of_entries<64>},
    {"data in an entry of 128 bytes lies in its first half", views_of_entries<128>},
    {"posted memory, errors and impossible lengths are no data in an entry", nothing_in_the_entry},
};

}  // namespace
}  // namespace cq_ut

KILIM_TEST_SUITE(cq, cq_ut::cases)
