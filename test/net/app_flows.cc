// SPDX-License-Identifier: BSD-3-Clause
// Part of app_ut. Four queues and two lanes keep the order of flows, with every byte looked at; a
// cable that is pulled and a device that dies amid traffic. Every buffer comes back, to the last
// one.
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <utility>

#include "app_cases.hh"
#include "app_fixture.hh"
#include "netns.hh"
#include "spread_fixture.hh"

namespace app_flows_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr uint32_t flows = 32, window = 8;

// Port 0 sends numbered frames of several flows and looks at what comes back; port 1 sends back.
struct Flows {
  std::vector<Frame> like;                     // a frame of each flow; the number is its last bytes
  std::array<uint32_t, flows> sent{}, next{};  // numbers, of port 0's lane alone
  std::atomic<uint64_t> checked{0}, wrong{0};
  std::atomic<uint32_t> lanes{0};  // bits of those that sent back

  Flows() {
    for (uint32_t f = 0; f < flows; f++)
      like.push_back(with_right_sums(make_frame(udp4_kind, f, 0)));
  }
  // Of IP; that of UDP is none. So the device takes frames that follow each other four at a time.
  static Frame with_right_sums(Frame f) {
    constexpr std::size_t ip = 14, ip_sum = 24, udp = 34, udp_sum = 40;
    for (const std::size_t at : {ip_sum, udp_sum}) f[at] = f[at + 1] = std::byte{0};
    uint32_t sum = 0;
    for (std::size_t at = ip; at < udp; at++)
      sum += std::to_integer<uint32_t>(f[at]) << (at % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    f[ip_sum] = as_byte(sum >> 8 & 0xff);
    f[ip_sum + 1] = as_byte(sum & 0xff);
    return f;
  }
  void write(std::span<std::byte> to, uint32_t flow) {
    std::memcpy(to.data(), like[flow].data(), to.size());
    const uint32_t number = sent[flow]++;
    std::memcpy(to.data() + to.size() - sizeof number, &number, sizeof number);
  }
  // Which flow's it is, being whole and the next one of it; `flows`: it is not.
  uint32_t check(std::span<const std::byte> got) {
    const std::size_t same = like[0].size() - sizeof(uint32_t);
    if (got.size() != like[0].size()) return flows;
    for (uint32_t f = 0; f < flows; f++)
      if (std::memcmp(got.data(), like[f].data(), same) == 0)
        return number_of(got) == next[f]++ ? f : flows;
    return flows;
  }
  static void on_burst(void* context, Burst& b) noexcept {
    auto& self = *static_cast<Flows*>(context);
    if (b.port() == 1) {
      self.lanes.fetch_or(1u << b.lane(), std::memory_order_relaxed);
      return b.send(1, b.packets());
    }
    for (const Handle h : b.packets()) {
      const uint32_t flow = self.check(b.bytes(h));
      self.checked.fetch_add(1, std::memory_order_relaxed);
      if (flow == flows) {
        self.wrong.fetch_add(1, std::memory_order_relaxed);
        b.drop(h);
      } else {
        self.write(b.bytes(h), flow);
        b.send(0, h);
      }
    }
  }
};

// From one transmit queue into four receive queues of two lanes, and back by two transmit queues.
// `looks`: how often the test looks for `count` packets before it gives up.
void run_flows(port::Port& near, port::Port& far, worker::Idle idle, uint64_t count, int looks) {
  // What is in the cable still from the time before is for no queue.
  for (port::Port* p : {&far, &near, &far, &near})
    while (p->poller().fn(p->poller().context, 256) != 0) {
    }
  Flows g;
  const app::Program program{
      .name = "flows", .on_burst = Flows::on_burst, .context = &g, .idle = idle};
  Threads t({&near, &far}, 2, program);
  const uint64_t before = t.missed();
  app::Lane& lane = *t.frame->lanes()[0];
  Burst b(lane, 0, {});
  for (uint32_t i = 0; i < flows * window; i++) {
    Handle h;
    EQUAL_FATAL(lane.cache->alloc({&h, 1}, static_cast<uint16_t>(g.like[0].size())), 1u);
    g.write(b.bytes(h), i % flows);
    b.send(0, h);
  }
  lane.flush(lane.outputs[0]);
  t.start();
  auto used = [&far] {
    uint32_t n = 0;
    for (uint32_t q = 0; q < 4; q++) n += far.rx_stats(q).packets != 0;
    return n;
  };
  const auto done = [&] {  // the second thread may begin late
    const bool all = g.checked.load() >= count && g.lanes.load() == 3 && used() == 4;
    return all || g.wrong.load() != 0;
  };
  CU_ASSERT_TRUE(wait_until(done, looks));
  t.stop();
  EQUAL(g.wrong.load(), 0u);
  EQUAL(g.lanes.load(), 3u);  // both
  EQUAL(used(), 4u);
  EQUAL(t.missed(), before);
}

// At full rate for as long as KILIM_SOAK_SECONDS says, stopped and started a hundred times at
// least; five times and not for long without it.
void flows_keep_their_order() {
  const std::string wire = "cable:" + fresh("a");
  auto near = port_with(wire, Progress::poller);
  auto far = port_with(wire, Progress::poller, {.rxq = 4});
  using Clock = std::chrono::steady_clock;
  const char* seconds = std::getenv("KILIM_SOAK_SECONDS");
  const bool soak = seconds != nullptr;
  const Clock::time_point begin = Clock::now();
  const std::chrono::seconds least(soak ? std::strtol(seconds, nullptr, 10) : 0);
  constexpr uint64_t soak_count = 1'000'000, count = 5000;
  uint32_t times = 0;
  for (; times < (soak ? 100u : 5u) || Clock::now() < begin + least; times++)
    run_flows(*near, *far, times % 2 == 0 ? worker::Idle::yield : worker::Idle::sleep,
              soak ? soak_count : count, soak ? std::numeric_limits<int>::max() : 3'000'000);
  if (!soak) return;
  const std::chrono::duration<double> took = Clock::now() - begin;
  std::printf("%u times, %.1f million packets looked at, %.2f million a second ", times,
              times * 1e-6 * soak_count, times * 1e-6 * soak_count / took.count());
}

// Until packets go round: an interface carries nothing for a while after it is told to.
bool goes_round(Threads& t, const Game& g) {
  for (int tries = 0; tries < 100; tries++) {
    t.serve(0, 32);
    t.start();
    const uint64_t before = g.turns.load();
    if (wait_until([&] { return g.turns.load() > before + 500; }, 30'000)) return true;
    t.stop();
  }
  return false;
}

// What is sent into a cable that is pulled is lost; when it is plugged in again traffic goes on,
// without any queue having failed.
void a_pulled_cable() {
  if (!enter_namespace_with_veth()) {
    CU_FAIL("no network namespace or veth pair can be made here: run as root");
    return;
  }
  for (const worker::Idle idle : {worker::Idle::yield, worker::Idle::sleep}) {
    auto near = port_with("af_packet:va", Progress::poller);
    auto far = port_with("af_packet:vb", Progress::poller);
    Game g(32);
    const app::Program program{
        .name = "cable", .on_burst = Game::on_burst, .context = &g, .idle = idle};
    Threads t({near.get(), far.get()}, 2, program);
    for (int i = 0; i < 3; i++) {
      CU_ASSERT_TRUE_FATAL(goes_round(t, g));
      CU_ASSERT_TRUE_FATAL(command("ip link set vb down"));
      uint64_t still = 0;
      CU_ASSERT_TRUE_FATAL(wait_until([&] {  // all that were under way are lost
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return std::exchange(still, g.turns.load()) == g.turns.load();
      }));
      CU_ASSERT_TRUE_FATAL(command("ip link set vb arp off up"));
      t.stop();
    }
    for (port::Port* p : {near.get(), far.get()}) {
      EQUAL(p->stats().recoveries, 0u);
      EQUAL(p->stats().queues_down, 0u);
    }
  }
}

// The sender's device dies amid traffic: the loops go on until they are told, and end.
void a_device_that_dies() {
  for (const worker::Idle idle : {worker::Idle::yield, worker::Idle::sleep}) {
    auto near = port_with("cable:" + fresh("a"), Progress::poller, {}, 50);
    Game g(0);
    const app::Program program{
        .name = "dies", .on_burst = Game::on_burst, .context = &g, .idle = idle};
    Threads t({near.get()}, 1, program);
    t.start();
    t.stop();
    for (int i = 0; i < 100 && !near->device().lost(); i++) {
      t.serve(0, 10);
      t.frame->lanes()[0]->worker->round();
      near->revive(nullptr);
    }
    CU_ASSERT_TRUE(near->device().lost());
    t.start();
    t.frame->drain();
    CU_ASSERT_TRUE(wait_until([&] { return t.frame->drained(); }));
    CU_ASSERT_TRUE(near->stats().queues_down != 0);
  }
}

constexpr Case of_flows[] = {
    {"four queues and two lanes keep the order of flows", flows_keep_their_order},
    {"a device dies amid traffic and every buffer comes back", a_device_that_dies},
    {"a cable is pulled and plugged in amid traffic", a_pulled_cable},
};

}  // namespace
}  // namespace app_flows_ut

std::span<const kilim::test::Case> kilim::test::flow_cases() {
  return app_flows_ut::of_flows;
}
