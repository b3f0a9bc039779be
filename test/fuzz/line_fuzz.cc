// SPDX-License-Identifier: BSD-3-Clause
// Any text where a user of packet programs writes one: lines of kilim-testpmd's prompt with their
// completion, flow rules in testpmd's syntax, devargs of net_kilim, and the program's command line.
// The first byte says which. Nothing is run: test/net/run_prompt.py hostile runs lines of any kind.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "input_fixture.hh"
#include "kilim/detail/flow/rule.hh"
#include "net/kilim/devargs.hh"
#include "testpmd/commands.hh"
#include "testpmd/flow_words.hh"
#include "testpmd/options.hh"
#include "testpmd/words.hh"

namespace kilim::fuzz {
namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

// A line matches a row or is answered; what may follow its beginning matches further than it did.
void prompt_line(const std::string& text) {
  const testpmd::Words words = testpmd::split_words(text);
  for (const std::string& w : words) demand(!w.empty());
  const testpmd::Match m = testpmd::match_line(testpmd::command_table(), words);
  demand((m.row == nullptr) == !m.why.empty() && m.why.size() < 2000);
  demand(m.row == nullptr || m.rest <= words.size());
  if (m.row != nullptr) (void)testpmd::Line(words, m.rest).rest();
  for (std::size_t n = 0; n <= std::min<std::size_t>(words.size(), 8); n++)
    for (const std::string& next :
         testpmd::next_words(testpmd::command_table(), std::span(words).first(n)))
      demand(!next.empty() && next.find(' ') == std::string::npos);
}

// A rule that is read is judged as a port does, whatever its queues are.
void flow_rule(const std::string& text) {
  const testpmd::FlowWords f = testpmd::parse_flow(testpmd::split_words(text));
  demand(!f.complete || f.why.empty());
  demand(f.why.size() < 600 && f.next.size() < 40);
  if (!f.complete) return;
  demand(f.next.empty() && !f.text.empty());
  const flow::RuleError e = flow::check(f.rule, {.queues = 4});
  demand((e.code == 0) == (*e.what == 0));
}

void devargs(const std::string& text) {
  const auto parsed = net::parse_devargs(text.c_str());
  if (const auto* refused = std::get_if<net::DevargsError>(&parsed)) {
    demand(!refused->why.empty());
    return;
  }
  const auto& d = std::get<net::Devargs>(parsed);
  demand(d.rxq >= 1 && d.rxq <= 64 && d.txq >= 1 && d.txq <= 64 && d.port >= 1);
  demand(d.rxd >= 64 && d.rxd <= 8192 && (d.rxd & (d.rxd - 1)) == 0);
}

// A word a line; what is taken is in its range.
void command_line(const std::string& text) {
  std::vector<std::string> words{"kilim-testpmd"};
  for (std::size_t at = 0; at <= text.size() && words.size() < 64;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const auto parsed = testpmd::parse_options(static_cast<int>(words.size()), argv.data());
  if (const auto* exit = std::get_if<testpmd::Exit>(&parsed)) {
    demand(exit->code == 0 || !exit->message.empty());
    return;
  }
  const auto& o = std::get<testpmd::Options>(parsed);
  demand(o.burst >= 1 && o.burst <= 512 && o.tx_length >= 60 && o.tx_length <= 9216);
  uint64_t sum = 0;
  for (const uint32_t n : o.tx_segments) sum += n;
  demand(o.tx_segments.empty() || sum == o.tx_length);
  demand(testpmd::same_queues(o, o) && o.portmask != 0);
}

constexpr void (*readers[])(const std::string&) = {prompt_line, flow_rule, devargs, command_line};

Script of(uint8_t which, const std::string& text) {
  Script s;
  return s.put(which).text(text);
}

}  // namespace

std::vector<Seed> seeds() {
  return {
      {"a command", of(0, "show port stats all")},
      {"a command with numbers", of(0, "port config 0 rss reta (0,1),(1,0)")},
      {"one that testpmd has", of(0, "set vxlan ip-version ipv4")},
      {"a rule at the prompt",
       of(0, "flow create 0 ingress pattern eth / end actions queue index 1 / end")},
      {"a rule", of(1,
                    "group 0 priority 2 ingress pattern eth dst is 02:00:00:00:00:01 / vlan vid is "
                    "7 / ipv4 src spec 10.0.0.0 src prefix 8 proto is 17 / udp dst is 53 / end "
                    "actions mark id 5 / count / queue index 3 / end")},
      {"spreading",
       of(1, "pattern ipv6 / end actions rss types ipv6 ipv6-udp end queues 0 2 1 end / end")},
      {"a tunnel",
       of(1, "pattern eth / ipv4 / udp / vxlan vni is 9 / eth / ipv4 / end actions drop / end")},
      {"devargs", of(2,
                     "hca=vhca3,port=2,rxq=1,txq=4,rxd=64,txd=8192,wire=pcap:in:out,"
                     "progress=thread,fault=fatal@9,lint=warn,order=weak:7")},
      {"mlx5's devargs", of(2, "rxq_cqe_comp_en=1,txq_inline_max=0,mprq_en=0,txq_mpw_en=1")},
      {"a command line", of(3,
                            "--fwd=csum\n--rxq=2\n--burst\n16\n--txpkts=64,128,8\n--eth-peer=0,02:"
                            "00:00:00:00:07\n--portmask=0x3\n-i")},
      {"further options", of(3,
                             "--port-topology=chained\n--num-packets=7\n--json\n--stats-period=1\n-"
                             "-noisy-lkup-memory=1")}};
}

void run_input(Input in) {
  const auto which = in.take<uint8_t>();
  readers[which % std::size(readers)](in.rest());
}

}  // namespace kilim::fuzz
