// SPDX-License-Identifier: BSD-3-Clause
// kilim-testpmd: the command line is split at `--`, the program's part is judged before EAL starts,
// then set-up, run, final statistics.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "captures.hh"
#include "cli/folded.hh"
#include "cli/options.hh"
#include "control.hh"
#include "forward_report.hh"
#include "forwarder.hh"
#include "kilim/detail/base/last_words.hh"
#include "kilim/detail/base/nearest.hh"
#include "kilim/region.hh"
#include "net/kilim/devargs.hh"
#include "options.hh"
#include "prompt.hh"
#include "session.hh"
#include "stats.hh"

namespace kilim::testpmd {
namespace {

constexpr const char* program = "kilim-testpmd";

int say(const Exit& exit) {
  return cli::say(program, exit);
}

struct CommandLine {
  std::vector<char*> eal;                    // program name first
  std::vector<char*> own;                    // likewise
  bool help = false;                         // among EAL's words
  uint32_t ports = 0;                        // --vdev net_kilim... likewise
  std::map<std::string, std::string> wires;  // of these
  std::string refusal;                       // of the first --vdev that cannot be one of ours
};

// `--vdev net_kilim0,...` or `--vdev=net_kilim0,...`; EAL takes options cut short too.
// Empty: this is none.
std::string_view vdev_of(const char* word, const char* next) {
  const char* value = nullptr;
  if (std::strcmp(word, "--vdev") == 0) value = next;
  if (std::strncmp(word, "--vdev=", 7) == 0) value = word + 7;
  return value == nullptr ? "" : value;
}

constexpr std::string_view driver = "net_kilim";

// Said before EAL starts, which would say it in several lines, or nothing of a driver that it does
// not know. Drivers of others are EAL's to judge.
std::string refusal_of(std::string_view vdev) {
  const std::size_t comma = vdev.find(',');
  const std::string name(vdev.substr(0, comma));
  if (name.starts_with(driver)) {
    const std::string args(comma == std::string_view::npos ? "" : vdev.substr(comma + 1));
    auto parsed = net::parse_devargs(args.c_str());
    const auto* refusal = std::get_if<net::DevargsError>(&parsed);
    return refusal == nullptr ? "" : "--vdev " + name + ": " + refusal->why;
  }
  const std::string kind = name.substr(0, name.find_last_not_of("0123456789") + 1);
  const std::string hint = nearest_hint(kind, {&driver, 1});
  if (hint.empty() && kind.find("kilim") == std::string::npos) return "";
  return "--vdev " + name + ": there is no such driver" + hint +
         "; a port is --vdev net_kilimN[,DEVARGS]";
}

// The wire= of a vdev's devargs, empty: none, or it is no port of ours.
std::string wire_of(std::string_view vdev) {
  const std::size_t comma = vdev.find(',');
  if (!vdev.starts_with(driver) || comma == std::string_view::npos) return "";
  auto parsed = net::parse_devargs(std::string(vdev.substr(comma + 1)).c_str());
  const auto* args = std::get_if<net::Devargs>(&parsed);
  return args == nullptr || args->hca.wires.empty() ? "" : args->hca.wires.front();
}

CommandLine split(int argc, char** argv) {
  CommandLine c;
  c.eal.push_back(argv[0]);
  c.own.push_back(argv[0]);
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; i++) {
    c.eal.push_back(argv[i]);
    const std::string_view vdev = vdev_of(argv[i], argv[i + 1]);
    c.ports += vdev.starts_with(driver);
    if (const std::string wire = wire_of(vdev); !wire.empty())
      c.wires[std::string(vdev.substr(0, vdev.find(',')))] = wire;
    if (!vdev.empty() && c.refusal.empty()) c.refusal = refusal_of(vdev);
    c.help |= std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0;
  }
  for (i++; i < argc; i++) c.own.push_back(argv[i]);
  return c;
}

// Never returns: EAL prints its options and exits.
int help_all(char* name) {
  std::printf("%s\nEAL's own help follows.\n", cli::folded(help_text()).c_str());
  std::fflush(stdout);
  char option[] = "--help";
  char* args[] = {name, option};
  return rte_eal_init(2, args) < 0 ? 1 : 0;
}

Exit eal_failed() {
  return {1, std::string("EAL did not start (") + rte_strerror(rte_errno) +
                 "; the lines above say why). Without hugepages or root add --no-huge --no-shconf "
                 "before `--`; with hugepages reserve some (echo 128 > "
                 "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages) and add --in-memory"};
}

// Returns an exit code.
int report(const Options& options, const Report& r, bool lost) {
  const bool json_on_stdout = options.json && options.json_file.empty();
  print_text(json_on_stdout ? stderr : stdout, r, "final statistics");
  const int code = lost || r.total().queues_down != 0 ? 1 : 0;  // it did not do all its work
  if (!options.json) return code;
  std::FILE* to = json_on_stdout ? stdout : std::fopen(options.json_file.c_str(), "w");
  const std::string json = to_json(r);
  const bool ok = to != nullptr && std::fputs(json.c_str(), to) >= 0 && std::fflush(to) == 0;
  if (to != nullptr && to != stdout) std::fclose(to);
  return ok ? code : say({1, "--json=" + options.json_file + " cannot be written"});
}

void show_caps(std::FILE* to, Forwarder& forwarder) {
  for (const PortRef& p : forwarder.ports())
    if (p.native != nullptr)
      std::fprintf(to, "%s (%s): %s", p.native->name().c_str(), p.native->device().name(),
                   mr::odp_table(p.native->device().caps().odp).c_str());
}

// After the pools are destroyed, which looks for buffers that are still held. Returns an exit code.
int pool_verdict(const Options& options, int code) {
  if (!options.pool_debug) return code;
  const uint64_t faults = Forwarder::pool_faults();
  if (faults == 0) std::fprintf(stderr, "kilim-testpmd: --pool-debug: every buffer came back\n");
  return faults == 0 ? code : 1;
}

// Whether forwarding is started and by whom: the prompt, its file, or --auto-start.
int interact(const Options& options) {
  Session session(options);
  if (auto exit = session.open()) return say(*exit);
  if (std::string why = session.captures().begin(options.captures); !why.empty())
    return say({1, why});
  if (!options.cmdline_file.empty()) {
    if (!run_file(session, options.cmdline_file))
      return say({1, "--cmdline-file=" + options.cmdline_file + " cannot be read"});
    std::printf("Read CLI commands from %s\n", options.cmdline_file.c_str());
  }
  if (!session.quits() && options.auto_start) {
    std::printf("Start automatic packet forwarding\n");
    session.start(options.tx_first ? 1 : 0);
  }
  if (!session.quits()) run_prompt(session, [&session] { return session.tick(); });
  if (session.running()) session.stop();
  (void)session.end_captures(nullptr);
  std::printf("\nBye...\n");
  // What somebody began at the prompt is told there.
  const bool missing = !options.captures.empty() && session.captures().incomplete();
  return session.failed() || missing ? 1 : 0;
}

int forward(const Options& options) {
  auto made = Forwarder::create(options, stop_requested);
  if (const auto* exit = std::get_if<Exit>(&made)) return say(*exit);
  auto& forwarder = *std::get<std::unique_ptr<Forwarder>>(made);
  Captures captures;
  if (std::string why = captures.begin(options.captures); !why.empty()) return say({1, why});
  const bool json_on_stdout = options.json && options.json_file.empty();
  std::FILE* live = json_on_stdout ? stderr : stdout;
  std::fprintf(live, "kilim-testpmd: %zu port(s), mode %s, %zu forwarding lcore(s); SIGINT stops\n",
               forwarder.ports().size(), options.mode.c_str(), forwarder.lanes().size());
  if (options.show_caps) show_caps(live, forwarder);
  warn_of_silence(forwarder, options.tx_first ? 1 : 0, stderr);
  forwarder.rewind(options.tx_first ? 1 : 0);
  std::fflush(live);
  Control control(forwarder, options, live);
  const Report r = control.run();
  (void)captures.end(nullptr, nullptr, live);
  return report(options, r, control.lost() || captures.incomplete());
}

int run(const Options& options) {
  const int code = options.interactive ? interact(options) : forward(options);
  return pool_verdict(options, code);
}

// A run of hours should not find out at its end. The file is not changed before then.
std::optional<Exit> refusal_of_json(const Options& options) {
  if (!options.json || options.json_file.empty()) return std::nullopt;
  std::FILE* f = std::fopen(options.json_file.c_str(), "a");
  if (f == nullptr)
    return Exit{1, "--json=" + options.json_file + " cannot be written: " + std::strerror(errno)};
  std::fclose(f);
  return std::nullopt;
}

int main(int argc, char** argv) {
  say_when_memory_is_used_up(program);
  if (cli::asks_version(argc, argv)) return cli::say_version(program);
  CommandLine line = split(argc, argv);
  if (line.help) return help_all(argv[0]);
  line.own.push_back(nullptr);
  auto parsed = parse_options(static_cast<int>(line.own.size()) - 1, line.own.data());
  if (const auto* exit = std::get_if<Exit>(&parsed)) return say(*exit);
  if (!line.refusal.empty()) return say({1, line.refusal});
  if (auto exit = refusal_of_json(std::get<Options>(parsed))) return say(*exit);
  catch_signals();
  std::vector<char*> eal = line.eal;
  eal.push_back(nullptr);
  // A port's driver says why it does not come up; that it does not, EAL's bus need not say too.
  (void)rte_log_set_level_pattern("bus.vdev", RTE_LOG_CRIT);
  if (rte_eal_init(static_cast<int>(line.eal.size()), eal.data()) < 0) return say(eal_failed());
  auto& options = std::get<Options>(parsed);
  options.ports_asked = line.ports;
  options.wires = line.wires;
  const int code = run(options);
  rte_eal_cleanup();
  return code;
}

}  // namespace
}  // namespace kilim::testpmd

int main(int argc, char** argv) {
  return kilim::testpmd::main(argc, argv);
}
