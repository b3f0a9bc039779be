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
extern const std::span<const Case> ethdev_egress;    // what rules do to frames that leave
extern const std::span<const Case> ethdev_filters;   // which frames are received
extern const std::span<const Case> ethdev_joined;    // LRO
extern const std::span<const Case> ethdev_keys;      // RSS by keys of the application
extern const std::span<const Case> ethdev_limits;    // numbers of rte_eth_dev_info
extern const std::span<const Case> ethdev_matches;   // which frames patterns of rte_flow take
extern const std::span<const Case> ethdev_refusals;  // packets that are not sent
extern const std::span<const Case> ethdev_removals;  // reset, unplugging, a device that dies
extern const std::span<const Case> ethdev_rewrites;  // and what its actions do to these
extern const std::span<const Case> ethdev_rules;     // rte_flow
extern const std::span<const Case> ethdev_tellers;   // what a port tells of itself
const Tries& receive_tries();
const Tries& send_tries();
void joins_segments(EthPair& p);
// In a process that has done nothing yet: ports, `what`, rte_eal_cleanup().
int clean_up_after(const char* what);

inline const FrameSpec tcp4{}, udp4{.tcp = false}, tcp6{.ipv6 = true},
    udp6{.ipv6 = true, .tcp = false};

inline Bytes with(Bytes frame, std::size_t at, uint8_t flip) {
  frame[at] ^= std::byte{flip};
  return frame;
}

// The frame behind outer headers that are always the same: UDP to VXLAN's port over IPv4.
inline Bytes in_vxlan(const Bytes& inner) {
  constexpr std::size_t header = 8;
  FrameSpec s = udp4;
  s.payload = header + inner.size();
  Bytes b = make_frame(s);
  put16(b, l4_of(s) + 2, 4789);
  put16(b, l4_of(s) + 6, 0);  // no checksum
  std::fill_n(b.end() - static_cast<long>(s.payload), header, std::byte{0});
  b[b.size() - s.payload] = std::byte{8};
  std::copy(inner.begin(), inner.end(), b.end() - static_cast<long>(inner.size()));
  return b;
}

// A statistic by its name.
inline uint64_t xstat(EthPort& port, const char* name) {
  uint64_t id = 0, value = 0;
  EQUAL(rte_eth_xstats_get_id_by_name(port.id, name, &id), 0);
  EQUAL(rte_eth_xstats_get_by_id(port.id, &id, &value, 1), 1);
  return value;
}

// An UDP frame of this length that tells its number.
inline Bytes frame_of(std::size_t bytes, uint32_t number) {
  FrameSpec s = udp4;
  s.payload = bytes - payload_of(s);
  Bytes b = make_frame(s);
  for (std::size_t i = 0; i < 4; i++) b[i + 6] = static_cast<std::byte>(number >> 8 * i);
  return b;
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
