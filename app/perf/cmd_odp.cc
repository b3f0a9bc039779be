// SPDX-License-Identifier: BSD-3-Clause
// Test odp: measures nothing; prints a device's capabilities of on-demand paging as a table.
#include <cstdio>

#include "attach/resolve.hh"
#include "kilim/mr/odp_caps.hh"
#include "perf/command.hh"

namespace kilim::perf {
namespace {

void print_json(const mr::OdpCaps& odp) {
  constexpr const char* names[mr::odp_transports] = {"rc", "uc", "ud", "dc", "xrc", "raw_eth"};
  std::printf("{\"odp\": %s, \"odp_implicit\": %s", odp.supported ? "true" : "false",
              odp.implicit ? "true" : "false");
  for (std::size_t t = 0; t < mr::odp_transports; t++) {
    std::printf(", \"%s_odp_caps\": ", names[t]);
    if (odp.operations[t]) {
      std::printf("%u", *odp.operations[t]);
    } else {
      std::printf("\"not reported\"");
    }
  }
  std::puts("}");
}

int run_odp(const Options& o) {
  auto attached = attach::resolve({.name = o.device, .wire = ""});
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
