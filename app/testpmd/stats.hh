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
  uint64_t busy_cycles = 0;  // of all lcores, a virtual device that they run included

  [[nodiscard]] double mpps() const noexcept;
  [[nodiscard]] double cycles_per_packet() const noexcept;
  [[nodiscard]] port::PortStats total() const noexcept;
  [[nodiscard]] uint64_t tx_dropped() const noexcept;
};

Report collect(Forwarder& f, double seconds);

void print_text(std::FILE* to, const Report& r, const char* title);
std::string to_json(const Report& r);

}  // namespace kilim::testpmd
