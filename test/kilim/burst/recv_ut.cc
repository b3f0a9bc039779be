// SPDX-License-Identifier: BSD-3-Clause
// Messages of connections over arrays: in their entries, in buffers of the pool, with errors.
#include <algorithm>

#include "burst_fixture.hh"
#include "kilim/detail/burst/recv.hh"
#include "ut.hh"

namespace recv_ut {
namespace {

using namespace kilim;
using namespace kilim::burst;
using pool::Handle;
using test::arena_key;
using test::Bench;

// A connection's receive queue over the same pool and arrays.
template <typename Queue>
RecvQueue<Queue> recv_queue(Bench& b, Queue rq) {
  return {.rq = std::move(rq),
          .cq = queue::Cq(b.rx_memory.cq.geometry()),
          .cache = &*b.cache,
          .arena = b.arena,
          .key = arena_key,
          .refill_at = 1};
}

// A message of four bytes in its entry.
void write_inlined(test::CqMemory& cq, uint16_t counter, uint32_t word) {
  prm::Cqe& e = cq.write(prm::CqeOpcode::resp_send, counter, 4);
  std::memcpy(&e, &word, 4);
  e.op_own |= prm::cqe::inline_scatter_32;
}

// What one round brings: a word in its entry, 100 bytes in a buffer, two without data.
struct Round {
  uint32_t word;
  uint64_t posted_at;  // the second one's buffer
  std::vector<Handle>& held;
  uint32_t seen = 0;

  void look(const Message& m) {
    constexpr Where places[] = {Where::entry, Where::buffer, Where::nowhere, Where::nowhere};
    EQUAL(m.where, places[seen]);
    if (seen == 0) EQUAL(std::memcmp(m.bytes.data(), &word, 4), 0);
    if (seen == 1) {
      EQUAL(reinterpret_cast<uint64_t>(m.bytes.data()), posted_at);
      EQUAL(m.bytes.size(), 100);
      held.push_back(m.buffer);
    }
    if (seen > 1) CU_ASSERT_TRUE(m.bytes.empty());
    seen++;
  }
};

void inlined_buffers_go_back() {
  Bench b;
  auto q = recv_queue(b, queue::Rq(b.rx_memory.geometry(), b.rx_memory.ids));
  rx_refill(q);
  std::memset(b.memory.data(), 0x77, b.memory.size());
  std::vector<Handle> held;
  uint16_t at = 0;
  for (uint32_t n = 0; n < 60; n++) {
    write_inlined(b.rx_memory.cq, at++, n);
    b.rx_memory.cq.write(prm::CqeOpcode::resp_send, at++, 100);
    b.rx_memory.cq.write(prm::CqeOpcode::resp_wr_imm, at++, 5000);
    b.rx_memory.cq.write(prm::CqeOpcode::resp_send, at++, 0);
    Round round{n, b.rx_memory.ring[(at - 3) % 32].addr.host(), held};
    EQUAL_FATAL(recv_burst(q, 8, [&round](const Message& m) { round.look(m); }), 4);
    EQUAL(q.rq.room(), 0);
  }
  CU_ASSERT_TRUE(std::all_of(b.memory.begin(), b.memory.end(),
                             [](std::byte x) { return x == std::byte{0x77}; }));
  EQUAL(held.size(), 60);
  EQUAL(b.outstanding(), 32u + 60u);
  b.cache->free(held);
  EQUAL(b.outstanding(), 32u);
  CU_ASSERT_TRUE(q.counters.messages.read() == 240 && q.counters.bytes.read() == 60 * 104);
  CU_ASSERT_TRUE(q.counters.inlined.messages.read() == 60 &&
                 q.counters.inlined.bytes.read() == 240);
}

void a_failed_connection_is_not_refilled() {
  Bench b;
  auto q = recv_queue(b, queue::Rq(b.rx_memory.geometry(), b.rx_memory.ids));
  rx_refill(q);
  b.rx_memory.cq.write_error(prm::CqeOpcode::resp_err, 0, prm::Syndrome::local_length);
  for (uint16_t i = 1; i < 32; i++)
    b.rx_memory.cq.write_error(prm::CqeOpcode::resp_err, i, prm::Syndrome::wr_flush);
  uint32_t flushed = 0;
  const auto look = [&flushed](const Message& m) {
    CU_ASSERT_TRUE(!m.completion.ok());
    CU_ASSERT_TRUE(m.bytes.empty());
    flushed += m.completion.syndrome == prm::Syndrome::wr_flush ? 1 : 0;
  };
  EQUAL(recv_burst(q, 64, look), 32);
  EQUAL(flushed, 31);
  CU_ASSERT_TRUE(q.failed.read());
  EQUAL(q.rq.posted(), 0);
  EQUAL(q.counters.errors.read(), 32);
  EQUAL(b.outstanding(), 0);
}

// Errors of one connection do not end a queue that others share; receives complete out of order.
void shared_receives() {
  Bench b;
  alignas(64) std::array<std::byte, 8 * 32> ring{};
  for (uint16_t i = 0; i < 7; i++)
    reinterpret_cast<prm::SrqNextSeg*>(&ring[i * 32u])->next_wqe_index =
        be16{static_cast<uint16_t>(i + 1)};
  std::array<uint64_t, 8> ids{};
  be32 record{0};
  auto q = recv_queue(
      b, queue::Srq({.buf = ring.data(), .wqe_count = 8, .stride = 32, .record = &record}, ids));
  EQUAL(rx_refill(q), 7u);
  write_inlined(b.rx_memory.cq, 2, 22);
  b.rx_memory.cq.write_error(prm::CqeOpcode::resp_err, 0, prm::Syndrome::local_length);
  b.rx_memory.cq.write(prm::CqeOpcode::resp_send, 1, 9);
  const uint64_t second = ids[1];
  std::vector<uint32_t> seen;
  Handle kept;
  EQUAL(recv_burst(q, 8,
                   [&](const Message& m) {
                     seen.push_back(m.completion.wqe_counter);
                     if (m.where == Where::buffer) kept = m.buffer;
                   }),
        3);
  CU_ASSERT_TRUE((seen == std::vector<uint32_t>{2, 0, 1}));
  EQUAL(kept.index, second);
  CU_ASSERT_TRUE(!q.failed.read());
  EQUAL(q.rq.room(), 0);
  EQUAL(record.host(), 10);
  b.cache->free_one(kept);
  uint32_t given_back = 0;
  q.rq.end([&](uint64_t id) {
    const auto index = static_cast<uint32_t>(id);
    b.cache->free_indices({&index, 1});
    given_back++;
  });
  EQUAL(given_back, 7);
  EQUAL(b.outstanding(), 0);
}

const kilim::test::Case cases[] = {
    {"a message in its entry leaves its buffer to the pool", inlined_buffers_go_back},
    {"a connection that failed gets no new buffers", a_failed_connection_is_not_refilled},
    {"a shared receive queue goes on behind an error", shared_receives},
};

}  // namespace
}  // namespace recv_ut

KILIM_TEST_SUITE(recv, recv_ut::cases)
