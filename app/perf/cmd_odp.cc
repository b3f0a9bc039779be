// SPDX-License-Identifier: BSD-3-Clause
// Test odp: measures nothing; prints a device's capabilities of on-demand paging as a table.
#include <cstdio>
#include <string>

#include "cli/json.hh"
#include "kilim/device.hh"
#include "kilim/region.hh"
#include "perf/command.hh"

namespace kilim::perf {
namespace {

void print_json(const mr::OdpCaps& odp) {
  constexpr const char* names[mr::odp_transports] = {"rc", "uc", "ud", "dc", "xrc", "raw_eth"};
  cli::JsonObject all;
  all.flag("odp", odp.supported).flag("odp_implicit", odp.implicit);
  for (std::size_t t = 0; t < mr::odp_transports; t++) {
    const std::string name = std::string(names[t]) + "_odp_caps";
    if (odp.operations[t])
      all.number(name.c_str(), *odp.operations[t]);
    else
      all.text(name.c_str(), "not reported");
  }
  all.print();
}

int run_odp(const Options& o) {
  auto attached = attach::resolve({.name = o.device});
  if (!attached) {
    std::fprintf(stderr, "kilim-perf: %s: %s\n", o.device.c_str(), attached.error().what);
    return 1;
  }
  const mr::OdpCaps& odp = attached->device->caps().odp;
  if (o.json) {
    print_json(odp);
  } else {
    std::fputs(mr::odp_table(odp).c_str(), stdout);
  }
  return 0;
}

}  // namespace

const Command odp_test = {"odp", "what the device can do with on-demand paging", run_odp};

}  // namespace kilim::perf
