// SPDX-License-Identifier: BSD-3-Clause
// Mode 5tswap: source and destination change places at each layer: addresses of Ethernet and IP,
// ports of TCP and UDP, which a first fragment has too (DPDK app/test-pmd/5tswap.c). No checksum
// changes by that. A later fragment has payload where ports would be, and keeps it.
#include <algorithm>

#include "forward.hh"
#include "layers.hh"

namespace kilim::testpmd {
namespace {

void swap_bytes(std::byte* a, std::size_t n) noexcept {
  std::swap_ranges(a, a + n, a + n);
}

void swap_all(std::span<std::byte> frame) noexcept {
  const Layers l = layers_of(frame);
  if (l.l2 == 0) return;
  swap_bytes(frame.data(), 6);
  if (l.l3 == 0) return;
  if (l.type == type_ipv4)
    swap_bytes(frame.data() + l.l3 + 12, 4);
  else
    swap_bytes(frame.data() + l.l3 + 8, 16);
  const bool ports = (l.protocol == protocol_udp || l.protocol == protocol_tcp) && !l.later;
  if (ports && frame.size() >= l.l4 + 4) swap_bytes(frame.data() + l.l4, 2);
}

uint32_t run_5tswap(Stream& s) noexcept {
  return forward(s, swap_all);
}

}  // namespace

const Engine five_tuple_swap_engine{
    "5tswap", "source and destination change places at each layer", true, true, false, run_5tswap};

}  // namespace kilim::testpmd
