// SPDX-License-Identifier: BSD-3-Clause
// Mode icmpecho: answers ARP requests for any address, and ICMP echo requests; all else is freed.
#include <cstring>

#include "forward.hh"
#include "layers.hh"

namespace kilim::testpmd {
namespace {

constexpr uint32_t arp_bytes = 28;

bool answer_arp(std::byte* f, std::byte* arp, const Mac& own) noexcept {
  constexpr uint16_t request = 1, reply = 2;
  const bool ours = get16(arp) == 1 && get16(arp + 2) == type_ipv4 && get16(arp + 4) == 0x0604 &&
                    get16(arp + 6) == request;
  if (!ours) return false;
  std::memcpy(f, f + 6, 6);
  std::memcpy(f + 6, own.data(), 6);
  put16(arp + 6, reply);
  std::byte asked[4], sender[10];
  std::memcpy(asked, arp + 24, sizeof asked);
  std::memcpy(sender, arp + 8, sizeof sender);
  std::memcpy(arp + 8, own.data(), 6);
  std::memcpy(arp + 14, asked, sizeof asked);
  std::memcpy(arp + 18, sender, sizeof sender);
  return true;
}

// A group is answered from an address beside the sender's, as testpmd does.
void swap_ips(std::byte* ip, uint32_t header) noexcept {
  const uint32_t from = get32(ip + 12), to = get32(ip + 16);
  const bool group = to >> 28 == 0xe;
  put32(ip + 16, from);
  put32(ip + 12, group ? (from & ~3u) | ((from & 3) == 1 ? 2 : 1) : to);
  if (!group) return;
  put16(ip + 10, 0);
  put16(ip + 10, fold(sum_of({ip, header})));
}

bool answer_echo(std::span<std::byte> frame, const Layers& l) noexcept {
  std::byte* icmp = frame.data() + l.l4;
  const bool request = l.protocol == protocol_icmp && frame.size() >= l.l4 + 8 && !l.fragment &&
                       icmp[0] == std::byte{8} && icmp[1] == std::byte{0};
  if (!request) return false;
  std::byte both[12];
  std::memcpy(both, frame.data(), sizeof both);
  std::memcpy(frame.data(), both + 6, 6);
  std::memcpy(frame.data() + 6, both, 6);
  swap_ips(frame.data() + l.l3, l.l4 - l.l3);
  icmp[0] = std::byte{0};
  // From type 8 to 0, by RFC 1624.
  const uint64_t sum = static_cast<uint16_t>(~get16(icmp + 2)) + uint64_t{0xf7ff};
  put16(icmp + 2, fold(sum));
  return true;
}

bool answer(std::span<std::byte> frame, const Mac& own) noexcept {
  const Layers l = layers_of(frame);
  if (l.type == type_arp && frame.size() >= l.l2 + arp_bytes)
    return answer_arp(frame.data(), frame.data() + l.l2, own);
  return l.type == type_ipv4 && l.l3 != 0 && answer_echo(frame, l);
}

uint32_t run_icmpecho(Stream& s) noexcept {
  const uint32_t limit = sendable(s);
  if (limit == 0) return 0;
  const uint32_t n = receive(s, std::span(s.packets).first(limit));
  uint32_t kept = 0;
  for (uint32_t i = 0, end; i < n; i = end) {
    end = i + 1;
    while (end < n && s.packets[end - 1].has(pool::Handle::more)) end++;
    const std::span<pool::Handle> packet = std::span(s.packets).subspan(i, end - i);
    if (!answer(s.cache->arena().bytes(packet[0]), own_mac(s))) {
      s.cache->free(packet);
      continue;
    }
    std::memmove(&s.packets[kept], packet.data(), packet.size_bytes());
    kept += end - i;
  }
  if (kept == 0)
    reclaim(s);
  else
    send_or_drop(s, std::span(s.packets).first(kept));
  return n;
}

}  // namespace

const Engine icmpecho_engine{
    "icmpecho", "ARP and ICMP echo requests are answered", true, true, false, run_icmpecho};

}  // namespace kilim::testpmd
