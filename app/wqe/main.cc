// SPDX-License-Identifier: BSD-3-Clause
// Kilim-wqe: reads a recording of doorbells. `print` gives a line a WQE, `lint` a line a finding,
// `replay` posts it all on a virtual device. usertools/kilim-wqe.py is its front for people. One
// thread; the file is untrusted.
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kilim/base/version.h"
#include "kilim/diag/follow.hh"
#include "kilim/diag/recording.hh"
#include "kilim/prm/dump.hh"
#include "replay.hh"

namespace kilim::app {
namespace {

constexpr int usage_error = 2;

int refuse(const char* file, const char* why) {
  std::fprintf(stderr, "kilim-wqe: %s: %s\n", file, why);
  return usage_error;
}

// The doorbells of a recording; false: this is none, `why` says what is wrong.
bool read(const char* path, std::vector<Doorbell>& all, const char*& why) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return why = "the file cannot be opened", false;
  std::vector<char> file{std::istreambuf_iterator<char>(in), {}};
  diag::RecordingHead head;
  if (file.size() < sizeof(head)) return why = "the file is shorter than a recording's head", false;
  std::memcpy(&head, file.data(), sizeof(head));
  if (head.magic != diag::recording_magic) return why = "this is no recording of doorbells", false;
  if (head.used > file.size()) return why = "the recording is cut off", false;
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

int usage() {
  std::fputs(
      "usage: kilim-wqe print FILE\n"
      "       kilim-wqe lint FILE\n"
      "       kilim-wqe replay FILE\n"
      "       kilim-wqe --version\n",
      stderr);
  return usage_error;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0)
    return std::printf("kilim-wqe %s\n", kilim_version()) < 0 ? 1 : 0;
  if (argc < 3) return usage();
  const std::string_view what = argv[1];
  std::vector<Doorbell> all;
  const char* why = "";
  if (what != "print" && what != "lint" && what != "replay") return usage();
  if (!read(argv[2], all, why)) return refuse(argv[2], why);
  if (what == "print") return print(all);
  return what == "replay" ? replay(all) : lint(all);
}

}  // namespace
}  // namespace kilim::app

int main(int argc, char** argv) {
  return kilim::app::run(argc, argv);
}
