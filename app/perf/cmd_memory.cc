// SPDX-License-Identifier: BSD-3-Clause
// Test pool: packet buffers taken and given back 32 at a time, in turns with an rte_mempool.
#include <cstdio>
#include <memory>

#include "cli/json.hh"
#include "perf/command.hh"
#include "perf/compare/measure.hh"

namespace kilim::perf {
namespace {

void print(const Options& o, const LineResult& l) {
  if (o.json)
    cli::JsonObject()
        .text("test", l.line->metric)
        .real("ns", l.kilim_ns, 3)
        .real("peer", l.peer_ns, 3)
        .real("ratio", l.ratio(), 4)
        .real("goal", l.goal(), 2)
        .flag("met", l.met())
        .print();
  else
    std::printf("%-52s %9.2f ns, %s %.2f ns, ratio %.3f, goal %s\n", l.line->metric, l.kilim_ns,
                l.peer.c_str(), l.peer_ns, l.ratio(), goal_text(l).c_str());
}

int run_pool(const Options& o) {
  auto rig = std::make_unique<Rig>();
  if (const std::string why = rig->open(o.device); !why.empty()) {
    std::fprintf(stderr, "kilim-perf: %s\n", why.c_str());
    return 1;
  }
  const auto result = measure_line(*rig, pool_line, o.samples);
  if (!result) {
    std::fprintf(stderr, "kilim-perf: %s: a pool ran empty\n", pool_line.metric);
    return 1;
  }
  print(o, *result);
  return 0;
}

}  // namespace

const Command pool_test = {"pool", "packet buffers, 32 at a time, in turns with an rte_mempool",
                           run_pool};

}  // namespace kilim::perf
