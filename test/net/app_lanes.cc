// SPDX-License-Identifier: BSD-3-Clause
// Part of app_ut. Lanes run by threads of their own: receive queues move between them under
// traffic, they start and stop amid it, sleep until something comes. Every buffer comes back, to
// the last one.
#include <cerrno>
#include <chrono>

#include "app_cases.hh"
#include "app_fixture.hh"
#include "kilim/detail/app/place.hh"

namespace app_lanes_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr uint32_t packets = 200;

// Packets go round between two ports while the queues of both change lanes.
void queues_move(worker::Idle idle) {
  const std::string wire = "cable:" + test::fresh("a");
  auto near = port_with(wire, Progress::poller);
  auto far = port_with(wire, Progress::poller);
  Game g(packets);
  const app::Program program{
      .name = "move", .on_burst = Game::on_burst, .context = &g, .idle = idle};
  Threads t({near.get(), far.get()}, 2, program);
  EQUAL(t.frame->move(2, 0, 0).error().code, EINVAL);
  EQUAL(t.frame->move(0, 1, 0).error().code, EINVAL);
  EQUAL(t.frame->move(0, 0, 2).error().code, EINVAL);
  t.serve(0, packets);
  t.start();
  const uint32_t rounds = long_check() ? 1500 : 100;
  for (uint32_t i = 0; i < rounds; i++) {
    const uint64_t before = g.turns.load();
    CU_ASSERT_TRUE_FATAL(t.frame->move(i % 2, 0, i / 2 % 2).ok());
    CU_ASSERT_TRUE_FATAL(wait_until([&] { return g.turns.load() > before + 50; }));
  }
  g.collect.store(true);
  CU_ASSERT_TRUE(wait_until([&] { return g.collected.load() == packets; }));
  t.stop();
  for (const auto& times : g.seen) EQUAL(times.load(), 1u);
  EQUAL(t.missed(), 0u);
}

void queues_move_under_traffic() {
  queues_move(worker::Idle::yield);
  queues_move(worker::Idle::sleep);
}

// Lanes stop and start with all packets under way; the ports are made anew each time, and of the
// packets that were in their queues the buffers come back (Threads' destructor looks).
void stops_amid_traffic() {
  const std::string wire = "cable:" + test::fresh("a");
  auto near = port_with(wire, Progress::poller);
  auto far = port_with(wire, Progress::poller);
  const uint32_t rounds = long_check() ? 100 : 5;
  for (uint32_t i = 0; i < rounds; i++) {
    Game g(packets);
    const app::Program program{.name = "stop", .on_burst = Game::on_burst, .context = &g};
    Threads t({near.get(), far.get()}, 2, program);
    t.serve(0, packets);
    for (int again = 0; again < 2; again++) {  // the workers alone, then everything
      t.start();
      const uint64_t before = g.turns.load();
      CU_ASSERT_TRUE_FATAL(wait_until([&] { return g.turns.load() > before + 500; }));
      t.stop();
    }
    t.frame->drain();
  }
}

// Port 0 counts what comes back, port 1 sends it back.
struct Echo {
  uint32_t back = 0;
  static void on_burst(void* context, Burst& b) noexcept {
    if (b.port() == 1) return b.send(1, b.packets());
    for (const Handle h : b.packets()) b.drop(h);
    static_cast<Echo*>(context)->back += static_cast<uint32_t>(b.packets().size());
  }
};

enum class Runner : uint8_t { sleeper, other, thread };

// One frame at a time from a lane that the test runs; the other lane sleeps in between, and only
// its wire or its channel wakes it. `runner`: of the sleeper's device.
void sleeps_until(Runner runner) {
  const auto progress = runner == Runner::thread ? Progress::thread : Progress::poller;
  const std::string wire = "cable:" + test::fresh("a");
  auto near = port_with(wire, progress);
  auto far = port_with(wire, progress);
  Echo echo;
  const app::Program program{
      .name = "sleep", .on_burst = Echo::on_burst, .context = &echo, .idle = worker::Idle::sleep};
  Threads t({near.get(), far.get()}, 2, program);
  app::Lane &mine = *t.frame->lanes()[0], &sleeper = *t.frame->lanes()[1];
  if (runner != Runner::thread) {
    CU_ASSERT_TRUE(sleeper.worker->remove(near->poller()).ok());
    worker::Worker& no_runner = runner == Runner::sleeper ? *mine.worker : *sleeper.worker;
    CU_ASSERT_TRUE(no_runner.remove(far->poller()).ok());
  }
  const worker::Worker& w = *sleeper.worker;
  t.start(1);
  uint32_t sent = 0;
  while (w.stats().by_poller < 10 && sent < 5000) {
    uint64_t rounds;
    do {  // until it stands still
      rounds = w.stats().rounds;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } while (w.stats().rounds != rounds || rounds == 0);
    t.serve(0, 1);
    sent++;
    CU_ASSERT_TRUE_FATAL(wait_until([&] {
      mine.worker->round();
      return echo.back == sent;
    }));
  }
  t.stop();
  const worker::WorkerStats s = w.stats();
  CU_ASSERT_TRUE(s.by_poller >= 10u);
  CU_ASSERT_TRUE(s.by_wake <= 1u);  // the end
  EQUAL(s.by_time, 0u);
  EQUAL(s.naps, 0u);
}

void sleeps_until_the_wire_brings_something() {
  sleeps_until(Runner::sleeper);
}
void sleeps_until_the_channel_says_so() {
  sleeps_until(Runner::other);
  sleeps_until(Runner::thread);
}

// Two lanes sleep on one device. The one that ran it last may go: the other looks after it.
void the_last_one_awake_may_go() {
  const std::string wire = "cable:" + test::fresh("a");
  auto near = port_with(wire, Progress::poller);
  auto far = port_with(wire, Progress::poller);
  Game g(packets);
  const app::Program program{
      .name = "last", .on_burst = Game::on_burst, .context = &g, .idle = worker::Idle::sleep};
  Threads t({near.get(), far.get()}, 3, program);  // the third one has nothing but the devices
  t.serve(0, packets);
  t.start();
  for (uint32_t i = 0; i < 30; i++) {
    app::Lane& third = *t.frame->lanes()[2];
    CU_ASSERT_TRUE_FATAL(third.worker->remove(near->poller()).ok());
    CU_ASSERT_TRUE_FATAL(third.worker->remove(far->poller()).ok());
    const uint64_t before = g.turns.load();
    CU_ASSERT_TRUE_FATAL(wait_until([&] { return g.turns.load() > before + 50; }));
    CU_ASSERT_TRUE_FATAL(third.worker->add(near->poller()).ok());
    CU_ASSERT_TRUE_FATAL(third.worker->add(far->poller()).ok());
  }
  g.collect.store(true);
  CU_ASSERT_TRUE(wait_until([&] { return g.collected.load() == packets; }));
}

// A lane has its tick whether it works or sleeps.
void every_lane_ticks() {
  auto port = port_with("cable:" + test::fresh("a"), Progress::poller);
  for (const worker::Idle idle : {worker::Idle::yield, worker::Idle::sleep}) {
    Game g(0);
    const app::Program program{.name = "tick",
                               .on_burst = Game::on_burst,
                               .on_tick = Game::on_tick,
                               .context = &g,
                               .tick_us = 500,
                               .idle = idle};
    Threads t({port.get()}, 2, program);
    t.start();
    for (const auto& lane : t.frame->lanes())
      CU_ASSERT_TRUE(wait_until([&] { return lane->worker->stats().ticks >= 3; }));
    t.stop();
    uint64_t ticks = 0;
    for (const auto& lane : t.frame->lanes()) ticks += lane->worker->stats().ticks;
    EQUAL(g.ticks.load(), ticks);
  }
}

void lanes_near_the_device() {
  using app::choose_place;
  using app::Place;
  CU_ASSERT_FALSE(app::is_far(0, -1));
  CU_ASSERT_FALSE(app::is_far(1, 1));
  CU_ASSERT_TRUE(app::is_far(0, 1));
  const Place even[] = {{0, 1}, {1, 1}, {1, 1}};
  EQUAL(choose_place(even, -1), 0u);
  EQUAL(choose_place(even, 0), 0u);
  EQUAL(choose_place(even, 1), 1u);
  const Place near_is_full[] = {{1, 2}, {0, 2}, {0, 1}};
  EQUAL(choose_place(near_is_full, 1), 2u);
  const Place later[] = {{0, 2}, {0, 1}, {1, 1}};
  EQUAL(choose_place(later, 1), 2u);
}

constexpr test::Case of_lanes[] = {
    {"a receive queue goes to the lane with fewest, near the device", lanes_near_the_device},
    {"receive queues move between lanes under traffic", queues_move_under_traffic},
    {"lanes stop and start amid traffic and every buffer comes back", stops_amid_traffic},
    {"a lane sleeps until its wire brings something", sleeps_until_the_wire_brings_something},
    {"a lane sleeps until its completion channel says so", sleeps_until_the_channel_says_so},
    {"of two that sleep on a device one may go", the_last_one_awake_may_go},
    {"every lane ticks, awake or asleep", every_lane_ticks},
};

}  // namespace
}  // namespace app_lanes_ut

std::span<const kilim::test::Case> kilim::test::lane_cases() {
  return app_lanes_ut::of_lanes;
}
