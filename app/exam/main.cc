// SPDX-License-Identifier: BSD-3-Clause
// Kilim-exam: asks a device the questions of the chapters, each in a child process, and reports.
// One thread, which opens no device itself.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <variant>

#include <dlfcn.h>
#include <sys/utsname.h>

#include "child.hh"
#include "cli/options.hh"
#include "compare.hh"
#include "identity.hh"
#include "kilim/detail/base/last_words.hh"
#include "kilim/version.h"
#include "options.hh"
#include "question.hh"
#include "report.hh"

namespace kilim::exam {
namespace {

constexpr const char* program = "kilim-exam";
constexpr double seconds_of_identity = 30;

int refuse(const std::string& why) {
  cli::say(program, {exit_refused, why});
  return exit_refused;
}

// The file that a library was loaded from tells its version.
std::string library_of(const char* symbol) {
  Dl_info info{};
  void* at = ::dlsym(RTLD_DEFAULT, symbol);
  char path[4096];
  if (at == nullptr || ::dladdr(at, &info) == 0 || ::realpath(info.dli_fname, path) == nullptr)
    return "unknown";
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

std::vector<Pair> host_facts() {
  utsname name{};
  ::uname(&name);
  char day[32] = "";
  const std::time_t now = std::time(nullptr);
  tm utc{};
  std::strftime(day, sizeof day, "%Y-%m-%d", ::gmtime_r(&now, &utc));
  return {{"day", day},
          {"kernel", name.release},
          {"machine", name.machine},
          {"libibverbs", library_of("ibv_create_qp")},
          {"libmlx5", library_of("mlx5dv_init_obj")}};
}

// Why a question is not asked; empty: it is.
std::string why_not(const Question& q, const Options& o) {
  if (q.disturbs == Disturbs::netdev && !o.disturb)
    return "it changes the network interface: --disturb allows that";
  if (q.disturbs == Disturbs::device && !o.destroy)
    return "it reloads the device: --destroy allows that";
  if ((q.needs & needs::peer) != 0 && o.peer.empty()) return "it wants a second device: --peer";
  if ((q.needs & needs::cable) != 0 && !o.cable) return "it wants two ports on a cable: --cable";
  return "";
}

bool is_wanted(const std::string& id, const Options& o) {
  return o.only.empty() || std::ranges::find(o.only, id) != o.only.end();
}

Found ask(const Question& q, const Options& o) {
  Found found;
  found.ending = Ending::not_run;
  found.why = why_not(q, o);
  if (!found.why.empty()) return found;
  const double seconds = o.limit != 0 ? o.limit : static_cast<double>(q.seconds) * o.effort;
  return ask_in_child(q.ask, {o.device, o.peer, o.effort}, seconds);
}

// Empty: `report` is filled.
std::string examine(const Options& o, Report& report) {
  const Setting setting{o.device, o.peer, o.effort};
  const Found identity = ask_in_child(identify, setting, seconds_of_identity);
  if (identity.ending != Ending::answered) return identity.why;
  Secrets secrets;
  for (const Secret& s : identity.secrets) secrets.add(s);
  report.program = kilim_version();
  report.anonymised = !o.keep_names;
  report.device = identity.facts;
  report.host = host_facts();
  for (const Question* q : all_questions()) {
    if (!is_wanted(q->id, o)) continue;
    std::fprintf(stderr, "%s: %s: %s\n", program, q->id, q->title);
    const Found found = ask(*q, o);
    for (const Secret& s : found.secrets) secrets.add(s);
    report.entries.push_back(entry_of(q->id, q->title, found));
  }
  if (!o.keep_names) anonymise(report, secrets);
  return "";
}

// Empty: it is written.
std::string write_file(const std::string& path, const std::string& text) {
  std::FILE* f = std::fopen(path.c_str(), "we");
  if (f == nullptr) return path + " cannot be written: " + std::strerror(errno);
  bool good = std::fwrite(text.data(), 1, text.size(), f) == text.size();
  good = std::fclose(f) == 0 && good;
  return good ? "" : path + " cannot be written whole: " + std::strerror(errno);
}

int list() {
  for (const Question* q : all_questions()) {
    std::printf("%-4s %s\n", q->id, q->title);
    std::printf("     needs: %s%s%s%s\n", (q->needs & needs::raw) != 0 ? "CAP_NET_RAW " : "",
                (q->needs & needs::peer) != 0 ? "--peer " : "",
                (q->needs & needs::cable) != 0 ? "--cable " : "",
                q->disturbs == Disturbs::netdev   ? "--disturb"
                : q->disturbs == Disturbs::device ? "--destroy"
                : q->needs == 0                   ? "nothing"
                                                  : "");
    for (const Meaning& m : q->verdicts) std::printf("     %s: %s\n", m.verdict, m.for_kilim);
    std::printf("     on the virtual card: %s\n", q->turned_by);
  }
  return 0;
}

int compare_reports(const Options& o) {
  Report reports[2];
  std::string names[2];
  for (std::size_t i = 0; i < 2; i++) {
    names[i] = i < o.reports.size() ? o.reports[i] : "this device";
    if (i >= o.reports.size()) {
      const std::string why = examine(o, reports[i]);
      if (!why.empty()) return refuse(why);
      continue;
    }
    auto read = read_report(o.reports[i]);
    if (const auto* why = std::get_if<std::string>(&read))
      return refuse(o.reports[i] + ": " + *why);
    reports[i] = std::get<Report>(std::move(read));
    std::erase_if(reports[i].entries, [&](const Entry& e) { return !is_wanted(e.id, o); });
  }
  const Differences d = compare(reports[0], reports[1], names[0], names[1]);
  std::fputs(d.text.c_str(), stdout);
  return d.count == 0 ? 0 : exit_differs;
}

int examine_and_write(const Options& o) {
  Report report;
  std::string why = examine(o, report);
  if (why.empty() && !o.out.empty()) why = write_file(o.out, json_of(report));
  if (why.empty() && !o.html.empty()) why = write_file(o.html, html_of(report));
  if (!why.empty()) return refuse(why);
  std::fputs(text_of(report).c_str(), stdout);
  return 0;
}

int run(int argc, char** argv) {
  say_when_memory_is_used_up(program);
  if (cli::asks_version(argc, argv)) return cli::say_version(program);
  const auto parsed = parse(argc, argv);
  if (const auto* exit = std::get_if<cli::Exit>(&parsed))
    return cli::say(program, *exit) != 0 ? exit_refused : 0;
  const Options& o = std::get<Options>(parsed);
  if (o.list) return list();
  return o.reports.empty() ? examine_and_write(o) : compare_reports(o);
}

}  // namespace
}  // namespace kilim::exam

int main(int argc, char** argv) {
  return kilim::exam::run(argc, argv);
}
