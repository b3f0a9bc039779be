// SPDX-License-Identifier: BSD-3-Clause
// Commands that set how packets are forwarded. They count from the next start on, unless it is a
// port's filter, which changes at once.
#include <cstdio>
#include <string>
#include <utility>

#include <rte_ethdev.h>

#include "cli/options.hh"
#include "commands.hh"
#include "forward_report.hh"
#include "kilim/detail/base/nearest.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

void set_mode(Session& s, const Line& line) {
  if (s.busy("set fwd")) return;
  s.options().mode = line.word(2);
  std::printf("Set %s packet forwarding mode\n", line.word(2).c_str());
}

std::string refusal(const char* what, uint32_t low, uint32_t high) {
  return std::string(what) + " is " + std::to_string(low) + " to " + std::to_string(high);
}

// Says so and gives false where a number is out of its range.
bool within(const char* what, uint32_t n, uint32_t low, uint32_t high) {
  if (n >= low && n <= high) return true;
  std::fprintf(stderr, "%s\n", refusal(what, low, high).c_str());
  return false;
}

void set_number(Session& s, const Line& line) {
  const std::string& what = line.word(1);
  const uint32_t n = line.number(2);
  if (s.busy(("set " + what).c_str())) return;
  Options& o = s.options();
  if (what == "burst" && within("burst", n, 1, max_burst)) {
    o.burst = n;
    std::printf("Number of packets per burst set to %u\n", n);
  } else if (what == "nbcore" && within("nbcore", n, 1, 128)) {
    const uint32_t before = o.nb_cores;
    o.nb_cores = n;
    if (!s.renew())
      o.nb_cores = before;
    else
      std::printf("Number of forwarding cores set to %u\n", n);
  } else if (what == "nbport" && within("nbport", n, 1, static_cast<uint32_t>(s.ports()))) {
    o.nb_ports = n;
    std::printf("Number of forwarding ports set to %u\n", n);
  }
}

// Takes options that name other ports to forward.
void choose_ports(Session& s, Options& o) {
  const std::size_t before = s.forwarder().forwarding().size();
  o.nb_ports = 0;
  s.options() = o;
  if (s.settle() && s.forwarder().forwarding().size() != before)
    std::printf(
        "previous number of forwarding ports %zu - changed to number of configured ports %zu\n",
        before, s.forwarder().forwarding().size());
}

void set_portmask(Session& s, const Line& line) {
  if (s.busy("set portmask")) return;
  const std::string& word = line.word(2);
  uint32_t n = 0;
  if (!read_number(word.starts_with("0x") ? word : "0x" + word, n) || n == 0 ||
      (s.ports() < 32 && n >> s.ports() != 0)) {
    std::fprintf(stderr, "portmask is a mask in hexadecimal of the %zu ports\n", s.ports());
    return;
  }
  Options o = s.options();
  o.portmask = n;
  o.portlist.clear();
  choose_ports(s, o);
}

void set_portlist(Session& s, const Line& line) {
  if (s.busy("set portlist")) return;
  Options o = s.options();
  std::string why = parse_portlist(o, line.word(2));
  for (const uint32_t n : o.portlist)
    if (n >= s.ports()) why = "port " + std::to_string(n) + " is none of them";
  if (why.empty())
    choose_ports(s, o);
  else
    std::fprintf(stderr, "Invalid fwd port list: %s\n", why.c_str());
}

void set_topology(Session& s, const Line& line) {
  if (!s.busy("set port-topology")) (void)parse_topology(line.word(2), s.options().topology);
}

void set_txpkts(Session& s, const Line& line) {
  if (s.busy("set txpkts")) return;
  const std::string why = parse_segments(s.options(), line.word(2));
  if (!why.empty())
    std::fprintf(stderr, "txpkts %s: %s\n", line.word(2).substr(0, 64).c_str(), why.c_str());
}

void set_peer(Session& s, const Line& line) {
  Mac mac;
  if (!parse_mac(line.word(3), mac)) {
    std::fprintf(stderr, "Error: Invalid ethernet address: %s\n",
                 line.word(3).substr(0, 32).c_str());
    return;
  }
  for (const uint32_t p : s.ports_of(line.word(2))) s.options().peers[p] = mac;
}

void set_verbose(Session& s, const Line& line) {
  const uint32_t before = std::exchange(s.options().modes.verbose, line.number(2));
  std::printf("Change verbose level from %u to %u\n", before, line.number(2));
  if (s.running()) std::printf("It counts from the next start on.\n");
}

void set_flush(Session& s, const Line& line) {
  s.options().no_flush_rx = !line.on(2);
}

void change_filter(Session& s, const Line& line, bool flow::Filter::*what, int (*on)(uint16_t),
                   int (*off)(uint16_t)) {
  for (const uint32_t n : s.ports_of(line.word(2))) {
    const PortRef& p = s.port(n);
    if (p.native == nullptr) {
      if (const int e = (line.on(3) ? on : off)(p.ethdev); e != 0)
        std::fprintf(stderr, "Error during changing the mode of port %u: %s\n", n,
                     rte_strerror(-e));
      continue;
    }
    flow::Filter filter = p.native->filter();
    filter.*what = line.on(3);
    flow::RuleError why;
    if (!p.native->set_filter(filter, &why))
      std::fprintf(stderr, "port %u: %s: %s\n", n, flow::name_of(why.field), why.what);
  }
}

void set_promisc(Session& s, const Line& line) {
  change_filter(s, line, &flow::Filter::promiscuous, rte_eth_promiscuous_enable,
                rte_eth_promiscuous_disable);
}
void set_allmulti(Session& s, const Line& line) {
  change_filter(s, line, &flow::Filter::all_multicast, rte_eth_allmulticast_enable,
                rte_eth_allmulticast_disable);
}

// A group's address is one of `mcast_addr`, another one of `mac_addr`, as ethdev has it.
void change_macs(Session& s, const Line& line) {
  Mac mac;
  const bool group = line.word(0) == "mcast_addr";
  if (!parse_mac(line.word(3), mac) || ((mac[0] & 1) != 0) != group) {
    std::fprintf(stderr, "Error: Invalid ethernet address: %s\n",
                 line.word(3).substr(0, 32).c_str());
    return;
  }
  for (const uint32_t n : s.ports_of(line.word(2))) {
    port::Port* p = s.native_of(n);
    if (p == nullptr) return;
    if (line.word(1) == "set") {
      if (const Status done = p->set_address(mac); !done)
        std::fprintf(stderr, "port %u: %s\n", n, done.error().what);
      continue;
    }
    flow::Filter filter = p->filter();
    const auto gone = std::erase(filter.macs, mac);
    if (line.word(1) == "add") filter.macs.push_back(mac);
    if (line.word(1) == "remove" && gone == 0)
      std::fprintf(stderr, "port %u has no such address\n", n);
    flow::RuleError why;
    if (!p->set_filter(filter, &why))
      std::fprintf(stderr, "port %u: %s: %s\n", n, flow::name_of(why.field), why.what);
  }
}

constexpr CommandRow set_rows[] = {
    {"set fwd io|mac|macswap|flowgen|rxonly|txonly|csum|icmpecho|5tswap|noisy|umr|split", set_mode,
     "How packets are forwarded."},
    {"set burst|nbcore|nbport <n>", set_number, "Packets a burst; lcores; ports that forward."},
    {"set portmask <text>", set_portmask, "Ports that forward, in hexadecimal."},
    {"set portlist <text>", set_portlist, "The same by numbers, in this order: 1,0,2-3."},
    {"set port-topology paired|chained|loop", set_topology, "Which ports exchange packets."},
    {"set txpkts <text>", set_txpkts,
     "txonly, flowgen: bytes of a packet, BYTES[,BYTES...] of its pieces."},
    {"set eth-peer <port> <text>", set_peer, "mac, txonly: where packets of a port go."},
    {"set promisc <ports> on|off", set_promisc, "A port receives all frames."},
    {"set allmulti <ports> on|off", set_allmulti, "A port receives all frames to groups."},
    {"set verbose <n>", set_verbose, "1: each packet that a stream receives is shown."},
    {"set flush_rx on|off", set_flush, "ethdevs: what waits when forwarding begins is dropped."},
    {"mac_addr add|remove|set <port> <text>", change_macs,
     "Addresses that a port receives besides its own; its own."},
    {"mcast_addr add|remove <port> <text>", change_macs, "Groups that a port receives."},
};

}  // namespace

const Section set_commands{"config", "Configuration information", set_rows};

}  // namespace kilim::testpmd
