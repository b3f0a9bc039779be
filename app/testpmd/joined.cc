// SPDX-License-Identifier: BSD-3-Clause
// TCP segments that a port joined (--enable-lro): packets of them are longer than frames may be,
// and leave divided again (TSO), in each mode that sends what it received.
#include <rte_mbuf_core.h>

#include "forward.hh"

namespace kilim::testpmd {

void divide_joined(const Stream& s, std::span<pool::Handle> packets) noexcept {
  bool first = true;
  for (pool::Handle& h : packets) {
    if (first && h.has(pool::Handle::side) &&
        (s.cache->arena().side(h).flags & RTE_MBUF_F_RX_LRO) != 0)
      h.meta |= pool::Handle::offload;
    first = !h.has(pool::Handle::more);
  }
}

}  // namespace kilim::testpmd
