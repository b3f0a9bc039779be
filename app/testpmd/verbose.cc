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

}  // namespace

void show_packets(const Stream& s, std::span<const pool::Handle> packets) noexcept {
  std::printf("port %u/queue %u: received %u packets\n", s.rx_port, s.rx_queue,
              count_packets(packets));
  for (std::size_t i = 0, pieces; i < packets.size(); i += pieces) {
    pieces = burst::detail::chain_length(packets.subspan(i));
    uint32_t length = 0;
    for (const pool::Handle h : packets.subspan(i, pieces)) length += h.length;
    const std::span<const std::byte> frame = s.cache->arena().bytes(packets[i]);
    if (frame.size() < 14) continue;
    print_mac("  src=", frame.data() + 6);
    print_mac(" - dst=", frame.data());
    std::printf(" - type=0x%04x - length=%u - nb_segs=%zu\n", get16(frame.data() + 12), length,
                pieces);
    if (!packets[i].has(pool::Handle::side)) continue;
    char flags[256] = "";
    (void)rte_get_rx_ol_flag_list(
        s.cache->arena().side(packets[i]).flags & pool::SideRecord::flag_bits, flags, sizeof flags);
    std::printf("  ol_flags: %s\n", flags);
  }
}

}  // namespace kilim::testpmd
