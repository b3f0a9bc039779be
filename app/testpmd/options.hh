// SPDX-License-Identifier: BSD-3-Clause
// The program's own command line, behind `--`, in testpmd's words. Main thread, before EAL starts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "cli/options.hh"
#include "kilim/worker/worker.hh"
#include "split.hh"

namespace kilim::testpmd {

using Mac = std::array<uint8_t, 6>;

struct Options {
  std::string mode = "io";
  uint32_t rxq = 0, txq = 0, rxd = 0, txd = 0;  // 0: as the port's devargs say
  bool rss_ip = false, rss_udp = false;         // how frames are spread; neither: by address
  uint32_t nb_cores = 1;
  uint32_t burst = 32;
  uint32_t mbuf_size = 2048;
  uint32_t max_packet = 0;   // bytes of the longest packet; 0: what a buffer holds
  uint32_t total_mbufs = 0;  // 0: what the rings need
  uint32_t tx_length = 64;   // txonly
  uint32_t keys = 512;       // umr, and split by keys
  SplitOptions split;
  uint32_t stats_period = 0;
  uint64_t num_packets = 0;
  uint32_t duration = 0;  // seconds
  worker::Idle idle = worker::Idle::yield;
  bool show_caps = false;
  bool pool_debug = false;  // pools watch their buffers
  bool json = false;
  std::string json_file;  // empty: stdout
  std::map<uint32_t, Mac> peers;
  uint32_t ports_asked = 0;  // --vdev net_kilim... among EAL's words
};

using cli::Exit;

// The program's name is the first word.
std::variant<Options, Exit> parse_options(int argc, char** argv);

// The whole help text but EAL's part.
std::string help_text();

}  // namespace kilim::testpmd
