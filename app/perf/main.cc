// SPDX-License-Identifier: BSD-3-Clause
// kilim-perf: the command line is split at `--`, the program's part is judged before EAL starts,
// then one test runs.
#include <cstdio>
#include <cstring>
#include <variant>
#include <vector>

#include <rte_eal.h>
#include <rte_errno.h>

#include "kilim/base/version.h"
#include "perf/command.hh"
#include "perf/options.hh"

namespace kilim::perf {
namespace {

int say(const Exit& exit) {
  if (!exit.message.empty()) std::fprintf(stderr, "kilim-perf: %s\n", exit.message.c_str());
  return exit.code;
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0)
    return std::printf("kilim-perf %s\n", kilim_version()) < 0 ? 1 : 0;
  std::vector<char*> eal{argv[0]}, own{argv[0]};
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; i++) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    eal.push_back(argv[i]);
  }
  for (i++; i < argc; i++) own.push_back(argv[i]);
  own.push_back(nullptr);
  const auto parsed = parse_options(static_cast<int>(own.size()) - 1, own.data());
  if (const auto* exit = std::get_if<Exit>(&parsed)) return say(*exit);
  eal.push_back(nullptr);
  if (rte_eal_init(static_cast<int>(eal.size()) - 1, eal.data()) < 0)
    return say({1, std::string("EAL did not start (") + rte_strerror(rte_errno) +
                       "; the lines above say why). Without hugepages or root add --no-huge "
                       "--no-shconf before `--`"});
  const auto& options = std::get<Options>(parsed);
  const int code = find_test(options.test)->run(options);
  rte_eal_cleanup();
  return code;
}

}  // namespace
}  // namespace kilim::perf

int main(int argc, char** argv) {
  return kilim::perf::main(argc, argv);
}
