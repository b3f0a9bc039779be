// SPDX-License-Identifier: BSD-3-Clause
// Test compare: every line, Kilim against libmlx5, in one process on two queues of one virtual
// device. Whether the device executes is said in each line.
#include <cstdio>
#include <memory>
#include <string_view>

#include "cli/json.hh"
#include "perf/command.hh"
#include "perf/compare/measure.hh"

namespace kilim::perf {
namespace {

void print_json(const LineResult& l) {
  cli::JsonObject all;
  all.text("metric", l.line->metric).real("kilim", l.kilim_ns, 3).real("peer", l.peer_ns, 3);
  all.real("ratio", l.ratio(), 4);
  if (l.instructions_ratio)
    all.real("instructions_ratio", *l.instructions_ratio, 4);
  else
    all.null("instructions_ratio");
  all.real("goal", l.goal(), 2).flag("met", l.met()).real("away", l.away, 3).text("unit", "ns");
  all.text("peer_is", l.peer);
  all.text("device", l.line->executing ? "executes" : "completes without executing").print();
}

void print_text(const LineResult& l) {
  char instructions[16] = "-";
  if (l.instructions_ratio)
    std::snprintf(instructions, sizeof instructions, "%.3f", *l.instructions_ratio);
  std::printf("%-52s %9.1f %9.1f  %6.3f  %5s  %-6s %6s  %s%s\n", l.line->metric, l.kilim_ns,
              l.peer_ns, l.ratio(), goal_text(l).c_str(), verdict(l).c_str(), instructions,
              l.peer.c_str(), l.line->executing ? "" : " *");
}

int run(const Options& o) {
  auto rig = std::make_unique<Rig>();
  if (const std::string why = rig->open(o.device); !why.empty()) {
    std::fprintf(stderr, "kilim-perf: %s\n", why.c_str());
    return 1;
  }
  if (!o.json)
    std::printf("%-52s %9s %9s  %6s  %5s  %-6s %6s  %s\n", "metric", "kilim ns", "peer ns", "ratio",
                "goal", "", "instr.", "peer's way");
  for (const Line* line : lines()) {
    if (std::string_view(line->metric).find(o.only) == std::string_view::npos) continue;
    const auto result = measure_line(*rig, *line, o.samples);
    if (!result) {
      std::fprintf(stderr, "kilim-perf: %s: a request failed\n", line->metric);
      return 1;
    }
    (o.json ? print_json : print_text)(*result);
    std::fflush(stdout);
  }
  if (!o.json)
    std::printf(
        "* the device completes these requests without executing them: a measurement of "
        "what the application's core spends\n");
  return 0;
}

}  // namespace

const Command compare_test = {"compare", "Kilim against libmlx5, line by line, with the goals",
                              run};

}  // namespace kilim::perf
