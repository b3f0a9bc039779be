// SPDX-License-Identifier: BSD-3-Clause
// kilim-testpmd's statistics as text, of runs that had everything: they fit into 80 columns however
// large their numbers are, and every number stands there whole.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "testpmd/stats.hh"
#include "ut.hh"

namespace kilim::testpmd {
namespace statistics_ut {
namespace {

constexpr std::size_t columns = 80;

port::PortStats all_counts(uint64_t value) {
  static_assert(sizeof(port::PortStats) % sizeof(uint64_t) == 0);
  std::array<uint64_t, sizeof(port::PortStats) / sizeof(uint64_t)> words;
  words.fill(value);
  return std::bit_cast<port::PortStats>(words);
}

Meter meter_of(double value) {
  Meter m;
  m.now = m.most = m.mean = {value, value};
  return m;
}

// Of a mode with keys that splits, of two queues a port, with rates and latencies, whose counters
// all show `value`; `ports` of them.
Report report_of(uint64_t value, std::size_t ports) {
  const auto real = static_cast<double>(value);
  const port::RxQueueStats queue{.packets = value,
                                 .bytes = value,
                                 .errors = value,
                                 .too_long = value,
                                 .discarded = value,
                                 .no_buffer = value,
                                 .compressed = value,
                                 .joined = value,
                                 .down = true,
                                 .stopped = false};
  Report r;
  r.mode = "split";
  r.seconds = 1e7;
  for (std::size_t i = 0; i < ports; i++) {
    PortReport& p = r.ports.emplace_back();
    p.name = "net_kilim" + std::to_string(i);
    p.hca = "vhca" + std::to_string(i);
    p.counts = all_counts(value);
    p.tx_dropped = value;
    p.rx_queues = {queue, queue};
    p.plan =
        "copy to 256 B (copy 18446744073709551615 ns, gather_list 18446744073709551615 ns), "
        "gather_list "
        "to 4294967295 B (copy 18446744073709551615 ns)";
    p.sent_by.fill(value);
    const Meter m = meter_of(real);
    r.rates.push_back({m, m, {m, m}, {m, m}});
  }
  r.forwarded = value;
  r.stream_cycles = r.polled_cycles = value;
  r.lcores = 2;
  r.uses_keys = r.measures_latency = true;
  r.latency.fill(value);
  return r;
}

std::string text_of(const Report& r, const char* title) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const to = ::open_memstream(&text, &bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(to);
  print_text(to, r, title);
  std::fclose(to);
  std::string copy(text, bytes);
  std::free(text);
  return copy;
}

void check_width(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end - at > columns)
      std::printf("%zu columns: %.*s\n", end - at, static_cast<int>(end - at), &text[at]);
    CU_ASSERT(end - at <= columns);
    at = end + 1;
  }
}

// Lines that go on are joined, so that what stands in them can be looked for.
std::string joined_lines(const std::string& text) {
  std::string one;
  for (const char c : text)
    if ((c != ' ' && c != '\n') || (!one.empty() && one.back() != ' ')) one += c == '\n' ? ' ' : c;
  return one;
}

void they_fit_whatever_they_count() {
  for (const char* title : {"statistics", "final statistics"})
    for (const uint64_t value : {uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}})
      for (const std::size_t ports : {1u, 12u})
        check_width(text_of(report_of(value, ports), title));
  Report slow = report_of(~uint64_t{0}, 1);  // of all cycles one packet
  slow.forwarded = 1;
  check_width(text_of(slow, "statistics"));
}

// Each cause why a frame is lost, with its own number.
void no_number_is_cut() {
  Report r = report_of(~uint64_t{0}, 1);
  std::array<uint64_t, sizeof(port::PortStats) / sizeof(uint64_t)> words;
  for (std::size_t i = 0; i < words.size(); i++) words[i] = ~uint64_t{0} - i;
  r.ports[0].counts = std::bit_cast<port::PortStats>(words);
  const port::PortStats& c = r.ports[0].counts;
  const std::string text = joined_lines(text_of(r, "statistics"));
  const struct {
    const char* label;
    uint64_t value;
  } causes[] = {{"RX-missed", c.rx_missed},       {"RX-errors", c.rx_errors},
                {"RX-too-long", c.rx_too_long},   {"RX-discarded", c.rx_discarded},
                {"RX-no-buffer", c.rx_no_buffer}, {"RX-damaged", c.rx_damaged},
                {"RX-undersize", c.rx_undersize}, {"RX-oversize", c.rx_oversize},
                {"TX-errors", c.tx_errors},       {"TX-lost", c.tx_lost},
                {"bind-errors", c.bind_errors},   {"RX-cut", c.rx_cut},
                {"recoveries", c.recoveries},     {"queues-down", c.queues_down}};
  for (const auto& cause : causes) {
    const std::string said = std::string(cause.label) + " " + std::to_string(cause.value);
    if (text.find(said) == std::string::npos) std::printf("not there: %s\n", said.c_str());
    CU_ASSERT(text.find(said) != std::string::npos);
  }
}

const test::Case cases[] = {
    {"statistics fit into 80 columns whatever they count", they_fit_whatever_they_count},
    {"no number of the statistics is cut", no_number_is_cut},
};

}  // namespace
}  // namespace statistics_ut
}  // namespace kilim::testpmd

KILIM_TEST_SUITE(statistics, kilim::testpmd::statistics_ut::cases)
