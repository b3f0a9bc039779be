// SPDX-License-Identifier: BSD-3-Clause
#include "options.hh"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <getopt.h>

#include "forward.hh"
#include "kilim/base/nearest.hh"
#include "net/kilim/rte_pmd_kilim.h"

namespace kilim::testpmd {
namespace {

// Gives the reason of a refusal, or null; it stands until the next one.
using Parse = const char* (*)(Options&, const char* value);

struct Row {
  const char* name;
  const char* value;  // as the help shows it; null: none
  bool optional;      // the value
  uint32_t Options::*number;
  uint32_t low, high;
  Parse parse;
  const char* help;
};

const char* parse_mode(Options& o, const char* v) {
  o.mode = v;
  if (find_engine(v) != nullptr) return nullptr;
  std::vector<std::string_view> known;
  std::string all;
  for (const Engine* e : engines()) {
    known.push_back(e->name);
    all += (all.empty() ? "" : ", ") + std::string(e->name);
  }
  static std::string why;
  why = "is none of " + all + nearest_hint(v, known);
  return why.c_str();
}

const char* parse_num_packets(Options& o, const char* v) {
  const char* end = v + std::strlen(v);
  const auto [at, error] = std::from_chars(v, end, o.num_packets);
  return error == std::errc{} && at == end && o.num_packets > 0
             ? nullptr
             : "is no number of packets, 1 or more";
}

const char* parse_idle(Options& o, const char* v) {
  constexpr struct {
    const char* name;
    worker::Idle idle;
  } kinds[] = {
      {"spin", worker::Idle::spin}, {"yield", worker::Idle::yield}, {"sleep", worker::Idle::sleep}};
  for (const auto& k : kinds) {
    if (std::strcmp(v, k.name) != 0) continue;
    o.idle = k.idle;
    return nullptr;
  }
  return "is none of spin, yield, sleep";
}

const char* parse_json(Options& o, const char* v) {
  o.json = true;
  o.json_file = v == nullptr ? "" : v;
  return nullptr;
}

const char* parse_show_caps(Options& o, const char*) {
  o.show_caps = true;
  return nullptr;
}

const char* parse_peer(Options& o, const char* v) {
  unsigned port = 0;
  unsigned m[6];
  int used = 0;
  const int n = std::sscanf(v, "%u,%2x:%2x:%2x:%2x:%2x:%2x%n", &port, &m[0], &m[1], &m[2], &m[3],
                            &m[4], &m[5], &used);
  if (n != 7 || v[used] != '\0') return "is not PORT,XX:XX:XX:XX:XX:XX";
  Mac mac;
  for (std::size_t i = 0; i < 6; i++) mac[i] = static_cast<uint8_t>(m[i]);
  o.peers[port] = mac;
  return nullptr;
}

// clang-format off
constexpr Row rows[] = {
    {"forward-mode", "MODE", false, nullptr, 0, 0, parse_mode, "how packets are forwarded, see below; default io"},
    {"fwd", "MODE", false, nullptr, 0, 0, parse_mode, "the same"},
    {"rxq", "N", false, &Options::rxq, 1, 1, nullptr, "receive queues a port: 1 to 1 (no spreading by hash); default the devarg's"},
    {"txq", "N", false, &Options::txq, 1, 64, nullptr, "transmit queues a port: 1 to 64; default the devarg's"},
    {"rxd", "N", false, &Options::rxd, 64, 8192, nullptr, "places of a receive ring: 64 to 8192, a power of two; default the devarg's"},
    {"txd", "N", false, &Options::txd, 64, 8192, nullptr, "places of a transmit ring: 64 to 8192, a power of two; default the devarg's"},
    {"nb-cores", "N", false, &Options::nb_cores, 1, 128, nullptr, "forwarding lcores: 1 to 128, the main lcore not counted; default 1"},
    {"burst", "N", false, &Options::burst, 1, 512, nullptr, "packets a burst: 1 to 512; default 32"},
    {"mbuf-size", "N", false, &Options::mbuf_size, 128, 16000, nullptr, "bytes of data of a packet buffer: 128 to 16000; default 2048"},
    {"total-num-mbufs", "N", false, &Options::total_mbufs, 256, 10000000, nullptr, "packet buffers: 256 to 10000000; default what rings and caches need"},
    {"eth-peer", "PORT,MAC", false, nullptr, 0, 0, parse_peer, "mode mac, txonly: where packets from PORT go; default 02:00:00:00:00:PORT"},
    {"txpkts", "BYTES", false, &Options::tx_length, 60, 9216, nullptr, "mode txonly: bytes a packet, 60 to 9216; default 64"},
    {"umr-keys", "N", false, &Options::keys, 64, 8192, nullptr, "mode umr: keys a transmit queue, 64 to 8192, a power of two; default 512"},
    {"stats-period", "SECONDS", false, &Options::stats_period, 1, 3600, nullptr, "print statistics every SECONDS, 1 to 3600; default never"},
    {"num-packets", "N", false, nullptr, 0, 0, parse_num_packets, "stop after N packets; default never"},
    {"duration", "SECONDS", false, &Options::duration, 1, 1000000, nullptr, "stop after SECONDS, 1 to 1000000; default never"},
    {"json", "FILE", true, nullptr, 0, 0, parse_json, "final statistics as one JSON object to FILE or, with --json alone, to stdout"},
    {"show-caps", nullptr, false, nullptr, 0, 0, parse_show_caps, "print what each port's device can do with on-demand paging, at the start"},
    {"idle", "HOW", false, nullptr, 0, 0, parse_idle, "what an lcore does while nothing comes: spin, yield or sleep; default yield"},
    {"help", nullptr, false, nullptr, 0, 0, nullptr, "this text"},
};
// clang-format on
constexpr int row_count = static_cast<int>(sizeof rows / sizeof *rows);

bool must_be_power_of_two(const Row& r) {
  return r.number == &Options::rxd || r.number == &Options::txd || r.number == &Options::keys;
}

Exit refuse(const Row& r, const char* value, const char* why) {
  return {1, std::string("--") + r.name + "=" + value + " " + why + ": " + r.help};
}

// Nothing to say: taken.
std::variant<std::monostate, Exit> parse(Options& o, const Row& r, const char* value) {
  if (r.parse != nullptr) {
    if (const char* why = r.parse(o, value)) return refuse(r, value, why);
    return {};
  }
  uint32_t n = 0;
  const char* end = value + std::strlen(value);
  const auto [at, error] = std::from_chars(value, end, n);
  if (error != std::errc{} || at != end || n < r.low || n > r.high ||
      (must_be_power_of_two(r) && (n & (n - 1)) != 0))
    return refuse(r, value, "is out of range");
  o.*r.number = n;
  return {};
}

// The word as it was written; its value, if it has one, is no part of the name.
Exit unknown(const std::string& word) {
  std::vector<std::string_view> known;
  for (const Row& r : rows) known.push_back(r.name);
  std::string name = word.substr(0, word.find('='));
  name.erase(0, name.find_first_not_of('-'));
  for (std::string_view k : known)
    if (name == k) return {1, "the option " + word + " misses its value; --help lists all"};
  return {1, "the option " + word + " is unknown" + nearest_hint(name, known) +
                 ", or misses its value; --help lists all"};
}

std::vector<option> long_options() {
  std::vector<option> list;
  for (int i = 0; i < row_count; i++) {
    const int has = rows[i].value == nullptr ? no_argument
                    : rows[i].optional       ? optional_argument
                                             : required_argument;
    list.push_back({rows[i].name, has, nullptr, i});
  }
  list.push_back({nullptr, 0, nullptr, 0});
  return list;
}

}  // namespace

std::variant<Options, Exit> parse_options(int argc, char** argv) {
  Options o;
  const std::vector<option> list = long_options();
  optind = 0;
  opterr = 0;
  for (;;) {
    const int got = getopt_long(argc, argv, "+h", list.data(), nullptr);
    if (got == -1) break;
    if (got == 'h' || (got < row_count && std::strcmp(rows[got].name, "help") == 0)) {
      std::fputs(help_text().c_str(), stdout);
      return Exit{0, ""};
    }
    if (got == '?') return unknown(argv[optind - 1]);
    auto result = parse(o, rows[got], optarg);
    if (auto* exit = std::get_if<Exit>(&result)) return *exit;
  }
  if (optind < argc)
    return Exit{1, std::string("the word ") + argv[optind] + " is no option; --help lists all"};
  return o;
}

std::string help_text() {
  std::string s =
      "kilim-testpmd forwards packets between Kilim's ports.\n"
      "\n"
      "usage: kilim-testpmd [EAL options] --vdev net_kilim0[,DEVARGS] ... -- [options]\n"
      "\n"
      "Ports are paired 0 and 1, 2 and 3, ...; a port without a partner sends back what it\n"
      "receives. SIGINT and SIGTERM stop the program with its final statistics.\n"
      "--version, as the first word, says which Kilim this is.\n"
      "\n"
      "options:\n";
  char line[256];
  for (const Row& r : rows) {
    std::string left = std::string("--") + r.name;
    if (r.value != nullptr)
      left += r.optional ? std::string("[=") + r.value + "]" : std::string("=") + r.value;
    std::snprintf(line, sizeof line, "  %-26s %s\n", left.c_str(), r.help);
    s += line;
  }
  s += "\nforwarding modes:\n";
  for (const Engine* e : engines()) {
    std::snprintf(line, sizeof line, "  %-26s %s\n", e->name, e->help);
    s += line;
  }
  s += std::string("\ndevargs of a port:\n") + rte_pmd_kilim_devargs();
  s += "\n"
       "EAL options that matter here (kilim-testpmd --help shows them all):\n"
       "  -l LCORES                  the first is the main lcore, the others forward; with one\n"
       "                             lcore it does both\n"
       "  --no-huge --no-shconf      ordinary pages: no hugepages, no root needed\n"
       "  --in-memory                hugepages without a hugetlbfs mount\n"
       "  -m MIB                     memory, with --no-huge 64 unless said\n"
       "  --no-pci                   leaves the machine's cards to their drivers\n"
       "\n"
       "example, without hardware, hugepages or root:\n"
       "  kilim-testpmd --no-huge --no-shconf --no-pci -l 0 \\\n"
       "    --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap -- --fwd=umr --duration=2\n";
  return s;
}

}  // namespace kilim::testpmd
