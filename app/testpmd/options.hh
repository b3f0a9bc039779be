// SPDX-License-Identifier: BSD-3-Clause
// The program's own command line, behind `--`, in testpmd's words. Main thread, before EAL starts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/options.hh"
#include "kilim/worker.hh"
#include "split.hh"

namespace kilim::testpmd {

using Mac = std::array<uint8_t, 6>;

// Which ports exchange packets: neighbours; each sends to the next; each sends back.
enum class Topology : uint8_t { paired, chained, loop };

// What single modes are told besides.
struct ModeOptions {
  uint32_t flows = 1024;        // flowgen: destination addresses
  bool multi_flow = false;      // txonly: source addresses change
  uint32_t noisy_buffer = 0;    // packets that wait; 0: none
  uint32_t noisy_flush_ms = 0;  // all that wait go so often; 0: never
  uint32_t noisy_memory = 0;    // MiB that are read and written
  uint32_t noisy_reads = 0, noisy_writes = 0, noisy_both = 0;  // a packet
  std::array<uint8_t, 64> csum_by_device{};  // by port: CsumBy, the rest by software
  std::array<uint16_t, 64> mss{};            // by port: TSO of what is longer; 0: none
  std::array<int8_t, 64> strip{};            // by port, VLAN tags: 1 taken off, -1 not; 0: as all's
  std::array<uint32_t, 64> tag{};            // by port: VLAN tag to put in, 1 << 16 | tci; 0: none
  uint32_t verbose = 0;                      // 1: each packet that is received is shown
  bool csum_keeps_addresses = false;         // csum: addresses stay
};

struct Options {
  std::string mode = "io";
  bool interactive = false, auto_start = false, tx_first = false;
  std::string cmdline_file;
  Topology topology = Topology::paired;
  uint64_t portmask = ~uint64_t{0};
  std::vector<uint32_t> portlist;  // instead of the mask, in this order; empty: the mask
  uint32_t nb_ports = 0;           // 0: all
  bool no_flush_rx = false;        // ethdevs: what waits when forwarding begins is not dropped
  bool no_device_start = false;    // with a prompt: ports are started there
  bool isolate = false;            // ports receive what flow rules lead to them alone
  bool disable_rss = false;
  bool rx_cksum = false, rx_timestamp = false, strip_vlan = false;
  bool strides = false;                   // receive buffers of several packets
  std::string compression;                // of completions; empty: none
  bool scatter = false, drop_en = false;  // testpmd's; both are so anyway
  bool latency = false;
  bool screen = false;
  ModeOptions modes;
  std::vector<uint32_t> tx_segments;  // txonly: bytes of each piece; empty: one of tx_length
  uint32_t rxq = 0, txq = 0, rxd = 0, txd = 0;  // 0: as the port's devargs say
  std::optional<uint64_t> rss_hf;  // RTE_ETH_RSS_*: what frames are spread by; none: by address
  uint32_t nb_cores = 1;
  uint32_t burst = 32;
  uint32_t mbuf_size = 2048;
  bool lro = false;          // TCP segments are joined
  uint32_t max_lro = 0;      // bytes of a joined packet; 0: what a receive has room for
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
  std::string json_file;              // empty: stdout
  std::vector<std::string> captures;  // PORT:FILE
  std::map<uint32_t, Mac> peers;
  std::vector<bool> stopped;                 // by port, of the prompt: not to be started
  std::map<std::string, std::string> wires;  // of the vdevs among EAL's words, by name
  uint32_t ports_asked = 0;                  // --vdev net_kilim... among EAL's words
};

using cli::Exit;

// True: ports, queues, buffers and lcores are the same for both, whatever else differs.
bool same_queues(const Options& a, const Options& b);

// What options say of ports by number, once ports came or went: before[n] is the number that port n
// had. What is said of a port that is gone goes too, and a new port is as if nothing was said of
// it; it forwards.
inline constexpr uint32_t new_port = UINT32_MAX;
void renumber(Options& o, std::span<const uint32_t> before);

// Whether a port's tags are taken off.
bool strips_vlan(const Options& o, std::size_t port);

// "0,2-3": numbers of ports. Empty: accepted.
std::string parse_portlist(Options& o, std::string_view text);
// Topology's words, which the prompt uses too.
bool parse_topology(std::string_view word, Topology& out);
const char* name_of(Topology t) noexcept;
// XX:XX:XX:XX:XX:XX and nothing else.
bool parse_mac(std::string_view text, Mac& mac);
// "64" or "64,128,...": bytes of a packet's pieces, each 1 to 9216, 60 to 9216 together, and 42 in
// the first one. Empty: accepted.
std::string parse_segments(Options& o, std::string_view text);

// A sentence about a word that dpdk-testpmd has and this program lacks; empty: it is none.
std::string lacking_option(std::string_view word);

// The program's name is the first word.
std::variant<Options, Exit> parse_options(int argc, char** argv);

// The whole help text but EAL's part.
std::string help_text();

}  // namespace kilim::testpmd
