// SPDX-License-Identifier: BSD-3-Clause
#include "options.hh"

#include <cctype>
#include <string_view>

#include "question.hh"

namespace kilim::exam {
namespace {

// "E1,f3": known questions, at least one.
std::string set_only(Options& o, const char* value) {
  std::string_view rest = value;
  while (true) {
    const std::size_t end = rest.find(',');
    std::string id(rest.substr(0, end));
    for (char& c : id) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (find_question(id) == nullptr)
      return "there is no question '" + id.substr(0, 20) + "'; --list has all";
    o.only.push_back(id);
    if (end == rest.npos) return "";
    rest.remove_prefix(end + 1);
  }
}

std::string set_compare(Options& o, const char* value) {
  o.reports.insert(o.reports.begin(), value);
  return *value == '\0' ? "the name of a report is needed" : "";
}

constexpr cli::Row<Options> rows[] = {
    {'d', "device", "NAME", &Options::device,
     "the RDMA device, as ibv_devices names it (the first)"},
    {'o', "out", "FILE", &Options::out, "write the report, as JSON"},
    {0, "html", "FILE", &Options::html,
     "write it as a page for a browser, which needs no other file"},
    {0, "only", "ID[,ID]...", set_only, "ask, or compare, these questions alone, as E1,E15"},
    {0, "list", nullptr, &Options::list, "say which questions there are, and end"},
    {0, "peer", "NAME", &Options::peer, "a second device, for questions that want one"},
    {0, "cable", nullptr, &Options::cable,
     "the ports of --device and --peer are on one cable: packets between them\nmay be lost on "
     "purpose"},
    {0, "disturb", nullptr, &Options::disturb,
     "ask also what changes the network interface for a moment (promiscuous,\nMTU, down)"},
    {0, "destroy", nullptr, &Options::destroy,
     "ask also what reloads the device (no question does yet)"},
    {0,
     "effort",
     "N",
     &Options::effort,
     "1 to 1000: counts and time limits of questions that repeat, times N (1)",
     {1, 1000}},
    {0,
     "limit",
     "SECONDS",
     &Options::limit,
     "1 to 3600: a question without an answer by then is killed (as its row\nsays, times --effort)",
     {1, 3600}},
    {0, "keep-names", nullptr, &Options::keep_names,
     "leave MACs, GIDs, GUIDs and addresses in the report"},
    {0, "compare", "REPORT", set_compare,
     "print where REPORT differs from a second REPORT, named behind it, or\n"
     "from what --device answers now, and what it means for Kilim; the exit\n"
     "status is 1 where there is a difference"},
    {'h', "help", nullptr, help_text,
     "this text; --version, as the first word: which Kilim this is"},
};

std::variant<Options, cli::Exit> refuse(const std::string& what) {
  return cli::Exit{exit_refused, what};
}

}  // namespace

std::string help_text() {
  return "usage: kilim-exam [OPTION]... [--compare REPORT [REPORT]]\n"
         "Asks an mlx5 device what Kilim cannot know without one, and writes a report.\n"
         "\n"
         "Each question runs in a process of its own with a time limit, on queues, rules and\n"
         "memory of its own; none touches what others made. Nothing but libibverbs and libmlx5\n"
         "is needed. CAP_NET_RAW (root) is, for questions about packets. It runs on a virtual\n"
         "card too: kilim-vhca -- kilim-exam.\n"
         "\n" +
         cli::help_of(rows) +
         "\n"
         "The report names no machine: addresses and GUIDs are replaced, also in dumps. What to\n"
         "do with it: doc/guides/exam.md. The exit status is 2 where something is refused.\n";
}

std::variant<Options, cli::Exit> parse(int argc, char** argv) {
  Options o;
  const auto words = cli::parse(o, rows, {argc, argv, cli::Order::mixed});
  if (const auto* exit = std::get_if<cli::Exit>(&words))
    return cli::Exit{exit->code == 0 ? 0 : exit_refused, exit->message};
  for (int i = std::get<int>(words); i < argc; i++) {
    if (o.reports.empty())
      return refuse(std::string("'") + argv[i] + "' is no option: reports stand behind --compare");
    o.reports.push_back(argv[i]);
  }
  if (o.reports.size() > 2) return refuse("--compare takes one report or two; three are named");
  if (o.cable && o.peer.empty())
    return refuse("--cable says how --device and --peer are joined: name the second by --peer");
  return o;
}

}  // namespace kilim::exam
