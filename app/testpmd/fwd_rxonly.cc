// SPDX-License-Identifier: BSD-3-Clause
// Mode rxonly: packets are received, counted and freed. What tx_first sent comes back when nothing
// is received.
#include "forward.hh"

namespace kilim::testpmd {
namespace {

uint32_t run_rxonly(Stream& s) noexcept {
  uint32_t n = 0;
  if (!s.draining)
    n = receive(s, std::span(s.packets).first(std::min(s.burst * s.pieces, max_burst)));
  if (n == 0) {
    reclaim(s);
    return 0;
  }
  const std::span<const pool::Handle> all = std::span(s.packets).first(n);
  s.forwarded.add(s.pieces == 1 ? n : count_packets(all));
  s.cache->free(all);
  return n;
}

}  // namespace

const Engine rxonly_engine{"rxonly",  "packets are received and freed", true, false, false,
                           run_rxonly};

}  // namespace kilim::testpmd
