// SPDX-License-Identifier: BSD-3-Clause
// The rows of kilim-perf, and what no row can say: words, devices, plans.
#include "perf/options.hh"

#include <algorithm>
#include <string_view>

#include "perf/cmd_chooser.hh"
#include "perf/command.hh"
#include "perf/two_sided/agreement.hh"

namespace kilim::perf {
namespace {

// clang-format off
constexpr cli::Row<Options> rows[] = {
    {'d', "ib-dev", "DEV", &Options::device, "device: a card's name, or vhcaN for a virtual one, with more behind commas: ,wire=SPEC ,lint=off|warn|error ,progress=poll|thread; default vhca0"},
    {'p', "port", "PORT", &Options::port, "TCP port of the server, 1 to 65535; default 18515", {1, 65535}},
    {'x', "gid-index", "INDEX", &Options::gid_index, "GID to connect by, 0 to 255; default: the first one of RoCE v2", {0, 255}},
    {'c', "connection", "TYPE", &Options::connection, "RC, the only one there is"},
    {'s', "size", "BYTES", &Options::size, "bytes a message, 1 to 8388608; default 64", {1, most_bytes}},
    {'n', "iters", "N", &Options::iterations, "messages of each queue; default 5000", {1, 1'000'000'000}},
    {'D', "duration", "SECONDS", &Options::seconds, "run so long instead of counting messages, 1 to 3600", {1, 3600}},
    {'q', "qp", "N", &Options::queues, "queue pairs, 1 to 64; default 1", {1, most_queues}},
    {'t', "tx-depth", "N", &Options::depth, "messages under way in a queue, 1 to 4096; default 128", {1, most_depth}},
    {'l', "post_list", "N", &Options::list, "messages a doorbell, 1 to 4096; default 32", {1, most_depth}},
    {0, "inline_recv", "BYTES", &Options::inline_recv, "send: of the side that receives, messages of up to so many bytes come in their completion, 0 to 64; 0: none, to 32: entries of 64 bytes, to 64: of 128; default: 32, unless MLX5_SCATTER_TO_CQE=0", {0, 64}},
    {'R', "rdma_cm", nullptr, &Options::rdma_cm, "write, read, send, atomic: queues are connected by librdmacm; HOST is an RDMA address of the server, which has it for TCP too, and the port is the same"},
    {'a', "all", nullptr, &Options::all_sizes, "sizes from 2 to 8388608 bytes, doubled each time"},
    {0, "check", nullptr, &Options::check, "write, read, send, atomic: every byte that arrives is looked at; slow"},
    {0, "alone", nullptr, &Options::alone, "write, read, send, atomic: queues connected to themselves, no server, no client"},
    {0, "json", nullptr, &Options::json, "results as JSON, one object a line"},
    {0, "plan", "TEXT", &Options::plan, "umr: the chooser goes the way copy, list, inline, pointer or cached wherever it can, or has other costs, as copy.piece=12; several with commas"},
    {0, "seed", "N", &Options::seed, "umr: of the chooser's random layouts; default 1"},
    {0, "samples", "N", &Options::samples, "compare: samples of about 2 ms a side; default 9", {9, 1000}},
    {0, "only", "TEXT", &Options::only, "compare: metrics that contain TEXT"},
    {'h', "help", nullptr, help_text, "this text"},
};
// clang-format on
// `values` as in "|poll|thread|".
bool is_one_of(std::string_view values, std::string_view value) {
  const std::size_t at = values.find(value);
  const std::size_t end = at + value.size();
  return at != std::string_view::npos && value.find('|') == std::string_view::npos &&
         values[at - 1] == '|' && values[end] == '|';
}

// hca=, wire=, ...: where it goes in the options. False: no such word, or no such value.
bool parse_device_word(Options& o, std::string_view word) {
  struct Part {
    std::string_view name;
    std::string Options::*to;
    std::string_view values;  // between bars; empty: any
  };
  static constexpr Part parts[] = {{"hca=", &Options::device, ""},
                                   {"wire=", &Options::wire, ""},
                                   {"lint=", &Options::lint, "|off|warn|error|"},
                                   {"progress=", &Options::progress, "|poll|thread|"}};
  for (const Part& p : parts) {
    if (!word.starts_with(p.name)) continue;
    const std::string_view value = word.substr(p.name.size());
    o.*p.to = value;
    return !value.empty() && (p.values.empty() || is_one_of(p.values, value));
  }
  return false;
}

// `hca=vhca0,wire=unix:x` or `vhca0,wire=unix:x`; empty: accepted.
std::string parse_device(Options& o) {
  const std::string text = o.device;
  for (std::size_t at = 0, end = 0; end != text.size(); at = end + 1) {
    end = std::min(text.find(',', at), text.size());
    std::string word = text.substr(at, end - at);
    if (at == 0 && !word.starts_with("hca=")) word.insert(0, "hca=");
    if (parse_device_word(o, word)) continue;
    return word.insert(0, "-d " + text + ": ")
        .append(" is not understood; behind the device's name come wire=SPEC, ")
        .append("lint=off|warn|error, progress=poll|thread");
  }
  return "";
}

std::variant<Options, Exit> parse_words(Options o, int at, int argc, char** argv) {
  if (at == argc) return Exit{1, "no TEST is named; --help lists all"};
  o.test = argv[at++];
  const Command* test = find_test(o.test);
  if (test == nullptr) return Exit{1, "the test " + o.test + " is unknown; --help lists all"};
  if (at < argc && test->two_sided) o.host = argv[at++];
  if (!o.host.empty() && o.alone)
    return Exit{1, "--alone and the host " + o.host + " exclude each other"};
  if (o.rdma_cm && (o.alone || !test->two_sided))
    return Exit{
        1, "-R connects two processes, and " + (o.alone ? "--alone is one" : o.test + " is one")};
  if (o.rdma_cm && o.gid_index != any_gid)
    return Exit{1, "-R and -x exclude each other: the addresses say the GID"};
  if (o.connection != "RC")
    return Exit{1, "-c " + o.connection + ": kilim-perf measures reliable connections (RC) only"};
  if (const char* why = o.plan.empty() ? nullptr : why_no_plan(o.plan))
    return Exit{1, "--plan=" + o.plan + ": " + why};
  if (std::string why = parse_device(o); !why.empty()) return Exit{1, why};
  if (at < argc) return Exit{1, std::string("the word ") + argv[at] + " is too many"};
  return o;
}

}  // namespace

std::variant<Options, Exit> parse_options(int argc, char** argv) {
  Options o;
  const auto words = cli::parse(o, rows, {argc, argv, cli::Order::mixed});
  if (const auto* exit = std::get_if<Exit>(&words)) return *exit;
  return parse_words(o, std::get<int>(words), argc, argv);
}

std::string help_text() {
  std::string s =
      "kilim-perf measures Kilim: by itself on a virtual device, or between two processes.\n"
      "\n"
      "usage: kilim-perf [EAL options] -- TEST [options]         server, or a test of one process\n"
      "       kilim-perf [EAL options] -- TEST [options] HOST    client of the server at HOST\n"
      "       kilim-perf --version\n"
      "\ntests:\n";
  for (const Command* t : perf_tests()) s += cli::help_line(t->name, t->help);
  s += "\noptions:\n" + cli::help_of(rows);
  s +=
      "\nexamples, without hardware, hugepages or root:\n"
      "  kilim-perf --no-huge --no-shconf --no-pci -l 0 -- compare\n"
      "  W=$(mktemp -d)\n"
      "  kilim-perf --no-huge --no-shconf --no-pci -l 0 -- write -d vhca0,wire=unix:$W &\n"
      "  kilim-perf --no-huge --no-shconf --no-pci -l 1 -- write -d vhca0,wire=unix:$W localhost\n";
  return s;
}

}  // namespace kilim::perf
