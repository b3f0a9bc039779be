// SPDX-License-Identifier: BSD-3-Clause
#include "forward_report.hh"

#include <cinttypes>

#include <rte_lcore.h>

#include "kilim/rte_pmd_kilim.h"
#include "session.hh"

namespace kilim::testpmd {
namespace {

constexpr const char* border = "----------------------";
constexpr const char* all_border = "+++++++++++++++";

// What a row of fwd_stats_display() is made of.
struct Row {
  uint64_t rx = 0, rx_dropped = 0, tx = 0, tx_dropped = 0, no_buffer = 0, errors = 0;
  uint64_t bad_ip = 0, bad_l4 = 0;

  Row& operator+=(const Row& o) noexcept {
    rx += o.rx, rx_dropped += o.rx_dropped, tx += o.tx, tx_dropped += o.tx_dropped;
    no_buffer += o.no_buffer, errors += o.errors;
    return *this;
  }
};

void print_rx_row(const Row& r) {
  std::printf("  RX-packets: %-14" PRIu64 " RX-dropped: %-14" PRIu64 "RX-total: %-" PRIu64 "\n",
              r.rx, r.rx_dropped, r.rx + r.rx_dropped);
}

void print_tx_row(const Row& r) {
  std::printf("  TX-packets: %-14" PRIu64 " TX-dropped: %-14" PRIu64 "TX-total: %-" PRIu64 "\n",
              r.tx, r.tx_dropped, r.tx + r.tx_dropped);
}

void print_port(uint32_t port, const Row& r, bool checksums) {
  std::printf("\n  %s Forward statistics for port %-2u %s\n", border, port, border);
  print_rx_row(r);
  if (checksums)
    std::printf("  Bad-ipcsum: %-14" PRIu64 " Bad-l4csum: %-14" PRIu64
                "Bad-outer-l4csum: %-14d\n"
                "  Bad-outer-ipcsum: %-14d\n",
                r.bad_ip, r.bad_l4, 0, 0);
  if (r.errors + r.no_buffer > 0)
    std::printf("  RX-error: %-" PRIu64 "\n  RX-nombufs: %-14" PRIu64 "\n", r.errors, r.no_buffer);
  print_tx_row(r);
  std::printf("  %s--------------------------------%s\n", border, border);
}

void print_stream(const Stream& s, const Engine& engine) {
  const StreamCounts c = s.counts();
  const uint64_t rx = c.received - s.begun.received, tx = c.forwarded - s.begun.forwarded;
  const uint64_t dropped = c.dropped - s.begun.dropped;
  if (rx == 0 && tx == 0 && dropped == 0) return;
  std::printf(
      "\n  ------- Forward Stats for RX Port=%2u/Queue=%2u -> TX Port=%2u/Queue=%2u -------\n",
      s.rx_port, s.rx_queue, s.tx_port, s.tx_queue);
  std::printf("  RX-packets: %-14" PRIu64 " TX-packets: %-14" PRIu64 " TX-dropped: %-14" PRIu64, rx,
              engine.transmits ? tx : 0, dropped);
  if (&engine == &csum_engine)
    std::printf("  RX- bad IP checksum: %-14" PRIu64 "  Rx- bad L4 checksum: %-14" PRIu64
                " Rx- bad outer L4 checksum: %-14d\n RX- bad outer IP checksum: %-14d",
                c.bad_ip - s.begun.bad_ip, c.bad_l4 - s.begun.bad_l4, 0, 0);
  std::printf("\n");
}

Row row_of(Session& s, uint32_t port) {
  const port::PortStats now = counts_of(s.port(port)), then = s.memory(port).begun;
  Row r{.rx = now.rx_packets - then.rx_packets,
        .rx_dropped = now.rx_missed - then.rx_missed,
        .tx = now.tx_packets - then.tx_packets,
        .tx_dropped = now.all_tx_errors() - then.all_tx_errors(),
        .no_buffer = now.rx_no_buffer - then.rx_no_buffer,
        .errors = now.all_rx_errors() - then.all_rx_errors()};
  for (const Lane& lane : s.forwarder().lanes())
    for (const auto& st : lane.streams) {
      const StreamCounts c = st->counts();
      if (st->tx_port == port) r.tx_dropped += c.dropped - st->begun.dropped;
      if (st->rx_port == port) r.bad_ip += c.bad_ip - st->begun.bad_ip;
      if (st->rx_port == port) r.bad_l4 += c.bad_l4 - st->begun.bad_l4;
    }
  return r;
}

std::size_t streams_of(Forwarder& f) {
  std::size_t n = 0;
  for (const Lane& lane : f.lanes()) n += lane.streams.size();
  return n;
}

}  // namespace

std::string text_of(const Mac& mac) {
  char text[18];
  std::snprintf(text, sizeof text, "%02X:%02X:%02X:%02X:%02X:%02X", mac[0], mac[1], mac[2], mac[3],
                mac[4], mac[5]);
  return text;
}

// Once, as testpmd.
static void warn_of_odd_ports(Forwarder& f) {
  static bool told = false;
  if (told || f.options().topology != Topology::paired || f.forwarding().size() % 2 == 0) return;
  told = true;
  std::printf(
      "\nWarning! port-topology=paired and odd forward ports number, the last port will pair with "
      "itself.\n\n");
}

void print_forward_config(Forwarder& f) {
  warn_of_odd_ports(f);
  std::printf(
      "%s packet forwarding - ports=%zu - cores=%zu - streams=%zu - NUMA support enabled, "
      "MP allocation mode: native\n",
      f.engine().name, f.forwarding().size(), f.lanes().size(), streams_of(f));
  for (const Lane& lane : f.lanes()) {
    std::printf("Logical Core %u (socket %u) forwards packets on %zu streams:", lane.lcore,
                rte_lcore_to_socket_id(lane.lcore), lane.streams.size());
    for (const auto& s : lane.streams)
      std::printf("\n  RX P=%u/Q=%u (socket %d) -> TX P=%u/Q=%u (socket %d) peer=%s", s->rx_port,
                  s->rx_queue, numa_node_of(f.ports()[s->rx_port]), s->tx_port, s->tx_queue,
                  numa_node_of(f.ports()[s->tx_port]), text_of(s->peer).c_str());
    std::printf("\n");
  }
  std::printf("\n");
}

void print_rxtx_config(Forwarder& f) {
  std::printf("  %s packet forwarding packets/burst=%u\n", f.engine().name, f.options().burst);
  if (f.engine().makes)
    std::printf("  packet len=%u - nb packet segments=%zu\n", f.options().tx_length,
                std::max<std::size_t>(1, f.options().tx_segments.size()));
  std::printf("  nb forwarding cores=%zu - nb forwarding ports=%zu\n", f.lanes().size(),
              f.forwarding().size());
  for (uint32_t p = 0; p < f.ports().size(); p++) {
    const port::QueueSizes s = f.sizes_of(p);
    std::printf("  port %u: RX queue number: %u Tx queue number: %u\n", p, s.rxq, s.txq);
    std::printf("    RX queue: 0\n      RX desc=%u\n    TX queue: 0\n      TX desc=%u\n", s.rxd,
                s.txd);
  }
}

void print_forwarding_lcores(Forwarder& f) {
  std::printf("List of forwarding lcores:");
  for (const Lane& lane : f.lanes()) std::printf(" %2u", lane.lcore);
  std::printf("\n");
}

void print_forward_stats(Session& s) {
  Forwarder& f = s.forwarder();
  const bool checksums = &f.engine() == &csum_engine;
  if (streams_of(f) > f.forwarding().size())
    for (const Lane& lane : f.lanes())
      for (const auto& st : lane.streams) print_stream(*st, f.engine());
  Row all;
  for (const uint32_t p : f.forwarding()) {
    const Row r = row_of(s, p);
    print_port(p, r, checksums);
    all += r;
  }
  std::printf("\n  %s Accumulated forward statistics for all ports%s\n", all_border, all_border);
  print_rx_row(all);
  print_tx_row(all);
  if (all.no_buffer > 0) std::printf("  RX-nombufs: %-14" PRIu64 "\n", all.no_buffer);
  std::printf("  %s++++++++++++++++++++++++++++++++++++++++++++++%s\n", all_border, all_border);
}

// Ports of one cable, or one ring, see only what the other one sends.
void warn_of_silence(Forwarder& f, uint32_t tx_first, std::FILE* to) {
  if (tx_first != 0 || f.engine().makes || !f.engine().transmits) return;
  for (const uint32_t p : f.forwarding())
    if (!f.ends_here(p)) return;
  std::fprintf(
      to,
      "kilim-testpmd: all ports lie on cables between themselves, so nothing is sent until one "
      "of them begins: say `start tx_first`, or give --tx-first\n");
}

}  // namespace kilim::testpmd
