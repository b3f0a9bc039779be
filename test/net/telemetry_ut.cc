// SPDX-License-Identifier: BSD-3-Clause
// A program is asked over EAL's telemetry socket while its lanes forward and its control lcore
// changes things: every answer is whole, no count goes back, no packet is lost.
// KILIM_CHECK=long: 1,000 questions instead of 140.
#include <map>
#include <thread>

#include "app_fixture.hh"
#include "case_tables.hh"
#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/port/registry.hh"
#include "kilim/detail/telemetry/endpoints.hh"
#include "telemetry_cases.hh"
#include "telemetry_client.hh"

namespace telemetry_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr uint32_t packets = 200;

// As the driver does.
struct Listed {
  port::Port& port;
  explicit Listed(port::Port& p) : port(p) { port::enter(p); }
  ~Listed() { port::leave(port); }
};

bool balanced(const std::string& json) {
  int depth = 0;
  for (const char c : json) depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
  return depth == 0 && !json.empty() && json.find("null") == std::string::npos;
}

// Each command about the two ports; how many answers were not as they should be.
struct Questions {
  std::vector<std::string> all;
  std::map<std::string, long long> last;  // count that only grows, by question
  uint32_t asked = 0, torn = 0, refused = 0, back = 0;

  explicit Questions(std::span<port::Port* const> ports) {
    for (const telemetry::Endpoint& e : telemetry::endpoints()) {
      const std::string path = e.path;
      const bool of_a_port = path == "/kilim/xstats" || path == "/kilim/queues" ||
                             path == "/kilim/flows" || path == "/kilim/stats";
      if (!of_a_port) all.push_back(path);
      if (of_a_port)
        for (const port::Port* p : ports) all.push_back(path + "," + p->name());
    }
  }
  void ask(TelemetryClient& client) {
    const std::string& question = all[asked++ % all.size()];
    const std::string answer = client.ask(question);
    torn += !balanced(answer);
    refused += answer.find("\"error\"") != std::string::npos;
    const char* counts[] = {"rx_packets", "rounds"};
    for (const char* name : counts) {
      const long long n = number_of(answer, name);
      long long& before = last[question + name];
      back += n >= 0 && n < before;
      before = std::max(before, n);
    }
  }
};

// What a control lcore does to a running program.
void change_things(port::Port& p, uint32_t round) {
  flow::Rule rule;
  rule.match.ipv4 = flow::Ipv4{};
  rule.match.udp = flow::Ports{.dst = flow::exactly(static_cast<uint16_t>(7000 + round % 8))};
  rule.action.count = true;
  const auto id = p.add_rule(rule);
  if (!id) std::printf("%s ", id.error().what);
  CU_ASSERT_TRUE(id.ok());
  CU_ASSERT_TRUE(p.set_filter({.all_multicast = round % 2 == 0}).ok());
  CU_ASSERT_TRUE(worker::Worker::create({.lcore = 7}).ok());
  auto keys = port::MkeyQueue::create(p.device(), {.keys = 8, .max_keys = 16});
  CU_ASSERT_TRUE(keys.ok() && (*keys)->grow(8).ok());
  if (id) CU_ASSERT_TRUE(p.remove_rule(*id).ok());
}

void asked_while_it_forwards() {
  const std::string wire = "cable:" + test::fresh("a");
  auto near = port_with(wire, Progress::poller, {.rxq = 2});
  auto far = port_with(wire, Progress::poller, {.rxq = 2});
  const Listed near_listed(*near), far_listed(*far);
  Game g(packets);
  const app::Program program{.name = "asked", .on_burst = Game::on_burst, .context = &g};
  Threads t({near.get(), far.get()}, 2, program);
  t.serve(0, packets);
  t.start();
  Questions q(t.frame->ports());
  const uint32_t most = long_check() ? 1000 : 140;
  std::thread asker([&q, most] {
    TelemetryClient client;
    while (q.asked < most) q.ask(client);
  });
  std::atomic<bool> over{false};
  std::thread second([&over] {  // a client beside the first one
    TelemetryClient client;
    while (!over.load()) (void)client.ask("/kilim/queues,0");
  });
  const uint64_t before = g.turns.load();
  for (uint32_t i = 0; i < most / 20; i++) change_things(*near, i);
  asker.join();
  over.store(true);
  second.join();
  CU_ASSERT_TRUE(wait_until([&] { return g.turns.load() > before + 1000; }));
  g.collect.store(true);
  CU_ASSERT_TRUE(wait_until([&] { return g.collected.load() == packets; }));
  t.stop();
  EQUAL(q.torn, 0u);
  EQUAL(q.refused, 0u);
  EQUAL(q.back, 0u);
  for (const auto& times : g.seen) EQUAL(times.load(), 1u);
  EQUAL(t.missed(), 0u);
}

// Everything in use is told: names, numbers, pages of queues, and what stop() left.
void what_is_told() {
  const std::string wire = "cable:" + test::fresh("a");
  auto near = port_with(wire, Progress::poller, {.rxq = 20, .txq = 3, .rxd = 64});
  auto far = port_with(wire, Progress::poller);
  const Listed near_listed(*near), far_listed(*far);
  const std::string name = near->name();
  EQUAL(number_of(ask("/kilim/info,0"), "started"), 0);
  Game g(packets);
  const app::Program program{.name = "told", .on_burst = Game::on_burst, .context = &g};
  {
    Threads t({near.get(), far.get()}, 1, program);
    const std::string info = ask("/kilim/info," + name);
    EQUAL(number_of(info, "started"), 1);
    EQUAL(number_of(info, "rxq"), 20);
    EQUAL(number_of(info, "rxd"), 64);
    CU_ASSERT(info.find("\"device\":\"" + std::string(near->device().name())) != std::string::npos);
    const std::string first = ask("/kilim/queues,0"), second = ask("/kilim/queues,0,16");
    CU_ASSERT(first.find("\"rx_q15\":{") != std::string::npos);
    CU_ASSERT(first.find("\"rx_q16\":{") == std::string::npos);
    CU_ASSERT(first.find("\"tx_q2\":{") != std::string::npos);
    EQUAL(number_of(first, "next_queue"), 16);
    CU_ASSERT(second.find("\"rx_q19\":{") != std::string::npos);
    EQUAL(number_of(second, "next_queue"), -1);
    CU_ASSERT(ask("/kilim/queues,0,x").find("where to begin is a number") != std::string::npos);
    CU_ASSERT(ask("/kilim/queues,0,1x").find("where to begin is a number") != std::string::npos);
    EQUAL(number_of(ask("/kilim/xstats,0,4294967295"), "rx_packets"), -1);
    const std::string regions = ask("/kilim/mr," + std::string(near->device().name()));
    EQUAL(number_of(regions, "pinned_regions"), 1);
    EQUAL(number_of(regions, "pinned_bytes"),
          static_cast<long long>(t.frame->pool().arena().memory().size()));
    t.serve(1, 10);
    for (int i = 0; i < 50; i++) t.frame->lanes()[0]->worker->round();
    EQUAL(number_of(ask("/kilim/stats," + name), "rx_packets"),
          static_cast<long long>(near->stats().rx_packets));
    CU_ASSERT(number_of(ask("/kilim/stats," + name), "rx_packets") > 0);
    CU_ASSERT_TRUE(near->stop_rx(3, nullptr).ok());
    const std::string queues = ask("/kilim/queues,0");
    EQUAL(number_of(queues.substr(queues.find("\"rx_q3\"")), "stopped"), 1);
    flow::Rule rule;
    rule.match.ipv4 = flow::Ipv4{};
    rule.match.udp = flow::Ports{.dst = flow::exactly(uint16_t{7})};
    rule.action.count = true;
    CU_ASSERT_TRUE(near->add_rule(rule).ok());
    const std::string flows = ask("/kilim/flows,0");
    EQUAL(number_of(flows, "rules"), 1);
    CU_ASSERT(flows.find("\"rule_1\":{\"counts\":1,\"packets\":0,\"bytes\":0}") !=
              std::string::npos);
    g.collect.store(true);
    for (int i = 0; i < 200; i++) t.frame->lanes()[0]->worker->round();
  }
  CU_ASSERT(number_of(ask("/kilim/stats,0"), "rx_packets") > 0);
  EQUAL(number_of(ask("/kilim/info,0"), "started"), 0);
  CU_ASSERT(ask("/kilim/queues,0") == R"({"/kilim/queues":{}})");
}

const kilim::test::Case cases[] = {
    {"a program that forwards is asked and loses nothing", asked_while_it_forwards},
    {"ports tell their queues, rules and states", what_is_told},
};

}  // namespace
}  // namespace telemetry_ut

KILIM_TEST_MAIN(telemetry) {
  if (!kilim::test::start_eal("0", kilim::test::Telemetry::socket)) return 2;
  const int rc = kilim::test::run_tables(
      "telemetry", {telemetry_ut::cases, kilim::test::capture_cases()}, argc, argv);
  rte_eal_cleanup();
  return rc;
}
