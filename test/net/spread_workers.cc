// SPDX-License-Identifier: BSD-3-Clause
// Part of spread_ut. Two workers serve four queues while the control lcore changes what it can: no
// frame is lost or doubled, flows keep their order, every buffer comes back.
#include <atomic>
#include <map>
#include <thread>

#include "kilim/detail/worker/quiescence.hh"
#include "spread_fixture.hh"

namespace spread_workers_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr uint32_t flows = 16;

// Worker n serves the queues 2 n and 2 n + 1.
struct Workers {
  SpreadBench& b;
  worker::Quiescence& quiescence;
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> received{0};
  std::map<uint32_t, uint32_t> seen[2];  // how often a frame came to a worker, by its number

  void serve(uint32_t worker) {
    quiescence.online(worker);
    while (!stop.load()) {
      uint32_t n = 0;
      if (worker == 0) b.t.run_devices();
      for (uint32_t q = 2 * worker; q < 2 * worker + 2; q++) n += take(worker, q);
      if (n == 0) std::this_thread::yield();
      quiescence.pass(worker);
    }
    quiescence.offline(worker);
  }
  uint32_t take(uint32_t worker, uint32_t queue) {
    Handle h[32];
    const uint32_t n = b.far().rx(queue, h);
    for (uint32_t i = 0; i < n; i++) seen[worker][number_of(b.t.memory.arena().bytes(h[i]))]++;
    b.caches[queue]->free({h, n});
    received.fetch_add(n);
    return n;
  }
};

// Sends numbered frames; the first worker runs the devices.
void send_some(SpreadBench& b, uint32_t& number, uint32_t count) {
  for (uint32_t i = 0; i < count; i++, number++) {
    while (b.t.near->tx_room(0) == 0 && b.t.near->reclaim(0) == 0) std::this_thread::yield();
    b.send(make_frame(udp4_kind, number % flows, number));
  }
}

// Calls change() `rounds` times with frames under way. `lost`: frames that nobody will receive.
template <typename Change>
void with_workers(uint32_t rounds, Change change, const uint32_t& sent, const uint32_t& lost,
                  Workers& w) {
  CU_ASSERT_TRUE_FATAL(w.quiescence.add(0));
  CU_ASSERT_TRUE_FATAL(w.quiescence.add(1));
  std::thread first([&w] { w.serve(0); }), second([&w] { w.serve(1); });
  auto await = [&](uint32_t under_way) {
    for (int i = 0; i < 5000; i++) {
      const uint64_t gone = w.b.far().stats().rx_discarded + lost;
      if (w.received.load() + gone + under_way >= sent) return;
      std::this_thread::yield();
    }
  };
  for (uint32_t round = 0; round < rounds; round++) {
    change(round);
    await(40);
  }
  await(0);
  w.stop.store(true);
  first.join();
  second.join();
  for (const auto& c : w.b.caches) c->release_owner();
}

flow::Rss spreading_of(uint32_t round) {
  flow::Rss rss{.types = round % 2 == 0 ? HashTypes::all : HashTypes::ip,
                .key = round % 3 == 0 ? flow::symmetric_key : flow::default_key,
                .table = {}};
  if (round % 5 == 0) rss.table = {3, 2, 1, 0};
  return rss;
}

// A thread changes it without pause while frames come, so that some come between two steps.
void spreading_changes() {
  SpreadBench b(4, 4096, 256);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  auto quiescence = worker::Quiescence::create(2);
  CU_ASSERT_TRUE_FATAL(quiescence.ok());
  Workers w{b, *quiescence};
  std::atomic<bool> over{false};
  uint32_t changes = 0, refused = 0;  // read when the thread has ended
  std::thread changer([&] {
    for (; !over.load(); changes++) refused += !b.far().set_rss(spreading_of(changes)).ok();
  });
  uint32_t sent = 0;
  auto send = [&](uint32_t) { send_some(b, sent, 30); };
  with_workers(60, send, sent, 0, w);
  over.store(true);
  changer.join();
  CU_ASSERT_TRUE(changes > 0);
  EQUAL(refused, 0u);
  EQUAL(w.seen[0].size() + w.seen[1].size(), sent);
  for (const auto& seen : w.seen) {
    CU_ASSERT_TRUE(!seen.empty());
    for (const auto& [number, times] : seen) EQUAL(times, 1u);
  }
}

// What was for a stopped queue is lost, and counted by the port where it had come.
void queues_stop_and_start() {
  SpreadBench b(4, 4096, 256);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  auto quiescence = worker::Quiescence::create(2);
  CU_ASSERT_TRUE_FATAL(quiescence.ok());
  Workers w{b, *quiescence};
  uint32_t sent = 0;
  auto change = [&](uint32_t round) {
    send_some(b, sent, 30);
    CU_ASSERT_TRUE_FATAL(b.far().stop_rx(round % 4, &*quiescence).ok());
    send_some(b, sent, 10);
    CU_ASSERT_TRUE_FATAL(b.far().start_rx(round % 4).ok());
  };
  // How many the device dropped while a queue was stopped is its own to know.
  with_workers(20, change, sent, 20 * 10, w);
  const port::PortStats s = b.far().stats();
  EQUAL(w.received.load(), s.rx_packets);
  CU_ASSERT_TRUE(s.rx_packets + s.rx_discarded <= sent);
  CU_ASSERT_TRUE(s.rx_packets > sent / 10);
  EQUAL(s.recoveries, 0);
  EQUAL(s.queues_down, 0);
  for (const auto& seen : w.seen)
    for (const auto& [number, times] : seen) EQUAL(times, 1u);
}

constexpr kilim::test::Case of_workers[] = {
    {"two workers lose and double nothing while spreading changes", spreading_changes},
    {"queues stop and start beside two workers", queues_stop_and_start},
};

}  // namespace
}  // namespace spread_workers_ut

std::span<const kilim::test::Case> kilim::test::worker_cases() {
  return spread_workers_ut::of_workers;
}
