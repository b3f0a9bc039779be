// SPDX-License-Identifier: BSD-3-Clause
// What `set verbose 1` shows of packets that were received. A stream's worker prints; slow.
#include <cstdio>

#include <rte_mbuf.h>

#include "forward.hh"
#include "layers.hh"

namespace kilim::testpmd {
namespace {

void print_mac(const char* name, const std::byte* mac) {
  std::printf("%s", name);
  for (int i = 0; i < 6; i++)
    std::printf("%s%02X", i == 0 ? "" : ":", static_cast<unsigned>(mac[i]));
}

// What the device found; marks of rules are one more than their words said (flow_words.cc).
void print_findings(const pool::SideRecord& side, uint32_t queue) {
  if ((side.flags & RTE_MBUF_F_RX_RSS_HASH) != 0)
    std::printf(" - RSS hash=0x%x - RSS queue=0x%x", side.rx_hash, queue);
  if ((side.flags & RTE_MBUF_F_RX_FDIR_ID) != 0)
    std::printf(" - FDIR matched ID=0x%x", side.mark() - 1);
  if (side.packet_type == 0) return;
  char name[256] = "";
  (void)rte_get_ptype_name(side.packet_type, name, sizeof name);
  std::printf(" - hw ptype: %s", name);
}

void print_flags(const pool::SideRecord& side) {
  char flags[256] = "";
  (void)rte_get_rx_ol_flag_list(side.flags & pool::SideRecord::flag_bits, flags, sizeof flags);
  std::printf("  ol_flags: %s\n", flags);
}

}  // namespace

void show_packets(const Stream& s, std::span<const pool::Handle> packets) noexcept {
  std::printf("port %u/queue %u: received %u packets\n", s.rx_port, s.rx_queue,
              count_packets(packets));
  for (std::size_t i = 0, pieces; i < packets.size(); i += pieces) {
    pieces = burst::chain_length(packets.subspan(i));
    uint32_t length = 0;
    for (const pool::Handle h : packets.subspan(i, pieces)) length += h.length;
    const std::span<const std::byte> frame = s.cache->arena().bytes(packets[i]);
    if (frame.size() < 14) continue;
    print_mac("  src=", frame.data() + 6);
    print_mac(" - dst=", frame.data());
    std::printf(" - type=0x%04x - length=%u - nb_segs=%zu", get16(frame.data() + 12), length,
                pieces);
    const bool told = packets[i].has(pool::Handle::side);
    if (told) print_findings(s.cache->arena().side(packets[i]), s.rx_queue);
    std::printf(" - Receive queue=0x%x\n", s.rx_queue);
    if (told) print_flags(s.cache->arena().side(packets[i]));
  }
}

}  // namespace kilim::testpmd
