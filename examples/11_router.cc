// SPDX-License-Identifier: BSD-3-Clause
// An IPv4 router: the longest prefix of a destination (rte_lpm) names the port and the next hop's
// address. Its words are routes, PREFIX/LENGTH:PORT:MAC. A packet that is no good IPv4, whose time
// to live ends or that has no route is dropped. The header's checksum is changed by what changed
// (RFC 1624, equation 3), so a fault of the sender stays one. The table takes 64 MiB of EAL's
// memory. Without hardware or root:
//   usertools/pcap_file.py make in.pcap 1000
//   build/examples/11_router --no-huge --no-shconf --no-pci -l 0 -m 256
//       --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap -- 198.18.0.0/15:0:02:00:00:00:00:77
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_lpm.h>
#include <rte_mbuf_core.h>

#include "kilim/program.hh"

namespace {

using kilim::app::Burst;
using kilim::pool::Handle;

struct NextHop {
  uint32_t port = 0;
  rte_ether_addr mac{};
};

struct FreeTable {
  void operator()(rte_lpm* table) const noexcept { rte_lpm_free(table); }
};

// Written before the first burst, then only read, by all lcores.
struct Router {
  std::unique_ptr<rte_lpm, FreeTable> table;
  std::vector<NextHop> hops;
};

// rte_lpm has no prefix of length 0: the two of length 1 are the same.
bool insert(rte_lpm* table, uint32_t prefix, uint32_t length, uint32_t hop) {
  if (length != 0) return rte_lpm_add(table, prefix, static_cast<uint8_t>(length), hop) == 0;
  return rte_lpm_add(table, 0, 1, hop) == 0 && rte_lpm_add(table, 1u << 31, 1, hop) == 0;
}

bool add_route(Router& r, const char* word, uint32_t ports) {
  unsigned a, b, c, d, length;
  NextHop hop;
  int mac_at = 0;
  if (std::sscanf(word, "%3u.%3u.%3u.%3u/%2u:%5u:%n", &a, &b, &c, &d, &length, &hop.port,
                  &mac_at) != 6)
    return false;
  if ((a | b | c | d) > 255 || length > 32 || hop.port >= ports) return false;
  if (rte_ether_unformat_addr(word + mac_at, &hop.mac) != 0) return false;
  r.hops.push_back(hop);
  return insert(r.table.get(), RTE_IPV4(a, b, c, d), length,
                static_cast<uint32_t>(r.hops.size() - 1));
}

std::string prepare(void* context, std::span<char* const> words, uint32_t ports) {
  auto& r = *static_cast<Router*>(context);
  const rte_lpm_config config{.max_rules = 1024, .number_tbl8s = 256, .flags = 0};
  r.table.reset(rte_lpm_create("routes", SOCKET_ID_ANY, &config));
  if (r.table == nullptr) return "no memory for the routes";
  for (const char* word : words)
    if (!add_route(r, word, ports))
      return std::string(word) + ": a route is PREFIX/LENGTH:PORT:MAC, and PORT is one of EAL's";
  return words.empty() ? "no route: give one behind --, such as 0.0.0.0/0:0:02:00:00:00:00:77" : "";
}

// The table is EAL's memory.
void finish(void* context) {
  static_cast<Router*>(context)->table.reset();
}

// The header if the device found it whole and its checksum right (the side record tells), and if
// the packet may travel on.
rte_ipv4_hdr* to_route(const Burst& burst, Handle packet) noexcept {
  const std::span<std::byte> frame = burst.bytes(packet);
  const kilim::pool::SideRecord& side = burst.side(packet);
  if (frame.size() < sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr) ||
      !RTE_ETH_IS_IPV4_HDR(side.packet_type) || (side.flags & RTE_MBUF_F_RX_IP_CKSUM_GOOD) == 0)
    return nullptr;
  auto* ether = reinterpret_cast<rte_ether_hdr*>(frame.data());
  if (ether->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4)) return nullptr;  // tagged
  auto* ip = reinterpret_cast<rte_ipv4_hdr*>(ether + 1);
  return ip->time_to_live > 1 ? ip : nullptr;
}

// One hop less, and the checksum of it: ~(~old sum + ~old word + new word).
void age(rte_ipv4_hdr& ip) noexcept {
  uint16_t before, after;
  std::memcpy(&before, &ip.time_to_live, sizeof before);
  ip.time_to_live--;
  std::memcpy(&after, &ip.time_to_live, sizeof after);
  uint32_t sum = static_cast<uint16_t>(~ip.hdr_checksum);
  sum += static_cast<uint16_t>(~before);
  sum += after;
  sum = (sum & 0xffff) + (sum >> 16);
  ip.hdr_checksum = static_cast<uint16_t>(~(sum + (sum >> 16)));
}

void route(void* context, Burst& burst) noexcept {
  const auto& r = *static_cast<const Router*>(context);
  for (const Handle packet : burst.packets()) {
    rte_ipv4_hdr* ip = to_route(burst, packet);
    uint32_t number = 0;
    if (ip == nullptr ||
        rte_lpm_lookup(r.table.get(), rte_be_to_cpu_32(ip->dst_addr), &number) != 0) {
      burst.drop(packet);
      continue;
    }
    const NextHop& hop = r.hops[number];
    auto* ether = reinterpret_cast<rte_ether_hdr*>(ip) - 1;
    ether->dst_addr = hop.mac;
    std::memcpy(&ether->src_addr, burst.mac(hop.port).data(), sizeof ether->src_addr);
    age(*ip);
    burst.send(hop.port, packet);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Router router;
  return kilim::app::run(argc, argv,
                         {.name = "11_router",
                          .on_burst = route,
                          .prepare = prepare,
                          .finish = finish,
                          .context = &router,
                          .side_records = true});
}
