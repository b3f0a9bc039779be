// SPDX-License-Identifier: BSD-3-Clause
#include "stats.hh"

#include <cinttypes>
#include <utility>

#include "cli/json.hh"

namespace kilim::testpmd {
namespace {

// One row a counter: text and JSON name it alike for all ports and the total.
struct Row {
  const char* label;
  const char* json;
  uint64_t port::PortStats::*value;
};

constexpr Row traffic[] = {
    {"RX-packets", "rx_packets", &port::PortStats::rx_packets},
    {"RX-bytes", "rx_bytes", &port::PortStats::rx_bytes},
    {"TX-packets", "tx_packets", &port::PortStats::tx_packets},
    {"TX-bytes", "tx_bytes", &port::PortStats::tx_bytes},
    {"TX-completed", "tx_completed", &port::PortStats::tx_completed},
    {"keys-bound", "keys_bound", &port::PortStats::keys_bound},
    {"keys-ended", "keys_ended", &port::PortStats::keys_ended},
};

constexpr Row drops[] = {
    {"RX-missed", "rx_missed", &port::PortStats::rx_missed},
    {"RX-errors", "rx_errors", &port::PortStats::rx_errors},
    {"RX-too-long", "rx_too_long", &port::PortStats::rx_too_long},
    {"RX-discarded", "rx_discarded", &port::PortStats::rx_discarded},
    {"RX-no-buffer", "rx_no_buffer", &port::PortStats::rx_no_buffer},
    {"TX-errors", "tx_errors", &port::PortStats::tx_errors},
    {"bind-errors", "bind_errors", &port::PortStats::bind_errors},
};

void print_counts(std::FILE* to, const port::PortStats& c, uint64_t tx_dropped) {
  for (const Row& r : traffic) std::fprintf(to, "  %-14s %" PRIu64 "\n", r.label, c.*r.value);
  std::fprintf(to, "  drops:        ");
  for (const Row& r : drops) std::fprintf(to, " %s %" PRIu64 ",", r.label, c.*r.value);
  std::fprintf(to, " TX-dropped %" PRIu64 "\n", tx_dropped);
  if (c.recoveries != 0) std::fprintf(to, "  recoveries     %" PRIu64 "\n", c.recoveries);
  if (c.queues_down != 0) std::fprintf(to, "  queues-down    %" PRIu64 "\n", c.queues_down);
}

void add_counts(cli::JsonObject& to, const port::PortStats& c, uint64_t tx_dropped) {
  for (const Row& r : traffic) to.number(r.json, c.*r.value);
  cli::JsonObject lost;
  for (const Row& r : drops) lost.number(r.json, c.*r.value);
  lost.number("tx_dropped", tx_dropped);
  to.object("drops", std::move(lost));
  to.number("recoveries", c.recoveries).number("queues_down", c.queues_down);
}

constexpr chooser::Way split_ways[] = {chooser::Way::copy, chooser::Way::gather_list,
                                       chooser::Way::inline_key};

void print_split(std::FILE* to, const PortReport& p) {
  if (p.plan.empty()) return;
  std::fprintf(to, "  %-14s %s; sent:", "split", p.plan.c_str());
  for (const chooser::Way w : split_ways)
    std::fprintf(to, " %s %" PRIu64, chooser::name_of(w), p.sent_by[static_cast<std::size_t>(w)]);
  std::fprintf(to, "\n");
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
    std::fprintf(to,
                 "  RX queue %-5zu %" PRIu64 " packets, %" PRIu64 " bytes, errors %" PRIu64
                 ", no-buffer %" PRIu64 "%s\n",
                 i, q.packets, q.bytes, q.errors, q.no_buffer, q.down ? ", down" : "");
  }
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

double Report::cycles_per_packet() const noexcept {
  return forwarded != 0 ? static_cast<double>(busy_cycles) / static_cast<double>(forwarded) : 0;
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

Report collect(Forwarder& f, double seconds) {
  Report r;
  r.mode = f.engine().name;
  r.seconds = seconds;
  for (const PortRef& p : f.ports()) {
    r.ports.push_back({name_of(p), device_of(p), counts_of(p), 0, {}, {}, {}});
    if (f.engine().splits) r.ports.back().plan = chooser::text_of(f.plan(r.ports.size() - 1));
    if (p.native == nullptr) continue;
    for (uint32_t q = 0; q < p.native->sizes().rxq; q++)
      r.ports.back().rx_queues.push_back(p.native->rx_stats(q));
  }
  for (Lane& lane : f.lanes()) {
    r.busy_cycles += lane.worker->stats().busy_cycles;
    for (const auto& s : lane.streams) {
      r.forwarded += s->forwarded.read();
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
    print_counts(to, r.ports[i].counts, r.ports[i].tx_dropped);
    print_queues(to, r.ports[i].rx_queues);
    print_split(to, r.ports[i]);
  }
  std::fprintf(to, "all ports\n");
  print_counts(to, r.total(), r.tx_dropped());
  std::fprintf(to, "  %-14s %" PRIu64 ", %.3f Mpps, %.0f cycles a packet\n", "forwarded",
               r.forwarded, r.mpps(), r.cycles_per_packet());
  std::fflush(to);
}

std::string to_json(const Report& r) {
  constexpr int digits = 6;
  std::vector<cli::JsonObject> ports;
  for (const PortReport& p : r.ports) {
    cli::JsonObject& port = ports.emplace_back();
    port.text("name", p.name).text("hca", p.hca);
    add_counts(port, p.counts, p.tx_dropped);
    add_queues(port, p.rx_queues);
    add_split(port, p);
  }
  cli::JsonObject total;
  add_counts(total, r.total(), r.tx_dropped());
  total.number("forwarded", r.forwarded).real("mpps", r.mpps(), digits);
  total.real("cycles_per_packet", r.cycles_per_packet(), digits);
  cli::JsonObject all;
  all.text("mode", r.mode).real("seconds", r.seconds, digits).list("ports", std::move(ports));
  return all.object("total", std::move(total)).line();
}

}  // namespace kilim::testpmd
