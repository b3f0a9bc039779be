// SPDX-License-Identifier: BSD-3-Clause
// Rates: packets and bits per second of the latest interval of each port and queue, their mean and
// greatest since the beginning, and the last intervals for a picture. Main lcore, which calls
// sample() now and then; safe while lanes forward.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "forwarder.hh"

namespace kilim::testpmd {

struct Rate {
  double pps = 0, bps = 0;
};

// One direction of a port or a queue.
struct Meter {
  Rate now, most, mean;
  uint64_t packets = 0, bytes = 0;              // at the last sample
  uint64_t first_packets = 0, first_bytes = 0;  // at the first
  void begin(uint64_t packets, uint64_t bytes) noexcept;
  void sample(uint64_t packets, uint64_t bytes, double interval, double since) noexcept;
};

struct PortRates {
  Meter rx, tx;
  std::vector<Meter> rx_queues, tx_queues;  // of Kilim's ports
};

class Rates {
 public:
  static constexpr std::size_t history = 60;

  void begin(Forwarder& f, uint64_t now_ns);
  // An interval of less than a fifth of a second is left to grow.
  void sample(Forwarder& f, uint64_t now_ns);
  [[nodiscard]] const std::vector<PortRates>& ports() const noexcept { return ports_; }
  [[nodiscard]] bool any() const noexcept { return samples_ != 0; }
  // Forwarded packets per second of the last intervals, the oldest first.
  [[nodiscard]] const std::vector<double>& past() const noexcept { return past_; }

 private:
  std::vector<PortRates> ports_;
  std::vector<double> past_;
  uint64_t begun_ = 0, last_ = 0, samples_ = 0;
};

}  // namespace kilim::testpmd
