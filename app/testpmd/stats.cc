// SPDX-License-Identifier: BSD-3-Clause
#include "stats.hh"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string>
#include <utility>

#include <rte_cycles.h>

#include "cli/folded.hh"
#include "cli/json.hh"

namespace kilim::testpmd {
namespace {

// One row a counter: text and JSON name it alike for all ports and the total.
struct CountRow {
  const char* label;
  const char* json;
  uint64_t port::PortStats::*value;
};

constexpr CountRow traffic[] = {
    {"RX-packets", "rx_packets", &port::PortStats::rx_packets},
    {"RX-bytes", "rx_bytes", &port::PortStats::rx_bytes},
    {"TX-packets", "tx_packets", &port::PortStats::tx_packets},
    {"TX-bytes", "tx_bytes", &port::PortStats::tx_bytes},
    {"TX-completed", "tx_completed", &port::PortStats::tx_completed},
};

// Text has them in modes that use keys, JSON always.
constexpr CountRow keys[] = {
    {"keys-bound", "keys_bound", &port::PortStats::keys_bound},
    {"keys-ended", "keys_ended", &port::PortStats::keys_ended},
};

// Text has it where there are some, JSON always.
constexpr CountRow joined{"RX-joined", "rx_joined", &port::PortStats::rx_joined};

constexpr CountRow drops[] = {
    {"RX-missed", "rx_missed", &port::PortStats::rx_missed},
    {"RX-errors", "rx_errors", &port::PortStats::rx_errors},
    {"RX-too-long", "rx_too_long", &port::PortStats::rx_too_long},
    {"RX-discarded", "rx_discarded", &port::PortStats::rx_discarded},
    {"RX-no-buffer", "rx_no_buffer", &port::PortStats::rx_no_buffer},
    {"RX-damaged", "rx_damaged", &port::PortStats::rx_damaged},
    {"RX-undersize", "rx_undersize", &port::PortStats::rx_undersize},
    {"RX-oversize", "rx_oversize", &port::PortStats::rx_oversize},
    {"TX-errors", "tx_errors", &port::PortStats::tx_errors},
    {"TX-lost", "tx_lost", &port::PortStats::tx_lost},
    {"bind-errors", "bind_errors", &port::PortStats::bind_errors},
};

// What stands behind a label, on as many lines as 80 columns take.
class Lines {
 public:
  Lines(std::FILE* to, const char* label) noexcept : to_(to) {
    column_ = static_cast<std::size_t>(std::fprintf(to, "  %-14s", label));
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() { std::fputc('\n', to_); }

  // A part that is not broken, with what separates it from the next one. A text alone goes by "%s":
  // distributions compile with -Werror=format-security.
  template <typename... A>
  requires(sizeof...(A) > 0) void add(const char* format, A... a) noexcept {
    char part[columns];
    std::snprintf(part, sizeof part, format, a...);
    const std::size_t bytes = std::strlen(part);
    if (column_ + 1 + bytes > columns && column_ > indent)
      column_ =
          static_cast<std::size_t>(std::fprintf(to_, "\n%*s", static_cast<int>(indent), "")) - 1;
    column_ += static_cast<std::size_t>(std::fprintf(to_, " %s", part));
  }

 private:
  static constexpr std::size_t columns = 80, indent = 16;
  std::FILE* to_;
  std::size_t column_;
};

void print_counts(std::FILE* to, const port::PortStats& c, uint64_t tx_dropped, bool uses_keys) {
  for (const CountRow& r : traffic) std::fprintf(to, "  %-14s %" PRIu64 "\n", r.label, c.*r.value);
  for (const CountRow& r : keys)
    if (uses_keys) std::fprintf(to, "  %-14s %" PRIu64 "\n", r.label, c.*r.value);
  if (c.rx_joined != 0) std::fprintf(to, "  %-14s %" PRIu64 "\n", joined.label, c.rx_joined);
  {
    Lines lost(to, "drops:");
    for (const CountRow& r : drops) lost.add("%s %" PRIu64 ",", r.label, c.*r.value);
    lost.add("TX-dropped %" PRIu64, tx_dropped);
  }
  if (c.rx_cut != 0) {
    Lines cut(to, "RX-cut");
    cut.add("%" PRIu64 " frames of which", c.rx_cut);
    cut.add("%s", "the capture has the beginning");
  }
  if (c.recoveries != 0) std::fprintf(to, "  recoveries     %" PRIu64 "\n", c.recoveries);
  if (c.queues_down != 0) std::fprintf(to, "  queues-down    %" PRIu64 "\n", c.queues_down);
}

void add_counts(cli::JsonObject& to, const port::PortStats& c, uint64_t tx_dropped) {
  for (const CountRow& r : traffic) to.number(r.json, c.*r.value);
  for (const CountRow& r : keys) to.number(r.json, c.*r.value);
  to.number(joined.json, c.rx_joined);
  cli::JsonObject lost;
  for (const CountRow& r : drops) lost.number(r.json, c.*r.value);
  lost.number("tx_dropped", tx_dropped);
  to.object("drops", std::move(lost));
  to.number("rx_cut", c.rx_cut)
      .number("recoveries", c.recoveries)
      .number("queues_down", c.queues_down);
}

constexpr chooser::Way split_ways[] = {chooser::Way::copy, chooser::Way::gather_list,
                                       chooser::Way::inline_key};

void print_split(std::FILE* to, const PortReport& p) {
  if (p.plan.empty()) return;
  std::string line = "  split          " + p.plan + "; sent:";
  for (const chooser::Way w : split_ways)
    line.append(" ")
        .append(chooser::name_of(w))
        .append(" ")
        .append(std::to_string(p.sent_by[static_cast<std::size_t>(w)]));
  std::fputs(cli::folded(line + "\n").c_str(), to);
}

void add_split(cli::JsonObject& to, const PortReport& p) {
  if (p.plan.empty()) return;
  cli::JsonObject split;
  split.text("plan", p.plan);
  for (const chooser::Way w : split_ways)
    split.number(chooser::name_of(w), p.sent_by[static_cast<std::size_t>(w)]);
  to.object("split", std::move(split));
}

void print_queues(std::FILE* to, const std::vector<port::RxQueueStats>& queues) {
  if (queues.size() < 2) return;
  for (std::size_t i = 0; i < queues.size(); i++) {
    const port::RxQueueStats& q = queues[i];
    Lines line(to, ("RX queue " + std::to_string(i)).c_str());
    line.add("%" PRIu64 " packets,", q.packets);
    line.add("%" PRIu64 " bytes,", q.bytes);
    line.add("errors %" PRIu64 ",", q.errors);
    line.add("no-buffer %" PRIu64 "%s", q.no_buffer, q.down ? ", down" : "");
  }
}

void print_rate(std::FILE* to, const char* name, const Meter& m) {
  Lines line(to, name);
  line.add("%.0f pps, %.0f bps;", m.now.pps, m.now.bps);
  line.add("mean %.0f pps, %.0f bps;", m.mean.pps, m.mean.bps);
  line.add("max %.0f pps, %.0f bps", m.most.pps, m.most.bps);
}

void print_rates(std::FILE* to, const PortRates& r) {
  print_rate(to, "RX-rate", r.rx);
  print_rate(to, "TX-rate", r.tx);
  for (std::size_t q = 0; r.rx_queues.size() > 1 && q < r.rx_queues.size(); q++)
    print_rate(to, ("RX-rate q" + std::to_string(q)).c_str(), r.rx_queues[q]);
  for (std::size_t q = 0; r.tx_queues.size() > 1 && q < r.tx_queues.size(); q++)
    print_rate(to, ("TX-rate q" + std::to_string(q)).c_str(), r.tx_queues[q]);
}

cli::JsonObject json_rate(const Meter& m) {
  cli::JsonObject o;
  o.real("pps", m.now.pps, 0).real("bps", m.now.bps, 0);
  o.real("mean_pps", m.mean.pps, 0).real("mean_bps", m.mean.bps, 0);
  o.real("max_pps", m.most.pps, 0).real("max_bps", m.most.bps, 0);
  return o;
}

void add_rates(cli::JsonObject& to, const PortRates& r) {
  to.object("rx_rate", json_rate(r.rx)).object("tx_rate", json_rate(r.tx));
}

void add_latency(cli::JsonObject& to, const Report& r) {
  if (!r.measures_latency) return;
  cli::JsonObject o;
  uint64_t all = 0;
  for (const uint64_t n : r.latency) all += n;
  o.number("packets", all).number("half_below_ns", latency_at(r.latency, 0.5));
  o.number("p99_below_ns", latency_at(r.latency, 0.99))
      .number("all_below_ns", latency_at(r.latency, 1));
  to.object("latency", std::move(o));
}

void add_queues(cli::JsonObject& to, const std::vector<port::RxQueueStats>& queues) {
  if (queues.size() < 2) return;
  std::vector<cli::JsonObject> list;
  for (const port::RxQueueStats& q : queues) {
    cli::JsonObject& one = list.emplace_back();
    one.number("packets", q.packets).number("bytes", q.bytes).number("errors", q.errors);
    one.number("no_buffer", q.no_buffer);
  }
  to.list("rx_queues", std::move(list));
}

}  // namespace

double Report::mpps() const noexcept {
  return seconds > 0 ? static_cast<double>(forwarded) / seconds / 1e6 : 0;
}

double Report::library_cycles() const noexcept {
  return forwarded != 0 ? static_cast<double>(stream_cycles) / static_cast<double>(forwarded) : 0;
}

double Report::device_cycles() const noexcept {
  return forwarded != 0 ? static_cast<double>(polled_cycles) / static_cast<double>(forwarded) : 0;
}

double Report::idle_share() const noexcept {
  const double all = seconds * static_cast<double>(rte_get_tsc_hz() * lcores);
  const double busy = static_cast<double>(stream_cycles + polled_cycles);
  return all > 0 ? std::clamp(1 - busy / all, 0.0, 1.0) : 1;
}

port::PortStats Report::total() const noexcept {
  port::PortStats sum;
  for (const PortReport& p : ports) sum += p.counts;
  return sum;
}

uint64_t Report::tx_dropped() const noexcept {
  uint64_t sum = 0;
  for (const PortReport& p : ports) sum += p.tx_dropped;
  return sum;
}

Report collect(Forwarder& f, double seconds, const Rates& rates) {
  Report r;
  r.mode = f.engine().name;
  r.seconds = seconds;
  r.lcores = f.lanes().size();
  r.uses_keys = f.engine().gathered || f.engine().splits;
  r.measures_latency = f.options().latency;
  if (rates.any()) r.rates = rates.ports();
  for (const PortRef& p : f.ports()) {
    r.ports.push_back({name_of(p), device_of(p), counts_of(p), 0, {}, {}, {}});
    if (f.engine().splits) r.ports.back().plan = chooser::text_of(f.plan(r.ports.size() - 1));
    if (p.native == nullptr) continue;
    for (uint32_t q = 0; q < p.native->sizes().rxq; q++)
      r.ports.back().rx_queues.push_back(p.native->rx_stats(q));
  }
  for (Lane& lane : f.lanes()) {
    for (const auto& d : lane.devices) {
      r.polled_cycles += d->cycles.read();
      r.preempted += d->preempted_rounds.read();
    }
    if (lane.latency) lane.latency->add_to(r.latency);
    for (const auto& s : lane.streams) {
      r.forwarded += s->forwarded.read();
      r.stream_cycles += s->cycles.read();
      r.ports[s->tx_port].tx_dropped += s->dropped.read();
      for (uint32_t i = 0; i < chooser::ways; i++)
        r.ports[s->tx_port].sent_by[i] += s->sent_by[i].read();
    }
  }
  return r;
}

void print_text(std::FILE* to, const Report& r, const char* title) {
  std::fprintf(to, "\n---- %s, mode %s, %.2f s\n", title, r.mode.c_str(), r.seconds);
  for (std::size_t i = 0; i < r.ports.size(); i++) {
    std::fprintf(to, "port %zu (%s on %s)\n", i, r.ports[i].name.c_str(), r.ports[i].hca.c_str());
    print_counts(to, r.ports[i].counts, r.ports[i].tx_dropped, r.uses_keys);
    print_queues(to, r.ports[i].rx_queues);
    if (i < r.rates.size()) print_rates(to, r.rates[i]);
    print_split(to, r.ports[i]);
  }
  std::fprintf(to, "all ports\n");
  print_counts(to, r.total(), r.tx_dropped(), r.uses_keys);
  if (r.measures_latency) std::fputs(cli::folded(latency_text(r.latency)).c_str(), to);
  std::fprintf(to, "  %-14s %" PRIu64 ", %.3f Mpps\n", "forwarded", r.forwarded, r.mpps());
  {
    Lines cycles(to, "cycles");
    cycles.add("library %.0f a packet,", r.library_cycles());
    cycles.add("virtual device %.0f;", r.device_cycles());
    cycles.add("%s", "the lcores were idle, or the system took");
    cycles.add("them, for %.0f%% of the time", 100 * r.idle_share());
  }
  std::fflush(to);
}

std::string to_json(const Report& r) {
  constexpr int digits = 6;
  std::vector<cli::JsonObject> ports;
  for (std::size_t i = 0; i < r.ports.size(); i++) {
    const PortReport& p = r.ports[i];
    cli::JsonObject& port = ports.emplace_back();
    port.text("name", p.name).text("hca", p.hca);
    add_counts(port, p.counts, p.tx_dropped);
    add_queues(port, p.rx_queues);
    if (i < r.rates.size()) add_rates(port, r.rates[i]);
    add_split(port, p);
  }
  cli::JsonObject total;
  add_counts(total, r.total(), r.tx_dropped());
  total.number("forwarded", r.forwarded).real("mpps", r.mpps(), digits);
  total.real("cycles_per_packet", r.library_cycles(), digits);
  total.real("device_cycles_per_packet", r.device_cycles(), digits);
  total.real("idle_share", r.idle_share(), digits);
  add_latency(total, r);
  cli::JsonObject all;
  all.text("mode", r.mode).real("seconds", r.seconds, digits).list("ports", std::move(ports));
  return all.object("total", std::move(total)).line();
}

}  // namespace kilim::testpmd
