// SPDX-License-Identifier: BSD-3-Clause
// Statistics of a run as values, and their two forms: text for people and one JSON object. Main
// lcore; reading is safe while workers run.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "forwarder.hh"
#include "latency.hh"
#include "rates.hh"

namespace kilim::testpmd {

struct PortReport {
  std::string name;
  std::string hca;
  port::PortStats counts;
  uint64_t tx_dropped = 0;  // received and not taken by this port's transmit queue
  std::vector<port::RxQueueStats> rx_queues;      // shown where there are several
  std::string plan;                               // mode split: what the chooser decided
  std::array<uint64_t, chooser::ways> sent_by{};  // likewise: packets that were to go each way
};

struct Report {
  std::string mode;
  double seconds = 0;
  std::vector<PortReport> ports;
  uint64_t forwarded = 0;
  // TSC cycles of all lcores, by rounds with work: of streams, and of virtual devices that lcores
  // run. Idle rounds, and rounds in which the system took the lcore away, are in neither.
  uint64_t stream_cycles = 0, polled_cycles = 0;
  uint64_t preempted = 0;  // such rounds of devices
  uint64_t lcores = 0;
  bool uses_keys = false;
  bool measures_latency = false;
  Latency::Counts latency{};
  std::vector<PortRates> rates;  // empty: not measured

  [[nodiscard]] double mpps() const noexcept;
  // A forwarded packet's: program and library; the virtual device.
  [[nodiscard]] double library_cycles() const noexcept;
  [[nodiscard]] double device_cycles() const noexcept;
  // The share of the lcores' time, 0 to 1, that is in neither of the two.
  [[nodiscard]] double idle_share() const noexcept;
  [[nodiscard]] port::PortStats total() const noexcept;
  [[nodiscard]] uint64_t tx_dropped() const noexcept;
};

// Collects what was counted since the forwarder's begin, or its last clear_counts().
Report collect(Forwarder& f, double seconds, const Rates& rates);

void print_text(std::FILE* to, const Report& r, const char* title);
std::string to_json(const Report& r);

}  // namespace kilim::testpmd
