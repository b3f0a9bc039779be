// SPDX-License-Identifier: BSD-3-Clause
// The rows of kilim-testpmd, and the values that are no number.
#include "options.hh"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <rte_ethdev.h>

#include "forward.hh"
#include "kilim/detail/base/nearest.hh"
#include "kilim/rte_pmd_kilim.h"
#include "spread.hh"
#include "words.hh"

namespace kilim::testpmd {
namespace {

std::string parse_mode(Options& o, const char* v) {
  o.mode = v;
  if (find_engine(v) != nullptr) return "";
  std::vector<std::string_view> known;
  std::string all;
  for (const Engine* e : engines()) {
    known.push_back(e->name);
    all += (all.empty() ? "" : ", ") + std::string(e->name);
  }
  return "it is none of " + all + nearest_hint(v, known);
}

std::string parse_idle(Options& o, const char* v) {
  constexpr struct {
    const char* name;
    worker::Idle idle;
  } kinds[] = {{"spin", worker::Idle::spin},
               {"pause", worker::Idle::pause},
               {"yield", worker::Idle::yield},
               {"sleep", worker::Idle::sleep}};
  for (const auto& k : kinds) {
    if (std::strcmp(v, k.name) != 0) continue;
    o.idle = k.idle;
    return "";
  }
  return "it is none of spin, pause, yield, sleep";
}

std::string parse_way(Options& o, const char* v) {
  return parse_split_way(o.split, v) ? "" : "it is none of in-place, cheapest, copy, list, key";
}

std::string parse_header(Options& o, const char* v) {
  constexpr cli::Range bytes{14, 1024};
  uint64_t n = 0;
  if (cli::parse_number(v, bytes, n) != cli::Fault::none) return "it is not 14 to 1024";
  o.split.header_bytes = static_cast<uint32_t>(n);
  return "";
}

std::string parse_pcap(Options& o, const char* v) {
  o.captures.emplace_back(v);
  return "";
}

std::string parse_json(Options& o, const char* v) {
  o.json = true;
  o.json_file = v == nullptr ? "" : v;
  return "";
}

std::string parse_mode_number(Options& o, const char* v, uint32_t ModeOptions::*field,
                              cli::Range range) {
  uint64_t n = 0;
  if (cli::parse_number(v, range, n) != cli::Fault::none)
    return "it is not " + std::to_string(range.low) + " to " + std::to_string(range.high);
  o.modes.*field = static_cast<uint32_t>(n);
  return "";
}

template <auto field, uint64_t high>
std::string mode_number(Options& o, const char* v) {
  return parse_mode_number(o, v, field, {0, high});
}

std::string parse_topology_word(Options& o, const char* v) {
  return parse_topology(v, o.topology) ? "" : "it is none of paired, chained, loop";
}

std::string parse_portmask(Options& o, const char* v) {
  const std::string text = std::strncmp(v, "0x", 2) == 0 ? v : std::string("0x") + v;
  uint32_t n = 0;
  if (!read_number(text, n) || n == 0) return "it is not a mask of ports in hexadecimal";
  o.portmask = n;
  return "";
}

std::string parse_txpkts(Options& o, const char* v) {
  return parse_segments(o, v);
}

std::string parse_compression(Options& o, const char* v) {
  o.compression = v;
  return o.compression == "hash" || o.compression == "checksum" ? ""
                                                                : "it is none of hash, checksum";
}

std::string parse_multi_flow(Options& o, const char*) {
  o.modes.multi_flow = true;
  return "";
}

// Kinds of frames and levels are apart, in any order.
std::string parse_rss(Options& o, const char* kinds) {
  o.rss_hf = *rss_of(kinds) | (o.rss_hf.value_or(0) & RTE_ETH_RSS_LEVEL_MASK);
  return "";
}
std::string parse_rss_ip(Options& o, const char*) {
  return parse_rss(o, "ip");
}
std::string parse_rss_udp(Options& o, const char*) {
  return parse_rss(o, "udp");
}
std::string parse_level_outer(Options& o, const char*) {
  o.rss_hf = rss_level_of("level-outer", o.rss_hf.value_or(*rss_of("ip")));
  return "";
}
std::string parse_level_inner(Options& o, const char*) {
  o.rss_hf = rss_level_of("level-inner", o.rss_hf.value_or(*rss_of("ip")));
  return "";
}

std::string parse_ports(Options& o, const char* v) {
  return parse_portlist(o, v);
}

std::string refuse_procs(Options&, const char*) {
  return "kilim-testpmd forwards in one process; let it use more lcores (-l, --nb-cores) or start "
         "a "
         "second one with ports of its own";
}

std::string parse_peer(Options& o, const char* v) {
  const std::string_view text = v;
  const std::size_t comma = std::min(text.find(','), text.size());
  uint64_t port = 0;
  Mac mac;
  constexpr cli::Range ports{0, UINT32_MAX};
  if (cli::parse_number(text.substr(0, comma), ports, port) != cli::Fault::none ||
      comma == text.size() || !parse_mac(text.substr(comma + 1), mac))
    return "it is not PORT,XX:XX:XX:XX:XX:XX";
  o.peers[static_cast<uint32_t>(port)] = mac;
  return "";
}

// clang-format off
constexpr cli::Row<Options> rows[] = {
    {0, "forward-mode", "MODE", parse_mode, "how packets are forwarded, see below; default io"},
    {0, "fwd", "MODE", parse_mode, "the same"},
    {0, "rxq", "N", &Options::rxq, "receive queues a port: 1 to 64; default the devarg's", {1, 64}},
    {0, "txq", "N", &Options::txq, "transmit queues a port: 1 to 64; default the devarg's, and one for each receive queue", {1, 64}},
    {0, "rss-ip", nullptr, parse_rss_ip, "several receive queues: spread IP packets by their addresses; the default"},
    {0, "rss-udp", nullptr, parse_rss_udp, "spread UDP packets, by addresses and ports; others go to the first queue"},
    {0, "rss-level-outer", nullptr, parse_level_outer, "frames in tunnels are spread by their outer headers; the default"},
    {0, "rss-level-inner", nullptr, parse_level_inner, "frames in VXLAN and GRE are spread by the headers inside"},
    {0, "rxd", "N", &Options::rxd, "places of a receive ring: 64 to 8192, a power of two; default the devarg's", {64, 8192, true}},
    {0, "txd", "N", &Options::txd, "places of a transmit ring: 64 to 8192, a power of two; default the devarg's", {64, 8192, true}},
    {0, "nb-cores", "N", &Options::nb_cores, "forwarding lcores: 1 to 128, the main lcore not counted; default 1", {1, 128}},
    {0, "burst", "N", &Options::burst, "packets a burst: 1 to 512; default 32", {1, 512}},
    {0, "mbuf-size", "N", &Options::mbuf_size, "bytes of data of a packet buffer: 128 to 16000; default 2048", {128, 16000}},
    {0, "max-pkt-len", "BYTES", &Options::max_packet, "longest packet, in several buffers if need be: 64 to 9216; default what a buffer holds", {64, 9216}},
    {0, "total-num-mbufs", "N", &Options::total_mbufs, "packet buffers: 256 to 10000000; default what rings and caches need", {256, 10000000}},
    {0, "pool-debug", nullptr, &Options::pool_debug, "watch every packet buffer: who frees twice, writes too late or keeps one is named on stderr; slow"},
    {0, "eth-peer", "PORT,MAC", parse_peer, "mode mac, txonly: where packets from PORT go; default 02:00:00:00:00:PORT"},
    {0, "txpkts", "BYTES[,BYTES...]", parse_txpkts, "modes txonly, flowgen: bytes a packet, of each of its pieces: 60 to 9216 together; default 64"},
    {0, "umr-keys", "N", &Options::keys, "mode umr, split by keys: keys a transmit queue, 64 to 8192, a power of two; default 512", {64, 8192, true}},
    {0, "split-header", "BYTES", parse_header, "mode split: bytes in the header's buffer, 14 to 1024; default 64"},
    {0, "split-way", "WAY", parse_way, "mode split: how header and payload are sent: in-place (list or key, the chooser's choice), cheapest (copies too), copy, list, key; default in-place"},
    {'i', "interactive", nullptr, &Options::interactive, "the prompt: help lists its commands; the main lcore (-l) does not forward then"},
    {'a', "auto-start", nullptr, &Options::auto_start, "with -i: forwarding is started"},
    {0, "cmdline-file", "FILE", &Options::cmdline_file, "commands of the prompt, run first"},
    {0, "tx-first", nullptr, &Options::tx_first, "each port sends a burst first"},
    {0, "port-topology", "HOW", parse_topology_word, "which ports exchange: paired, chained or loop; default paired"},
    {0, "portmask", "HEX", parse_portmask, "ports that forward; default all"},
    {0, "portlist", "N[,N...]", parse_ports, "the same, as numbers and in this order: 0,2-3"},
    {0, "nb-ports", "N", &Options::nb_ports, "how many ports forward, from the first: 1 to 32; default all", {1, 32}},
    {0, "disable-rss", nullptr, &Options::disable_rss, "frames are not spread: all go to a port's first receive queue"},
    {0, "flow-isolate-all", nullptr, &Options::isolate, "ports receive what flow rules lead to them, and nothing else"},
    {0, "disable-device-start", nullptr, &Options::no_device_start, "with -i: ports are started by port start at the prompt"},
    {0, "no-flush-rx", nullptr, &Options::no_flush_rx, "ethdevs: packets that wait when forwarding begins are forwarded"},
    {0, "enable-rx-cksum", nullptr, &Options::rx_cksum, "the device's verdict on checksums is kept, for set verbose 1; as a card's of mlx5 it calls right ones good and none bad"},
    {0, "enable-rx-timestamp", nullptr, &Options::rx_timestamp, "the time of arrival is kept"},
    {0, "enable-hw-vlan-strip", nullptr, &Options::strip_vlan, "the device takes VLAN tags off"},
    {0, "enable-hw-vlan", nullptr, &Options::strip_vlan, "the same"},
    {0, "enable-scatter", nullptr, &Options::scatter, "packets may take several buffers; --max-pkt-len says how long they are"},
    {0, "enable-drop-en", nullptr, &Options::drop_en, "frames without a receive buffer are dropped, which is so always"},
    {0, "enable-lro", nullptr, &Options::lro, "the device joins TCP segments of a stream (LRO); they leave divided again (TSO)"},
    {0, "max-lro-pkt-size", "BYTES", &Options::max_lro, "longest packet of joined segments, in several buffers if need be: 256 to 65280; default what a receive has room for", {256, 65280}},
    {0, "strides", nullptr, &Options::strides, "several packets arrive in one buffer (MPRQ)"},
    {0, "compress-completions", "HOW", parse_compression, "completions that are alike share entries: hash or checksum"},
    {0, "txonly-multi-flow", nullptr, parse_multi_flow, "mode txonly: source addresses change from packet to packet"},
    {0, "flowgen-flows", "N", mode_number<&ModeOptions::flows, 65536>, "mode flowgen: destination addresses, up to 65536; default 1024"},
    {0, "noisy-tx-sw-buffer-size", "N", mode_number<&ModeOptions::noisy_buffer, 4096>, "mode noisy: packets that wait, up to 4096; default 0"},
    {0, "noisy-tx-sw-buffer-flushtime", "MS", mode_number<&ModeOptions::noisy_flush_ms, 60000>, "mode noisy: all that wait go every MS milliseconds; default 0, never"},
    {0, "noisy-lkup-memory", "MIB", mode_number<&ModeOptions::noisy_memory, 1024>, "mode noisy: memory that is looked at, up to 1024 MiB"},
    {0, "noisy-lkup-num-writes", "N", mode_number<&ModeOptions::noisy_writes, 1000>, "mode noisy: writes to it a packet"},
    {0, "noisy-lkup-num-reads", "N", mode_number<&ModeOptions::noisy_reads, 1000>, "mode noisy: reads of it"},
    {0, "noisy-lkup-num-reads-writes", "N", mode_number<&ModeOptions::noisy_both, 1000>, "mode noisy: reads and writes"},
    {0, "num-procs", "N", refuse_procs, "refused: one process"},
    {0, "latency", nullptr, &Options::latency, "a histogram of the time from a frame's arrival to its receive, by the device's time stamps"},
    {0, "screen", nullptr, &Options::screen, "statistics as a live view of 80x24; lines where stdout is no terminal"},
    {0, "stats-period", "SECONDS", &Options::stats_period, "print statistics every SECONDS, 1 to 3600; 0 and default: never", {0, 3600}},
    {0, "num-packets", "N", &Options::num_packets, "stop after N packets, 1 or more; default never", {1}},
    {0, "duration", "SECONDS", &Options::duration, "stop after SECONDS, 1 to 1000000; default never", {1, 1000000}},
    {0, "json", "[=FILE]", parse_json, "final statistics as one JSON object to FILE or, with --json alone, to stdout"},
    {0, "pcap", "PORT:FILE", parse_pcap, "write the packets of a port, by number or name, to a file (pcapng); once for each port"},
    {0, "show-caps", nullptr, &Options::show_caps, "print what each port's device can do with on-demand paging, at the start"},
    {0, "idle", "HOW", parse_idle, "what an lcore does while nothing comes: spin, pause, yield or sleep; default yield"},
    {'h', "help", nullptr, help_text, "this text"},
};
// clang-format on
}  // namespace

std::variant<Options, Exit> parse_options(int argc, char** argv) {
  for (int i = 1; i < argc; i++)
    if (std::string why = lacking_option(argv[i]); !why.empty()) return Exit{1, why};
  Options o;
  const auto words = cli::parse(o, rows, {argc, argv, cli::Order::options_first});
  if (const auto* exit = std::get_if<Exit>(&words)) return *exit;
  if (const int at = std::get<int>(words); at < argc)
    return Exit{1, std::string("the word ") + argv[at] + " is no option; --help lists all"};
  if (o.no_device_start && !o.interactive)
    return Exit{
        1,
        "--disable-device-start needs -i: ports are started at the prompt then (port start all)"};
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
  s += cli::help_of(rows) + "\nforwarding modes:\n";
  for (const Engine* e : engines()) s += cli::help_line(e->name, e->help);
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
       "    --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap -- \\\n"
       "    --fwd=umr --duration=2\n";
  return s;
}

}  // namespace kilim::testpmd
