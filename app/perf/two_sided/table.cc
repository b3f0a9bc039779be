// SPDX-License-Identifier: BSD-3-Clause
#include "perf/two_sided/table.hh"

#include <cstdio>
#include <numeric>

#include "cli/json.hh"

namespace kilim::perf {

namespace {

bool shows_inlined(const Options& o) {
  return o.inline_recv != any_inline && o.test == "send";
}

}  // namespace

void print_head(const Options& o) {
  if (o.json) return;
  std::printf(
      " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]%s\n",
      shows_inlined(o) ? "   inlined here" : "");
  std::fflush(stdout);
}

void print_round(const Options& o, uint32_t bytes, const RoundEnd& r, const Inlined& inlined) {
  constexpr double mib = 1024.0 * 1024.0;
  const auto messages = static_cast<unsigned long long>(
      std::accumulate(r.messages.begin(), r.messages.end(), uint64_t{0}));
  const auto in_entries = static_cast<unsigned long long>(inlined.messages);
  const double seconds = static_cast<double>(r.nanoseconds) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(messages) / seconds : 0;
  const double average = rate * bytes / mib, peak = static_cast<double>(r.peak) / mib;
  if (o.json)
    cli::JsonObject()
        .text("test", o.test)
        .number("bytes", bytes)
        .number("iterations", messages)
        .real("peak_mib_s", peak, 2)
        .real("average_mib_s", average, 2)
        .real("mpps", rate / 1e6, 6)
        .number("inlined", in_entries)
        .number("inlined_bytes", inlined.bytes)
        .print();
  else if (shows_inlined(o))
    std::printf(" %-10u %-14llu %-19.2f %-21.2f %-15.6f %llu\n", bytes, messages, peak, average,
                rate / 1e6, in_entries);
  else
    std::printf(" %-10u %-14llu %-19.2f %-21.2f %-.6f\n", bytes, messages, peak, average,
                rate / 1e6);
  std::fflush(stdout);
}

}  // namespace kilim::perf
