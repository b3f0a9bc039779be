// SPDX-License-Identifier: BSD-3-Clause
// Kilim-wqe: reads a recording of doorbells. `print` gives a line a WQE, `lint` a line a finding,
// `replay` posts it all on a virtual device. usertools/kilim-wqe.py is its front for people. One
// thread; the file is untrusted.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options.hh"
#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/last_words.hh"
#include "kilim/detail/base/nearest.hh"
#include "kilim/diagnosis.hh"
#include "kilim/prm/dump.hh"
#include "replay.hh"

namespace kilim::app {
namespace {

constexpr const char* program = "kilim-wqe";
constexpr int usage_error = 2;

int refuse(const std::string& about, const std::string& why) {
  cli::say(program, {usage_error, about + ": " + why});
  return usage_error;
}

// From the begin, as much as there is room for; false: there is less.
bool read_all(int fd, std::span<char> into) {
  for (std::size_t at = 0; at < into.size();) {
    const ssize_t n = ::pread(fd, into.data() + at, into.size() - at, static_cast<off_t>(at));
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

// The doorbells of a recording; false: this is none, `why` says what is wrong.
bool read(const char* path, std::vector<Doorbell>& all, const char*& why) {
  constexpr uint64_t max_bytes = uint64_t{1} << 30;  // all of it lies in memory, twice
  const Fd in(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat st;
  if (!in || ::fstat(in.get(), &st) != 0) return why = "the file cannot be opened", false;
  if (!S_ISREG(st.st_mode)) return why = "this is no regular file, as a recording is", false;
  diag::RecordingHead head;
  if (::pread(in.get(), &head, sizeof(head), 0) != sizeof(head))
    return why = "the file is shorter than a recording's head", false;
  if (head.magic != diag::recording_magic) return why = "this is no recording of doorbells", false;
  if (head.used > static_cast<uint64_t>(st.st_size)) return why = "the recording is cut off", false;
  if (head.used > max_bytes) return why = "the recording is longer than 1 GiB", false;
  std::vector<char> file(head.used);
  if (!read_all(in.get(), file)) return why = "the recording cannot be read", false;
  for (std::size_t at = sizeof(head); at < head.used;) {
    Doorbell d;
    if (head.used - at < sizeof(d.record)) return why = "a record is cut off", false;
    std::memcpy(&d.record, file.data() + at, sizeof(d.record));
    at += sizeof(d.record);
    const uint64_t bytes = uint64_t{d.record.wqebbs} * wqebb_bytes;
    if (bytes == 0 || bytes > head.used - at)
      return why = "a record is longer than the file", false;
    const auto* from = reinterpret_cast<const std::byte*>(file.data() + at);
    d.blocks.assign(from, from + bytes);
    at += bytes;
    all.push_back(std::move(d));
  }
  return true;
}

int print(const std::vector<Doorbell>& all) {
  std::array<char, 8192> buffer;
  for (std::size_t i = 0; i < all.size(); i++) {
    each_wqe(all[i], [&](prm::lint::Bytes wqe) {
      prm::Text text{buffer};
      prm::dump_wqe(text, wqe, kind_of(all[i]));
      std::printf("doorbell %zu lcore %u: %s\n", i, all[i].record.lcore, text.c_str());
    });
  }
  return 0;
}

// 1: something was found.
int lint(const std::vector<Doorbell>& all) {
  std::map<uint32_t, diag::Follow> queues;
  std::size_t found = 0;
  std::array<char, 8192> buffer;
  for (std::size_t i = 0; i < all.size(); i++) {
    const Doorbell& d = all[i];
    diag::Follow& follow = queues.try_emplace(d.record.qpn, kind_of(d)).first->second;
    each_wqe(d, [&](prm::lint::Bytes wqe) {
      const prm::lint::Findings f = follow.next(wqe);
      for (std::size_t n = 0; n < f.count; n++, found++) {
        prm::Text text{buffer};
        prm::explain_finding(text, f.list[n]);
        text.put("; the WQE is: ");
        prm::dump_wqe(text, wqe, kind_of(d));
        std::printf("doorbell %zu: %s\n", i, text.c_str());
      }
    });
  }
  std::printf("%zu doorbells, %zu findings\n", all.size(), found);
  return found != 0 ? 1 : 0;
}

struct Options {};  // there is none with a value

struct Task {
  std::string_view name;
  const char* help;
  int (*run)(const std::vector<Doorbell>&);
};

constexpr Task tasks[] = {
    {"print FILE", "a line a WQE", print},
    {"lint FILE", "a line a finding; the exit status is 1 where there is one", lint},
    {"replay FILE", "posts it all on a virtual device; 1 where a request fails", replay},
};

std::string help_text();

constexpr cli::Row<Options> rows[] = {
    {'h', "help", nullptr, help_text,
     "this text; --version, as the first word: which Kilim this is"},
};

std::string help_text() {
  std::string s = "usage: kilim-wqe TASK FILE\nReads a recording of doorbells.\n\n";
  for (const Task& t : tasks) s += cli::help_line(t.name, t.help);
  return s + "\n" + cli::help_of(rows);
}

int run_task(const char* name, const char* file) {
  std::vector<std::string_view> known;
  for (const Task& t : tasks) known.push_back(t.name.substr(0, t.name.find(' ')));
  const auto at = std::ranges::find(known, name);
  if (at == known.end())
    return refuse(name, "this is no task" + nearest_hint(name, known) + "; --help lists all");
  std::vector<Doorbell> all;
  const char* why = "";
  if (!read(file, all, why)) return refuse(file, why);
  return tasks[at - known.begin()].run(all);
}

int run(int argc, char** argv) {
  say_when_memory_is_used_up(program);
  if (cli::asks_version(argc, argv)) return cli::say_version(program);
  Options none;
  const auto words = cli::parse(none, rows, {argc, argv, cli::Order::options_first});
  if (const auto* exit = std::get_if<cli::Exit>(&words))
    return cli::say(program, *exit) != 0 ? usage_error : 0;
  const int at = std::get<int>(words);
  if (argc - at != 2) return refuse("a task and a file are needed", "--help lists all");
  return run_task(argv[at], argv[at + 1]);
}

}  // namespace
}  // namespace kilim::app

int main(int argc, char** argv) {
  return kilim::app::run(argc, argv);
}
