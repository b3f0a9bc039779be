// SPDX-License-Identifier: BSD-3-Clause
// Bursts of ports that are not Kilim's: ethdev's, with handles made of mbufs and mbufs of handles.
// A stream's worker calls them.
#include <algorithm>
#include <array>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "forward.hh"

namespace kilim::testpmd {

// Mbufs of another mempool, which another process may have put into a ring, are freed.
uint32_t receive_mbufs(Stream& s, std::span<pool::Handle> out) noexcept {
  std::array<rte_mbuf*, max_burst> mbufs;
  const auto want = static_cast<uint16_t>(std::min<std::size_t>(out.size() / s.pieces, max_burst));
  const auto queue = static_cast<uint16_t>(s.rx_queue);
  const uint16_t n = rte_eth_rx_burst(s.rx_ethdev, queue, mbufs.data(), want);
  uint32_t handles = 0;
  for (uint16_t at = 0; at < n;) {
    const pool::Converted c =
        s.mbufs->to_handles(std::span(mbufs).subspan(at, n - at), out.subspan(handles));
    handles += c.handles;
    at = static_cast<uint16_t>(at + c.mbufs);
    if (at == n) break;
    rte_pktmbuf_free(mbufs[at++]);
    s.foreign.add(1);
  }
  return handles;
}

uint32_t transmit_mbufs(Stream& s, std::span<const pool::Handle> packets) noexcept {
  std::array<rte_mbuf*, max_burst> mbufs;
  const pool::Converted c = s.mbufs->to_mbufs(packets, mbufs);
  const auto queue = static_cast<uint16_t>(s.tx_queue);
  const uint16_t sent =
      rte_eth_tx_burst(s.tx_ethdev, queue, mbufs.data(), static_cast<uint16_t>(c.mbufs));
  uint32_t handles = 0;
  for (uint16_t left = sent; left > 0; handles++)
    left = static_cast<uint16_t>(left - (packets[handles].has(pool::Handle::more) ? 0 : 1));
  return handles;
}

}  // namespace kilim::testpmd
