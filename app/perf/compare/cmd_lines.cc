// SPDX-License-Identifier: BSD-3-Clause
// Tests umr, cq and gather: Kilim's own side of the lines of compare that are about it.
#include <cstdio>
#include <memory>
#include <span>

#include "cli/json.hh"
#include "mlx5/open.hh"
#include "perf/cmd_chooser.hh"
#include "perf/command.hh"
#include "perf/compare/measure.hh"

namespace kilim::perf {
namespace {

void print(const Options& o, const char* metric, const char* name, double ns) {
  if (o.json)
    cli::JsonObject().text("test", metric).text("case", name).real("ns", ns, 3).print();
  else
    std::printf("%-52s %-12s %9.1f ns\n", metric, name, ns);
}

int run_lines(const Options& o, Rig& rig, std::span<const Line* const> wanted) {
  if (const std::string why = rig.open(o.device); !why.empty()) {
    std::fprintf(stderr, "kilim-perf: %s\n", why.c_str());
    return 1;
  }
  for (const Line* line : wanted) {
    for (const Case& c : line->cases) {
      Line own = *line;
      own.cases = {&c, 1};
      const auto result = measure_line(rig, own, o.samples);
      if (!result) {
        std::fprintf(stderr, "kilim-perf: %s: a request failed\n", line->metric);
        return 1;
      }
      print(o, line->metric, c.name, result->kilim_ns);
    }
  }
  return 0;
}

int run_lines(const Options& o, std::span<const Line* const> wanted) {
  auto rig = std::make_unique<Rig>();
  return run_lines(o, *rig, wanted);
}

// The lines, and the chooser on the same adapter, opened once more.
int run_umr(const Options& o) {
  constexpr const Line* wanted[] = {&umr_single_line, &umr_batch_line, &patch_line};
  auto rig = std::make_unique<Rig>();
  if (const int code = run_lines(o, *rig, wanted); code != 0) return code;
  auto device = mlx5::open(
      o.device.c_str(),
      {[](void* a) { static_cast<vhca::entry::Attached*>(a)->poll(); }, rig->device.attached()});
  if (device) return show_plan(o, **device);
  std::fprintf(stderr, "kilim-perf: %s\n", device.error().what);
  return 1;
}
int run_cq(const Options& o) {
  constexpr const Line* wanted[] = {&completion_line, &empty_poll_line};
  return run_lines(o, wanted);
}
int run_gather(const Options& o) {
  constexpr const Line* wanted[] = {&gather_line, &gather_device_line, &gather_floor_line};
  return run_lines(o, wanted);
}

}  // namespace

const Command umr_test = {
    "umr", "keys are given lists, one per doorbell, 32, one granule; the chooser", run_umr};
const Command cq_test = {"cq", "completions, 32 at a time, and empty polls", run_cq};
const Command gather_test = {"gather", "16 scattered KiB as one message, by UMR", run_gather};

}  // namespace kilim::perf
