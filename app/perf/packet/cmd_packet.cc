// SPDX-License-Identifier: BSD-3-Clause
// Test packet: packets through the bursts on an emulated NIC, against the floor loop.
#include <cstdio>
#include <memory>

#include "cli/json.hh"
#include "perf/command.hh"
#include "perf/compare/measure.hh"
#include "perf/packet/emulated_nic.hh"

namespace kilim::perf {
namespace {

void print_json(const LineResult& l) {
  cli::JsonObject()
      .text("test", l.line->metric)
      .real("kilim", l.kilim_ns, 3)
      .real("floor", l.peer_ns, 3)
      .real("ratio", l.ratio(), 4)
      .real("goal", l.goal(), 2)
      .flag("met", l.met())
      .text("unit", "ns")
      .print();
}

void print_text(const LineResult& l) {
  std::printf("%-52s %9.2f %9.2f  %6.3f  %5s  %s\n", l.line->metric, l.kilim_ns, l.peer_ns,
              l.ratio(), goal_text(l).c_str(), verdict(l).c_str());
}

int run(const Options& o) {
  auto rig = std::make_unique<Rig>();
  if (const std::string why = rig->open(o.device); !why.empty()) {
    std::fprintf(stderr, "kilim-perf: %s\n", why.c_str());
    return 1;
  }
  if (!o.json)
    std::printf(
        "%u bytes, bursts of %u, rings of %u; the NIC's work is not in the numbers\n"
        "%-52s %9s %9s  %6s  %5s\n",
        packet_bytes, round_requests, packet_ring, "ns a packet", "kilim", "floor", "ratio",
        "goal");
  for (const Line& line : packet_lines()) {
    const auto result = measure_line(*rig, line, o.samples);
    if (!result) {
      std::fprintf(stderr, "kilim-perf: %s: packets were lost\n", line.metric);
      return 1;
    }
    (o.json ? print_json : print_text)(*result);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

const Command packet_test = {"packet", "packets forwarded in bursts, against a floor loop", run};

}  // namespace kilim::perf
