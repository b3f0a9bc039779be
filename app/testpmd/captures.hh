// SPDX-License-Identifier: BSD-3-Clause
// Captures of ports: those of --pcap, and those that the prompt begins and ends under traffic
// (kilim/capture.hh). Main thread; the ports outlive it.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kilim/capture.hh"

namespace kilim::testpmd {

class Captures {
 public:
  // Begins all of PORT:FILE, or none. A sentence, or empty.
  std::string begin(std::span<const std::string> all);
  // Begins one. A sentence, or empty.
  std::string begin(port::Port& port, const std::string& file);
  // Ends the port's, or with null all, and says what is in the files. `workers` serve the ports
  // now; null: nobody does. False: there was none.
  bool end(const port::Port* port, worker::Quiescence* workers, std::FILE* to);
  // A capture that has ended lacks packets.
  [[nodiscard]] bool incomplete() const noexcept { return incomplete_; }
  // Says what there is.
  void show(std::FILE* to) const;

 private:
  std::vector<std::unique_ptr<capture::Capture>> all_;
  bool incomplete_ = false;
};

}  // namespace kilim::testpmd
