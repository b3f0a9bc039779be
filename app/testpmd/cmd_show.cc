// SPDX-License-Identifier: BSD-3-Clause
// Commands that show and clear.
#include <cstdio>
#include <string>
#include <vector>

#include "commands.hh"
#include "forward_report.hh"
#include "nic_report.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

using Print = void (*)(Session&, uint32_t);

template <Print print>
void each_port(Session& s, const Line& line) {
  for (const uint32_t p : s.ports_of(line.word(3))) print(s, p);
}

void show_summary(Session& s, const Line& line) {
  print_summary_head(s);
  for (const uint32_t p : s.ports_of(line.word(3))) print_summary(s, p);
}

void clear_stats(Session& s, const Line& line) {
  for (const uint32_t p : s.ports_of(line.word(3))) {
    s.memory(p).cleared = s.memory(p).shown = counts_of(s.port(p));
    std::printf("\n  NIC statistics for port %u cleared\n", p);
  }
}

void show_macs(Session& s, const Line& line) {
  for (const uint32_t n : s.ports_of(line.word(2))) {
    port::Port* p = s.native_of(n);
    if (p == nullptr) return;
    const bool groups = line.word(3) == "mcast_macs";
    std::vector<Mac> list;
    if (!groups) list.push_back(p->info().mac);
    for (const flow::MacAddress& m : p->filter().macs)
      if (((m[0] & 1) != 0) == groups) list.push_back(m);
    std::printf("Number of %s address added: %zu\n", groups ? "Multicast MAC" : "MAC", list.size());
    for (const Mac& m : list) std::printf("  %s\n", text_of(m).c_str());
  }
}

void show_queue(Session& s, const Line& line) {
  const bool rx = line.word(1) == "rxq";
  for (const uint32_t n : s.ports_of(line.word(3))) {
    const uint32_t q = line.number(4);
    const port::QueueSizes z = s.forwarder().sizes_of(n);
    if (q >= (rx ? z.rxq : z.txq)) {
      std::fprintf(stderr, "Invalid %s queue %u: port %u has %u\n", rx ? "rx" : "tx", q, n,
                   rx ? z.rxq : z.txq);
      return;
    }
    std::printf(
        "\n********************* Infos for port %-2u, %s queue %-2u *********************\n", n,
        rx ? "RX" : "TX", q);
    if (rx) std::printf("RX buffer size: %u\n", s.options().mbuf_size);
    std::printf(
        "%s deferred start: off\n"
        "Number of %sDs: %u\n%s queue state: %s\n",
        rx ? "RX" : "TX", rx ? "RX" : "TX", rx ? z.rxd : z.txd, rx ? "Rx" : "Tx",
        s.forwarder().started(n) ? "started" : "stopped");
  }
}

void show_forward_stats(Session& s, const Line&) {
  print_forward_stats(s);
}
void clear_forward_stats(Session& s, const Line&) {
  s.clear_forward_counts();
}

void show_config(Session& s, const Line& line) {
  const std::string& what = line.word(2);
  if (what == "cores") return print_forwarding_lcores(s.forwarder());
  if (!s.running() && !s.settle()) return;
  if (what == "fwd") return print_forward_config(s.forwarder());
  if (what == "rxtx") return print_rxtx_config(s.forwarder());
  std::printf("Number of segments: %zu\nSegment sizes: ",
              std::max<std::size_t>(1, s.options().tx_segments.size()));
  if (s.options().tx_segments.empty()) std::printf("%u", s.options().tx_length);
  const char* between = "";
  for (const uint32_t n : s.options().tx_segments) std::printf("%s%u", between, n), between = ",";
  std::printf("\nSplit packet: off\n");
}

void show_forward_config(Session& s, const Line&) {
  if (!s.running() && !s.settle()) return;
  print_forward_config(s.forwarder());
}

constexpr CommandRow show_rows[] = {
    {"show port info <ports>", each_port<print_port_info>, "What a port is."},
    {"show port stats <ports>", each_port<print_nic_stats>,
     "Counts, and rates since the last show."},
    {"show port xstats <ports>", each_port<print_nic_xstats>, "All counts, queues too."},
    {"show port summary <ports>", show_summary, "A line for each port."},
    {"clear port stats|xstats <ports>", clear_stats, "Counts begin anew."},
    {"show port <port> macs|mcast_macs", show_macs, "Addresses that a port receives; groups."},
    {"show rxq|txq info <port> <n>", show_queue, "A queue."},
    {"show fwd stats all", show_forward_stats, "Counts since forwarding began."},
    {"show fwd stats", show_forward_stats, "The same."},
    {"clear fwd stats all", clear_forward_stats, "These begin anew."},
    {"clear fwd stats", clear_forward_stats, "The same."},
    {"show fwd config", show_forward_config, "Who forwards what to whom."},
    {"show config rxtx|cores|fwd|txpkts", show_config, "The configuration."},
};

}  // namespace

const Section show_commands{"display", "Displaying port, stats and config information", show_rows};

}  // namespace kilim::testpmd
