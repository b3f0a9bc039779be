// SPDX-License-Identifier: BSD-3-Clause
// Commands about what the device does to packets: checksums, segmentation, VLAN tags. As testpmd's
// they want the port stopped, and count from its next start on; filters change at once.
#include <algorithm>
#include <cstdio>
#include <string>

#include "commands.hh"
#include "csum_bits.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

// Kilim's port of a place of the line, among those that options are kept for; null: it was said
// why not.
port::Port* own_port(Session& s, const std::string& word) {
  const auto list = s.ports_of(word);
  if (list.empty()) return nullptr;
  port::Port* p = s.native_of(list[0]);
  if (p != nullptr && list[0] < s.options().modes.mss.size()) return p;
  return nullptr;
}

// The port of this name if it is stopped; null after a sentence, or if there is none.
port::Port* stopped_port(Session& s, const std::string& word) {
  port::Port* p = own_port(s, word);
  if (p == nullptr || !p->started()) return p;
  std::fprintf(stderr, "Please stop port %s first\n", word.c_str());
  return nullptr;
}

uint32_t number_of(const std::string& word) {
  uint32_t n = 0;
  (void)read_number(word, n);
  return n;
}

void show_csum_of(Session& s, uint32_t port) {
  const uint8_t by_device = s.options().modes.csum_by_device[port];
  auto who = [by_device](uint8_t bit) { return (by_device & bit) != 0 ? "hw" : "sw"; };
  std::printf(
      "Parse tunnel is off\nIP checksum offload is %s\nUDP checksum offload is %s\nTCP "
      "checksum offload is %s\nSCTP checksum offload is sw\nOuter-Ip checksum offload is "
      "sw\nOuter-Udp checksum offload is sw\n",
      who(CsumBy::ip), who(CsumBy::udp), who(CsumBy::tcp));
}

void set_csum(Session& s, const Line& line) {
  port::Port* p = stopped_port(s, line.word(4));
  if (p == nullptr) return;
  const bool by_device = line.word(3) == "hw";
  if (by_device && !p->device().caps().tx.checksums) {
    std::fprintf(stderr, "%s checksum offload is not supported by port %s\n", line.word(2).c_str(),
                 line.word(4).c_str());
    return;
  }
  uint8_t& mask = s.options().modes.csum_by_device[number_of(line.word(4))];
  const uint8_t bit = line.word(2) == "ip"    ? CsumBy::ip
                      : line.word(2) == "tcp" ? CsumBy::tcp
                                              : CsumBy::udp;
  mask = static_cast<uint8_t>(by_device ? mask | bit : mask & ~bit);
  show_csum_of(s, number_of(line.word(4)));
}

// Checksums that no device computes; testpmd, too, keeps them to the lcore.
void set_csum_in_vain(Session& s, const Line& line) {
  if (stopped_port(s, line.word(4)) == nullptr) return;
  if (line.word(3) == "hw")
    std::fprintf(stderr, "%s checksum offload is not supported by port %s\n",
                 line.word(2) == "sctp"       ? "SCTP"
                 : line.word(2) == "outer-ip" ? "Outer IP"
                                              : "Outer UDP",
                 line.word(4).c_str());
  show_csum_of(s, number_of(line.word(4)));
}

void show_csum(Session& s, const Line& line) {
  if (own_port(s, line.word(2)) != nullptr) show_csum_of(s, number_of(line.word(2)));
}

void csum_swap(Session& s, const Line& line) {
  s.options().modes.csum_keeps_addresses = !line.on(2);
}

void show_tso_of(Session& s, uint32_t port) {
  const uint16_t mss = s.options().modes.mss[port];
  if (mss == 0)
    std::printf("TSO for non-tunneled packets is disabled\n");
  else
    std::printf("TSO segment size for non-tunneled packets is %u\n", mss);
}

void set_tso(Session& s, const Line& line) {
  port::Port* p = stopped_port(s, line.word(3));
  if (p == nullptr) return;
  const uint32_t mss = line.number(2), most = p->device().caps().tx.max_tso;
  if (mss != 0 && most == 0)
    std::fprintf(stderr, "TSO is not supported by port %s\n", line.word(3).c_str());
  else if (mss > 9000 || (mss != 0 && mss < 64))
    std::fprintf(stderr, "a segment is 64 to 9000 bytes, or 0 for no TSO\n");
  else
    s.options().modes.mss[number_of(line.word(3))] = static_cast<uint16_t>(mss);
  show_tso_of(s, number_of(line.word(3)));
}

void show_tso(Session& s, const Line& line) {
  if (own_port(s, line.word(2)) != nullptr) show_tso_of(s, number_of(line.word(2)));
}

void vlan_set(Session& s, const Line& line) {
  port::Port* p = own_port(s, line.word(4));
  if (p == nullptr) return;
  if (line.word(2) == "strip") {
    if (!p->device().caps().spread.strip_vlan) {
      std::fprintf(stderr, "port %s has no VLAN stripping\n", line.word(4).c_str());
      return;
    }
    if (p->started()) {
      std::fprintf(stderr, "Please stop port %s first\n", line.word(4).c_str());
      return;
    }
    s.options().modes.strip[number_of(line.word(4))] = line.on(3) ? 1 : -1;
    return;
  }
  flow::Filter filter = p->filter();
  if (!line.on(3)) filter.vlans.clear();
  filter.promiscuous = !line.on(3) && filter.promiscuous;
  flow::RuleError why;
  if (!p->set_filter(filter, &why))
    std::fprintf(stderr, "vlan set filter: %s: %s\n", flow::name_of(why.field), why.what);
}

void rx_vlan(Session& s, const Line& line) {
  port::Port* p = own_port(s, line.word(3));
  if (p == nullptr) return;
  flow::Filter filter = p->filter();
  if (line.word(2) == "all") {
    filter.vlans.clear();
    if (line.word(1) == "add")
      std::printf("all VLANs: more than the %zu of a filter, so that tags do not matter\n",
                  flow::max_filter_vlans);
  } else {
    const uint32_t id = number_of(line.word(2));
    if (id > 4095) {
      std::fprintf(stderr, "a VLAN is 0 to 4095\n");
      return;
    }
    const auto gone = std::erase(filter.vlans, static_cast<uint16_t>(id));
    if (line.word(1) == "add") filter.vlans.push_back(static_cast<uint16_t>(id));
    if (line.word(1) == "rm" && gone == 0)
      std::fprintf(stderr, "port %s has no VLAN %u\n", line.word(3).c_str(), id);
  }
  flow::RuleError why;
  if (!p->set_filter(filter, &why))
    std::fprintf(stderr, "rx_vlan: %s: %s\n", flow::name_of(why.field), why.what);
}

void tx_vlan_set(Session& s, const Line& line) {
  if (stopped_port(s, line.word(2)) == nullptr) return;
  const uint32_t id = line.number(3);
  if (id > 4095)
    std::fprintf(stderr, "a VLAN is 0 to 4095\n");
  else
    s.options().modes.tag[number_of(line.word(2))] = 1u << 16 | id;
}

void tx_vlan_reset(Session& s, const Line& line) {
  if (stopped_port(s, line.word(2)) != nullptr) s.options().modes.tag[number_of(line.word(2))] = 0;
}

constexpr CommandRow offload_rows[] = {
    {"csum set ip|tcp|udp hw|sw <port>", set_csum,
     "csum: the device or the lcore writes checksums of what a port sends."},
    {"csum set sctp|outer-ip|outer-udp hw|sw <port>", set_csum_in_vain,
     "The lcore alone; Kilim's devices write none of these."},
    {"csum show <port>", show_csum, "Who does."},
    {"csum mac-swap on|off <port>", csum_swap, "csum: addresses become the port's and the peer's."},
    {"tso set <n> <port>", set_tso,
     "csum: longer TCP packets leave as frames of N bytes of payload; 0: none."},
    {"tso show <port>", show_tso, "How long."},
    {"vlan set strip|filter on|off <port>", vlan_set,
     "Tags are taken off; only frames of rx_vlan's VLANs come."},
    {"rx_vlan add|rm <ports> <port>", rx_vlan,
     "VLANs that a port receives; none: tags do not matter."},
    {"tx_vlan set <port> <n>", tx_vlan_set, "csum, 5tswap, txonly: a tag that the device puts in."},
    {"tx_vlan reset <port>", tx_vlan_reset, "None."},
};

}  // namespace

const Section offload_commands{"offloads", "Checksums, segmentation and VLANs", offload_rows};

}  // namespace kilim::testpmd
