// SPDX-License-Identifier: BSD-3-Clause
// Random frames, and what a run of them leaves behind: for tests that compare the straight way with
// the general one.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "eth_fixture.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/hca/ports.hh"

namespace kilim::test {

using Random = std::mt19937;

inline unsigned below(Random& r, unsigned n) {
  return static_cast<unsigned>(r() % n);
}

// Mostly TCP and UDP; some cut, some with a byte that is wrong, some that are no packets.
inline Bytes any_frame(Random& r) {
  const unsigned kind = below(r, 16);
  if (kind == 0) {
    Bytes b(14 + below(r, 100));
    for (std::byte& x : b) x = static_cast<std::byte>(r());
    b[0] = std::byte{2};
    return b;
  }
  if (kind == 1) {  // as if of RoCE, for the adapter itself, whose address is zero here
    Bytes b = make_frame({.ipv6 = true, .tcp = false});
    std::fill(b.begin(), b.begin() + 6, std::byte{0});
    put16(b, 14 + 40 + 2, 4791);
    return b;
  }
  const std::size_t lengths[] = {0, 1, 6, 18, 26, 100, 333, 1460, 3000};
  Bytes b = make_frame({.ipv6 = kind < 4,
                        .tcp = below(r, 2) == 0,
                        .tags = kind == 4 ? 1 : 0,
                        .payload = lengths[below(r, 9)],
                        .tcp_flags = static_cast<uint8_t>(r()),
                        .fragment = static_cast<uint16_t>(kind == 5 ? 0x2000 : 0)});
  if (below(r, 4) == 0) b[12 + below(r, static_cast<unsigned>(b.size() - 12))] ^= std::byte{1};
  if (below(r, 8) == 0) b.resize(std::max<std::size_t>(14, below(r, 60)));
  if (below(r, 8) == 0) b.resize(b.size() + below(r, 9));
  return b;
}

// A UDP frame on IPv4 like that one: its addresses and ports may have changed places, which sums
// do not notice; now and then with another bit, without a sum, or of another length.
inline Bytes any_like(Random& r, Bytes f) {
  constexpr std::size_t addresses = 26, ports = 34, sum = 40;
  if (below(r, 2) == 0)
    std::swap_ranges(f.begin() + addresses, f.begin() + addresses + 4, f.begin() + addresses + 4);
  if (below(r, 2) == 0)
    std::swap_ranges(f.begin() + ports, f.begin() + ports + 2, f.begin() + ports + 2);
  const unsigned odd = below(r, 40);
  if (odd == 0) f[below(r, static_cast<unsigned>(f.size()))] ^= std::byte{4};
  if (odd == 1) f[f.size() - 1] ^= std::byte{16};
  if (odd == 2 || odd == 3) f[sum] = f[sum + 1] = std::byte{0};
  for (unsigned i = odd == 4 ? below(r, 20) : 0; i > 0; i--) f.push_back(std::byte{0});
  return f;
}

// What a run leaves behind, as numbers and bytes.
struct Trace {
  std::vector<Bytes> frames, entries, received;
  std::vector<uint64_t> counts;
  wire::WireCounters wire{};
  bool operator==(const Trace& o) const {
    return frames == o.frames && entries == o.entries && received == o.received &&
           counts == o.counts;
  }
};

inline void note_entries(RawQueue& q, Trace& t) {
  for (prm::Cqe c = Rig::poll(q); opcode(c) != prm::CqeOpcode::invalid; c = Rig::poll(q)) {
    // Numbers of queues and times are those of the adapter.
    c.timestamp = {};
    const uint32_t number = c.sop_drop_qpn.host();
    const uint32_t queue_or_mark = number & 0xffffff;
    c.sop_drop_qpn =
        be32{(number & 0xff000000) | (queue_or_mark == q.qpn.value() ? 1u : queue_or_mark)};
    Bytes b(sizeof(c));
    std::memcpy(b.data(), &c, sizeof(c));
    t.entries.push_back(b);
  }
}

inline void note_counts(const Rig& r, Trace& t) {
  const PortCounters p = eth_port_counters(r.hca->eth, 1);
  const wire::WireCounters& w = r.hca->eth.ports[0].wire->counters();
  t.wire = w;
  const Journal& j = *r.hca->context.journal;
  t.counts = {p.rx_packets, p.rx_bytes, p.rx_no_rule, p.rx_out_of_buffer, p.rx_too_long,
              p.tx_packets, p.tx_bytes, p.tx_drops,   w.rx_frames,        w.rx_bytes,
              w.tx_frames,  w.tx_bytes, j.pieces()};
  for (std::size_t i = 0; i < Journal::kinds; i++) {
    const auto kind = static_cast<Journal::Kind>(i);
    if (kind != Journal::Kind::lint) t.counts.push_back(j.count(kind));  // findings differ
  }
}

}  // namespace kilim::test
