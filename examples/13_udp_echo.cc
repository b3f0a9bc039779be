// SPDX-License-Identifier: BSD-3-Clause
// Echoes UDP, RFC 862: what comes for a port of this station goes back, in the same buffer. A flow
// rule of the device marks it; the device has checked the checksums that came (the side record
// tells both) and writes those that go.
// Its word is the UDP port, 7 without it. Without hardware or root, frames being for UDP port 4661:
//   usertools/pcap_file.py make in.pcap 1000
//   build/examples/13_udp_echo --no-huge --no-shconf --no-pci -l 0
//       --vdev net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap -- 4661
#include <cstdlib>
#include <string>

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf_core.h>
#include <rte_udp.h>

#include "kilim/flow.hh"
#include "kilim/port.hh"
#include "kilim/program.hh"

namespace {

using kilim::app::Burst;
using kilim::pool::Handle;

constexpr uint8_t first_hops = 64;  // RFC 1700: the default time to live
constexpr uint32_t ours = 1;        // the mark of what is echoed

struct Echo {
  uint16_t port = 7;
};

std::string prepare(void* context, std::span<char* const> words, uint32_t) {
  if (words.empty()) return "";
  char* end = nullptr;
  const unsigned long port = std::strtoul(words[0], &end, 10);
  if (words.size() > 1 || *end != '\0' || port == 0 || port > 0xffff)
    return "one word, a UDP port from 1 to 65535";
  static_cast<Echo*>(context)->port = static_cast<uint16_t>(port);
  return "";
}

// What is for the port is spread over all queues, as other frames are, and marked.
std::string started(void* context, std::span<kilim::port::Port* const> ports) {
  namespace flow = kilim::flow;
  flow::Rule rule;
  rule.match.ipv4 = flow::Ipv4{};
  rule.match.udp = flow::Ports{.dst = flow::exactly(static_cast<const Echo*>(context)->port)};
  rule.action.fate = flow::Action::Fate::rss;
  rule.action.mark = ours;
  for (kilim::port::Port* p : ports)
    if (auto made = p->add_rule(rule); !made) return p->name() + ": " + made.error().what;
  return "";
}

struct Headers {
  rte_ether_hdr ether;
  rte_ipv4_hdr ip;
  rte_udp_hdr udp;
};
static_assert(sizeof(Headers) == 42 && alignof(Headers) <= 2);

// UDP over IPv4 without options, whole and unhurt; nullptr: something else.
Headers* udp_of(const Burst& burst, Handle packet) noexcept {
  constexpr uint32_t good = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  constexpr uint32_t plain = RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_UDP;
  const std::span<std::byte> frame = burst.bytes(packet);
  const kilim::pool::SideRecord& side = burst.side(packet);
  if (frame.size() < sizeof(Headers) || (side.flags & good) != good) return nullptr;
  if ((side.packet_type & plain) != plain) return nullptr;
  auto* h = reinterpret_cast<Headers*>(frame.data());
  return h->ether.ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4) && h->ip.ihl == 5 ? h : nullptr;
}

void echo(void*, Burst& burst) noexcept {
  for (const Handle packet : burst.packets()) {
    Headers* h = udp_of(burst, packet);
    if (h == nullptr || burst.side(packet).mark() != ours) {
      burst.drop(packet);
      continue;
    }
    const Headers came = *h;
    h->ether.src_addr = came.ether.dst_addr;
    h->ether.dst_addr = came.ether.src_addr;
    h->ip.src_addr = came.ip.dst_addr;
    h->ip.dst_addr = came.ip.src_addr;
    h->udp.src_port = came.udp.dst_port;
    h->udp.dst_port = came.udp.src_port;
    h->ip.time_to_live = first_hops;
    burst.send(burst.port(), packet);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Echo echo_port;
  using kilim::queue::EthOffload;
  return kilim::app::run(argc, argv,
                         {.name = "13_udp_echo",
                          .on_burst = echo,
                          .prepare = prepare,
                          .started = started,
                          .context = &echo_port,
                          .marks = true,
                          .tx_offload = EthOffload::l3 | EthOffload::l4});
}
