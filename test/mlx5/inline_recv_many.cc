// SPDX-License-Identifier: BSD-3-Clause
// Part of inline_recv_ut. Many messages of random lengths over a pool, all compared.
#include <cstdlib>
#include <random>

#include "eal.hh"
#include "inline_fixture.hh"
#include "kilim/detail/burst/recv.hh"

namespace inline_recv_many_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using device::InlineReceive;
using device::RecvMemory;
using device::Transport;

uint64_t how_many() {
  const char* text = std::getenv("KILIM_MESSAGES");
  return text == nullptr ? 100000 : std::strtoull(text, nullptr, 10);
}

// Random lengths in random bursts through a queue of pool buffers; each byte is compared.
template <typename Queue>
void compare_many(InlineLoop& loop, Queue rq, uint32_t most) {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  constexpr uint32_t buffers = 64;
  std::vector<std::byte> memory(std::size_t{buffers} * 192, InlineLoop::untouched);
  const pool::Arena arena = *pool::Arena::over(memory, 192);
  auto mr = mr::Mr::create(loop.device.registrar(), memory, mr::Access::local, 4096);
  auto pool = pool::Pool::create(arena, {.name = "inline", .count = buffers});
  CU_ASSERT_TRUE_FATAL(mr.ok());
  CU_ASSERT_TRUE_FATAL(pool.ok());
  pool::BufferCache cache{*pool};
  burst::RecvQueue<Queue> q{.rq = std::move(rq),
                            .cq = std::move(*loop.recv_cq),
                            .cache = &cache,
                            .arena = arena,
                            .key = mr->region().lkey,
                            .refill_at = 1};
  burst::rx_refill(q);
  std::mt19937_64 random{loop.qp->qpn.value()};
  std::vector<uint32_t> length;  // of each message sent
  uint64_t got = 0, wrong = 0;
  const uint64_t total = how_many();
  const uint64_t before = shared_device().journal().count(vhca::Journal::Kind::cqe);
  const auto look = [&](const burst::Message& m) {
    const uint32_t bytes = length[got % InlineLoop::slots];
    const burst::Where where = bytes <= most ? burst::Where::entry : burst::Where::buffer;
    if (!m.completion.ok() || m.where != where || m.bytes.size() != bytes) wrong++;
    for (uint32_t i = 0; i < m.bytes.size(); i++)
      if (m.bytes[i] != test::letter(got, i)) wrong++;
    if (m.where == burst::Where::buffer) cache.free_one(m.buffer);
    got++;
  };
  length.resize(InlineLoop::slots);
  queue::Completion sent[16];
  uint64_t posted = 0;
  for (int idle = 0; got < total && idle < 20000 && wrong == 0; idle++) {
    for (uint64_t n = random() % 15; n != 0 && posted - got < 14 && posted < total; n--, posted++) {
      length[posted % InlineLoop::slots] = static_cast<uint32_t>(1 + random() % 65);
      if (!loop.send(posted, length[posted % InlineLoop::slots])) break;
    }
    device::Device& device = loop.device;
    device.progress();
    while (loop.send_cq->poll(sent, *loop.sq) != 0) device.progress();
    if (burst::recv_burst(q, static_cast<uint32_t>(1 + random() % 16), look) != 0) idle = 0;
  }
  EQUAL(got, total);
  EQUAL(wrong, 0);
  EQUAL(shared_device().journal().count(vhca::Journal::Kind::cqe) - before, 2 * total);
  EQUAL(q.counters.messages.read(), total);
  CU_ASSERT_TRUE(q.counters.inlined.messages.read() > total * most / 65 * 9 / 10);
  CU_ASSERT_TRUE(q.counters.inlined.bytes.read() < q.counters.bytes.read());
  cache.flush();
  EQUAL(pool->available() + q.rq.posted(), buffers);
  loop.qp.destroy();  // the device leaves the pool's memory alone from here on
}

void many_own() {
  InlineLoop loop{dev(), {}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  compare_many(loop, std::move(*loop.rq), 32);
}

void many_shared() {
  InlineLoop loop{dev(), {.cqe_bytes = 128, .shared = true}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  compare_many(loop, std::move(*loop.srq), 64);
}

constexpr kilim::test::Case of_many[] = {
    {"many messages over a pool, a queue of its own", many_own},
    {"many messages over a pool, a shared queue", many_shared},
};

}  // namespace
}  // namespace inline_recv_many_ut

std::span<const kilim::test::Case> kilim::test::inline_recv_many_cases() {
  return inline_recv_many_ut::of_many;
}
