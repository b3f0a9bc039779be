// SPDX-License-Identifier: BSD-3-Clause
#include "stats.hh"

#include <cinttypes>
#include <iterator>

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

std::string number(const char* name, uint64_t value) {
  return std::string("\"") + name + "\":" + std::to_string(value);
}

std::string fraction(const char* name, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "\"%s\":%.6f", name, value);
  return text;
}

// Names come from the command line: quotes, backslashes and control characters are escaped.
std::string text(const char* name, const std::string& value) {
  std::string s = std::string("\"") + name + "\":\"";
  for (const char c : value) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      s += '\\';
      s += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      s += escaped;
    } else {
      s += c;
    }
  }
  return s + "\"";
}

std::string counts_json(const port::PortStats& c, uint64_t tx_dropped) {
  std::string s;
  for (const Row& r : traffic) s += number(r.json, c.*r.value) + ",";
  s += "\"drops\":{";
  for (const Row& r : drops) s += number(r.json, c.*r.value) + ",";
  return s + number("tx_dropped", tx_dropped) + "}," + number("recoveries", c.recoveries) + "," +
         number("queues_down", c.queues_down);
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
  for (port::Port* p : f.ports()) {
    r.ports.push_back({p->name(), p->device().name(), p->stats(), 0});
    r.ports.back().counts.rx_missed = p->missed();
  }
  for (Lane& lane : f.lanes()) {
    r.busy_cycles += lane.worker->stats().busy_cycles;
    for (const auto& s : lane.streams) {
      r.forwarded += s->forwarded.read();
      r.ports[s->tx_port].tx_dropped += s->dropped.read();
    }
  }
  return r;
}

void print_text(std::FILE* to, const Report& r, const char* title) {
  std::fprintf(to, "\n---- %s, mode %s, %.2f s\n", title, r.mode.c_str(), r.seconds);
  for (std::size_t i = 0; i < r.ports.size(); i++) {
    std::fprintf(to, "port %zu (%s on %s)\n", i, r.ports[i].name.c_str(), r.ports[i].hca.c_str());
    print_counts(to, r.ports[i].counts, r.ports[i].tx_dropped);
  }
  std::fprintf(to, "all ports\n");
  print_counts(to, r.total(), r.tx_dropped());
  std::fprintf(to, "  %-14s %" PRIu64 ", %.3f Mpps, %.0f cycles a packet\n", "forwarded",
               r.forwarded, r.mpps(), r.cycles_per_packet());
  std::fflush(to);
}

std::string to_json(const Report& r) {
  std::string s = "{";
  s += text("mode", r.mode) + "," + fraction("seconds", r.seconds) + ",\"ports\":[";
  for (std::size_t i = 0; i < r.ports.size(); i++) {
    const PortReport& p = r.ports[i];
    s += std::string(i == 0 ? "" : ",") + "{" + text("name", p.name) + "," + text("hca", p.hca) +
         "," + counts_json(p.counts, p.tx_dropped) + "}";
  }
  s += "],\"total\":{" + counts_json(r.total(), r.tx_dropped()) + "," +
       number("forwarded", r.forwarded) + "," + fraction("mpps", r.mpps()) + "," +
       fraction("cycles_per_packet", r.cycles_per_packet()) + "}}\n";
  return s;
}

}  // namespace kilim::testpmd
