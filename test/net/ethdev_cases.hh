// SPDX-License-Identifier: BSD-3-Clause
// What the sources of ethdev_ut share: their cases, and how each offload is tried. Test only.
#pragma once

#include <functional>
#include <map>
#include <span>

#include "ethdev_fixture.hh"

namespace kilim::test {

using Try = std::function<void(EthPair&)>;
using Tries = std::map<uint64_t, Try>;  // by the bit of the offload, which `near` was asked for

extern const std::span<const Case> ethdev_runs;  // interrupts, devargs
extern const std::span<const Case> ethdev_natives;
const Tries& receive_tries();
const Tries& send_tries();
// In a process that has done nothing yet: ports, `what`, rte_eal_cleanup().
int clean_up_after(const char* what);

inline const FrameSpec tcp4{}, udp4{.tcp = false}, tcp6{.ipv6 = true},
    udp6{.ipv6 = true, .tcp = false};

inline Bytes with(Bytes frame, std::size_t at, uint8_t flip) {
  frame[at] ^= std::byte{flip};
  return frame;
}

// `near` receives the frame as it is, and says these flags of `mask`.
inline void arrives(EthPair& p, const Bytes& frame, uint64_t mask, uint64_t flags) {
  p.far.send(frame);
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  EQUAL(m->ol_flags & mask, flags);
  EQUAL(bytes_of(m), frame);
  rte_pktmbuf_free(m);
}

}  // namespace kilim::test
