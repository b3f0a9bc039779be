// SPDX-License-Identifier: BSD-3-Clause
// Values of options that the prompt reads too, and testpmd's options that this program lacks.
#include <algorithm>
#include <bit>
#include <charconv>
#include <system_error>
#include <tuple>
#include <utility>

#include "cli/options.hh"
#include "options.hh"

namespace kilim::testpmd {

namespace {

auto queues_of(const Options& o) {
  return std::tuple(o.rxq, o.txq, o.rxd, o.txd, o.nb_cores, std::max(o.mbuf_size, o.tx_length),
                    o.max_packet, o.total_mbufs, o.keys, o.tx_segments.size(), o.topology,
                    o.portmask, o.portlist, o.nb_ports);
}

auto offloads_of(const Options& o) {
  return std::tuple(o.lro, o.max_lro, o.rx_cksum, o.rx_timestamp, o.strip_vlan, o.strides,
                    o.compression, o.latency, o.idle, o.pool_debug, o.num_packets,
                    o.modes.csum_by_device, o.modes.mss, o.modes.tag, o.modes.strip,
                    o.split.header_bytes, o.split.ways, o.split.forced);
}

}  // namespace

bool same_queues(const Options& a, const Options& b) {
  return queues_of(a) == queues_of(b) && offloads_of(a) == offloads_of(b);
}

namespace {

template <typename T>
void renumber_row(std::array<T, 64>& row, std::span<const uint32_t> before) {
  std::array<T, 64> now{};
  for (std::size_t n = 0; n < std::min(before.size(), row.size()); n++)
    if (before[n] < row.size()) now[n] = row[before[n]];
  row = now;
}

void renumber_list(std::vector<uint32_t>& list, std::span<const uint32_t> before) {
  if (list.empty()) return;
  std::vector<uint32_t> now;
  for (const uint32_t old : list)
    if (const auto at = std::find(before.begin(), before.end(), old); at != before.end())
      now.push_back(static_cast<uint32_t>(at - before.begin()));
  for (uint32_t n = 0; n < before.size(); n++)
    if (before[n] == new_port) now.push_back(n);
  list = now;
}

}  // namespace

void renumber(Options& o, std::span<const uint32_t> before) {
  constexpr uint32_t bits = 64;
  renumber_row(o.modes.csum_by_device, before);
  renumber_row(o.modes.mss, before);
  renumber_row(o.modes.strip, before);
  renumber_row(o.modes.tag, before);
  const auto peers = std::exchange(o.peers, {});
  const auto stopped = std::exchange(o.stopped, {});
  const uint64_t mask = std::exchange(o.portmask, 0);
  renumber_list(o.portlist, before);
  for (uint32_t n = 0; n < before.size(); n++) {
    const uint32_t old = before[n];
    if (const auto peer = peers.find(old); peer != peers.end()) o.peers[n] = peer->second;
    o.stopped.push_back(old >= stopped.size() || stopped[old]);
    if (n < bits && (old >= bits || (mask >> old & 1) != 0)) o.portmask |= uint64_t{1} << n;
  }
  // An all-ones mask means no mask, so that hot-plugged ports are included.
  const uint64_t all = before.size() < bits ? (uint64_t{1} << before.size()) - 1 : ~uint64_t{0};
  if (o.portmask == 0 || o.portmask == all) o.portmask = ~uint64_t{0};
  const auto forwarding = o.portlist.empty()
                              ? static_cast<uint32_t>(std::popcount(o.portmask & all))
                              : static_cast<uint32_t>(o.portlist.size());
  if (o.nb_ports >= forwarding) o.nb_ports = 0;
}

bool strips_vlan(const Options& o, std::size_t port) {
  const int8_t own = port < o.modes.strip.size() ? o.modes.strip[port] : int8_t{0};
  return own == 0 ? o.strip_vlan : own > 0;
}

bool parse_topology(std::string_view word, Topology& out) {
  constexpr std::string_view names[] = {"paired", "chained", "loop"};
  for (uint8_t i = 0; i < 3; i++) {
    if (word != names[i]) continue;
    out = static_cast<Topology>(i);
    return true;
  }
  return false;
}

const char* name_of(Topology t) noexcept {
  return t == Topology::paired ? "paired" : t == Topology::chained ? "chained" : "loop";
}

std::string parse_portlist(Options& o, std::string_view text) {
  constexpr const char* why = "it is not N[,N...] or A-B, each port once";
  constexpr cli::Range ports{0, 1023};
  std::vector<uint32_t> list;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, comma - at);
    const std::size_t dash = std::min(part.find('-'), part.size());
    uint64_t first = 0, last = 0;
    if (cli::parse_number(part.substr(0, dash), ports, first) != cli::Fault::none) return why;
    last = first;
    if (dash < part.size() &&
        cli::parse_number(part.substr(dash + 1), ports, last) != cli::Fault::none)
      return why;
    for (uint64_t n = first; n <= last; n++) {
      if (std::find(list.begin(), list.end(), n) != list.end()) return why;
      list.push_back(static_cast<uint32_t>(n));
    }
    if (last < first) return why;
    at = comma + 1;
  }
  o.portlist = list;
  return "";
}

bool parse_mac(std::string_view text, Mac& mac) {
  constexpr std::size_t each = 3;  // two digits, and a colon between
  if (text.size() != mac.size() * each - 1) return false;
  for (std::size_t i = 0; i < mac.size(); i++) {
    const char* digits = text.data() + i * each;
    const auto [at, error] = std::from_chars(digits, digits + 2, mac[i], 16);
    if (error != std::errc{} || at != digits + 2) return false;
    if (i + 1 < mac.size() && *at != ':') return false;
  }
  return true;
}

std::string parse_segments(Options& o, std::string_view text) {
  constexpr const char* why =
      "it is not BYTES[,BYTES...] with 60 to 9216 bytes together, 42 in the first of at most 8";
  std::vector<uint32_t> pieces;
  uint64_t sum = 0;
  for (std::size_t at = 0; at <= text.size() && pieces.size() < 9;) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    uint64_t n = 0;
    if (cli::parse_number(text.substr(at, comma - at), {1, 9216}, n) != cli::Fault::none)
      return why;
    pieces.push_back(static_cast<uint32_t>(n));
    sum += n;
    at = comma + 1;
  }
  if (pieces.size() > 8 || sum < 60 || sum > 9216 || pieces[0] < 42) return why;
  o.tx_length = static_cast<uint32_t>(sum);
  o.tx_segments = pieces.size() > 1 ? pieces : std::vector<uint32_t>{};
  return "";
}

namespace {

struct Lacking {
  std::string_view name;
  const char* why;
};

// Options of dpdk-testpmd 22.11 (app/test-pmd/parameters.c, launch_args_parse()), and why there is
// none here.
constexpr const char* numa = "buffers lie on the first port's NUMA node";
constexpr const char* thresholds = "drivers choose their thresholds";
constexpr Lacking lacking[] = {
    {"eth-peers-configfile", "give --eth-peer for each port"},
    {"display-xstats", "show port xstats all at the prompt shows all"},
    {"coremask", "EAL's -l says which lcores there are, --nb-cores how many forward"},
    {"numa", numa},
    {"no-numa", numa},
    {"mp-anon", numa},
    {"mp-alloc", numa},
    {"no-iova-contig", numa},
    {"port-numa-config", numa},
    {"ring-numa-config", numa},
    {"socket-num", numa},
    {"latencystats", "--latency shows a histogram"},
    {"bitrate-stats", "--stats-period and --screen show rates"},
    {"disable-crc-strip", "the device takes the checksum of a frame off"},
    {"enable-hw-vlan-filter", "rx_vlan add at the prompt filters"},
    {"enable-hw-vlan-extend", "no device of Kilim knows two tags"},
    {"enable-hw-qinq-strip", "no device of Kilim knows two tags"},
    {"hairpinq", "there are no hairpin queues"},
    {"hairpin-mode", "there are no hairpin queues"},
    {"flowgen-clones", "each packet is made anew"},
    {"mbcache", "an lcore's cache has 512 buffers"},
    {"txpt", thresholds},
    {"txht", thresholds},
    {"txwt", thresholds},
    {"txfreet", thresholds},
    {"txrst", thresholds},
    {"rxpt", thresholds},
    {"rxht", thresholds},
    {"rxwt", thresholds},
    {"rxfreet", thresholds},
    {"rxoffs", "--split-header splits"},
    {"rxpkts", "--split-header splits"},
    {"rxhdrs", "--split-header splits"},
    {"multi-rx-mempool", "--split-header has a pool of its own"},
    {"rxq-share", "queues are not shared by ports"},
    {"eth-link-speed", "a virtual port has the speed of its device"},
    {"disable-link-check", "links are not waited for"},
    {"no-lsc-interrupt", "link changes are not told"},
    {"no-rmv-interrupt", "the loss of a device ends the run"},
    {"print-event", "events are said as they come"},
    {"mask-event", "events are said as they come"},
    {"tx-offloads", "csum set, tso set and tx_vlan set at the prompt"},
    {"rx-offloads",
     "--enable-rx-cksum, --enable-hw-vlan-strip, --enable-rx-timestamp, --enable-lro"},
    {"hot-plug", "port attach and port detach at the prompt"},
    {"vxlan-gpe-port", "the device knows no such tunnel"},
    {"geneve-parsed-port", "the device knows no such tunnel"},
    {"mlockall", "EAL's memory is not swapped"},
    {"no-mlockall", "EAL's memory is not swapped"},
    {"tx-ip", "txonly's addresses are 198.18.0.1 and 198.18.0.2"},
    {"tx-udp", "txonly's UDP ports are 9"},
    {"rx-mq-mode", "--rss-ip, --rss-udp and --disable-rss do"},
    {"record-core-cycles", "cycles are always counted"},
    {"record-burst-stats", "bursts are not counted by size"},
    {"proc-id", "kilim-testpmd forwards in one process"}};

}  // namespace

std::string lacking_option(std::string_view word) {
  if (!word.starts_with("--")) return "";
  const std::string_view name = word.substr(2, word.find('=') - 2);
  for (const Lacking& r : lacking)
    if (name == r.name)
      return "the option --" + std::string(name) +
             " of dpdk-testpmd is not in kilim-testpmd: " + r.why;
  return "";
}

}  // namespace kilim::testpmd
