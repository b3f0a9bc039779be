// SPDX-License-Identifier: BSD-3-Clause
// kilim-perf: the command line is split at `--`, the program's part is judged before EAL starts,
// then one test runs.
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include <rte_eal.h>
#include <rte_errno.h>

#include "cli/options.hh"
#include "kilim/detail/base/last_words.hh"
#include "kilim/telemetry.hh"
#include "perf/command.hh"
#include "perf/options.hh"

namespace kilim::perf {
namespace {

constexpr const char* program = "kilim-perf";

int main(int argc, char** argv) {
  say_when_memory_is_used_up(program);
  if (cli::asks_version(argc, argv)) return cli::say_version(program);
  std::vector<char*> eal{argv[0]}, own{argv[0]};
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; i++) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0)
      return cli::say(program, {0, help_text()});
    eal.push_back(argv[i]);
  }
  for (i++; i < argc; i++) own.push_back(argv[i]);
  own.push_back(nullptr);
  const auto parsed = parse_options(static_cast<int>(own.size()) - 1, own.data());
  if (const auto* exit = std::get_if<Exit>(&parsed)) return cli::say(program, *exit);
  eal.push_back(nullptr);
  const auto& options = std::get<Options>(parsed);
  const Command& test = *find_test(options.test);
  if (test.before_eal != nullptr) test.before_eal(options);
  if (rte_eal_init(static_cast<int>(eal.size()) - 1, eal.data()) < 0)
    return cli::say(program,
                    {1, std::string("EAL did not start (") + rte_strerror(rte_errno) +
                            "; the lines above say why). Without hugepages or root add --no-huge "
                            "--no-shconf before `--`"});
  telemetry::offer();
  const int code = test.run(options);
  rte_eal_cleanup();
  return code;
}

}  // namespace
}  // namespace kilim::perf

int main(int argc, char** argv) {
  return kilim::perf::main(argc, argv);
}
