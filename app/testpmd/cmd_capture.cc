// SPDX-License-Identifier: BSD-3-Clause
// Commands that testpmd has not: packets of a port in a file.
#include <cstdio>
#include <string>

#include "commands.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

void start(Session& s, const Line& line) {
  for (const uint32_t n : s.ports_of(line.word(2))) {
    port::Port* p = s.native_of(n);
    if (p == nullptr) continue;
    const std::string why = s.captures().begin(*p, line.word(3));
    if (!why.empty()) std::fprintf(stderr, "%s: %s\n", line.word(3).c_str(), why.c_str());
  }
}

void stop(Session& s, const Line& line) {
  for (const uint32_t n : s.ports_of(line.word(2))) {
    const port::Port* p = s.port(n).native;
    if (p != nullptr && !s.end_captures(p) && line.word(2) != "all")
      std::printf("port %u is not captured\n", n);
  }
}

void show(Session& s, const Line&) {
  s.captures().show(stdout);
}

constexpr CommandRow capture_rows[] = {
    {"capture start <port> <text>", start, "Write the port's packets to a file (pcapng)."},
    {"capture stop <ports>", stop, "End that; the file is complete then."},
    {"show captures", show, "What is written, and how much was left out."},
};

}  // namespace

const Section capture_commands{"capture", "Packets of ports in files (not testpmd's)",
                               capture_rows};

}  // namespace kilim::testpmd
