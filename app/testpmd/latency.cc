// SPDX-License-Identifier: BSD-3-Clause
#include "latency.hh"

#include <cinttypes>
#include <cstdio>

#include <time.h>

#include "forward.hh"

namespace kilim::testpmd {
namespace {

std::string duration(uint64_t ns) {
  char text[32];
  if (ns < 10'000)
    std::snprintf(text, sizeof text, "%" PRIu64 " ns", ns);
  else if (ns < 10'000'000)
    std::snprintf(text, sizeof text, "%" PRIu64 " us", ns / 1000);
  else
    std::snprintf(text, sizeof text, "%" PRIu64 " ms", ns / 1'000'000);
  return text;
}

uint64_t edge(std::size_t i) {
  return uint64_t{1} << i;
}

}  // namespace

uint64_t latency_at(const Latency::Counts& counts, double share) noexcept {
  uint64_t all = 0, seen = 0;
  for (const uint64_t n : counts) all += n;
  for (std::size_t i = 0; i < counts.size(); i++) {
    seen += counts[i];
    if (seen != 0 && static_cast<double>(seen) >= share * static_cast<double>(all)) return edge(i);
  }
  return 0;
}

std::string latency_text(const Latency::Counts& counts) {
  constexpr uint64_t widest = 40;
  uint64_t most = 0;
  std::size_t first = counts.size(), last = 0;
  for (std::size_t i = 0; i < counts.size(); i++) {
    most = std::max(most, counts[i]);
    if (counts[i] == 0) continue;
    first = std::min(first, i);
    last = i;
  }
  if (most == 0) return "  latency        no packet with a time stamp\n";
  std::string text =
      "  latency        arrival to receive: half below " + duration(latency_at(counts, 0.5));
  text.append(", 99% below ").append(duration(latency_at(counts, 0.99)));
  text.append(", all below ").append(duration(latency_at(counts, 1))).append("\n");
  for (std::size_t i = first; i <= last; i++) {
    char line[64];
    std::snprintf(line, sizeof line, "    < %8s %12" PRIu64 " ", duration(edge(i)).c_str(),
                  counts[i]);
    text.append(line).append(counts[i] * widest / most, '#').append("\n");
  }
  return text;
}

// A stamp of the future is the clocks' disagreement.
void note_latency(Stream& s, std::span<const pool::Handle> packets) noexcept {
  constexpr uint64_t second = 1'000'000'000;
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const uint64_t now = static_cast<uint64_t>(t.tv_sec) * second + static_cast<uint64_t>(t.tv_nsec);
  const queue::DeviceClock& clock = s.latency->clock(s.rx_port, now);
  bool first = true;
  for (const pool::Handle h : packets) {
    if (first && h.has(pool::Handle::side)) {
      const uint64_t then = clock.ns(s.cache->arena().side(h).timestamp);
      s.latency->add(now > then ? now - then : 0);
    }
    first = !h.has(pool::Handle::more);
  }
}

}  // namespace kilim::testpmd
