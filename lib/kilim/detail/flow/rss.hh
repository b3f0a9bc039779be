// SPDX-License-Identifier: BSD-3-Clause
// How frames are spread over receive queues: a Toeplitz hash of addresses and ports, and a table
// from hash values to queues. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace kilim::inline v1::flow {

// Kinds of frames that can be hashed, as bits. A frame is hashed by the most specific kind that is
// named: source and destination address, with ports for tcp and udp. Fragments have no ports.
struct HashTypes {
  static constexpr uint32_t ipv4 = 1, tcp4 = 2, udp4 = 4, ipv6 = 8, tcp6 = 16, udp6 = 32;
  static constexpr uint32_t ip = ipv4 | ipv6, tcp = tcp4 | tcp6, udp = udp4 | udp6;
  static constexpr uint32_t all = ip | tcp | udp;
};

// Which of them a frame was hashed by.
enum class HashKind : uint8_t { none, ipv4, tcp4, udp4, ipv6, tcp6, udp6 };
inline constexpr std::size_t hash_kinds = 7;
// The bit of a kind in HashTypes.
constexpr uint32_t type_of(HashKind k) noexcept {
  return k == HashKind::none ? 0 : 1u << (static_cast<uint32_t>(k) - 1);
}
static_assert(type_of(HashKind::udp6) == HashTypes::udp6);

inline constexpr std::size_t hash_key_bytes = 40;  // the only length that mlx5 devices take
using HashKey = std::array<uint8_t, hash_key_bytes>;

// The key of the published test vectors (Microsoft, "Verifying the RSS Hash Calculation").
inline constexpr HashKey default_key = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                        0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                        0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

// Gives both directions of a connection the same value: it repeats every 16 bits (Woo and Park,
// "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012). Only 16 bits of
// the value differ from flow to flow.
constexpr HashKey make_symmetric_key() noexcept {
  HashKey k{};
  for (std::size_t i = 0; i < k.size(); i++) k[i] = i % 2 == 0 ? 0x6d : 0x5a;
  return k;
}
inline constexpr HashKey symmetric_key = make_symmetric_key();

inline constexpr uint32_t default_table = 128;  // entries
inline constexpr uint32_t longest_table = 512;  // entries; a device may have less

// Which of a frame's addresses and ports a hash takes in: both, or those of one side alone.
enum class HashSide : uint8_t { both, source, destination };
struct HashSides {
  HashSide addresses = HashSide::both;
  HashSide ports = HashSide::both;
  friend constexpr bool operator==(const HashSides&, const HashSides&) noexcept = default;
};

struct Rss {
  uint32_t types = HashTypes::all;
  HashKey key = default_key;
  // The headers inside a tunnel are hashed, and `types` are theirs (level 2 of
  // rte_flow_action_rss, RTE_ETH_RSS_LEVEL_INNERMOST). Of a rule it needs one that names a tunnel;
  // of a port it is for frames in VXLAN and GRE, and others are spread by their only headers. The
  // port's queues have RxConfig::tunnel.
  bool inner = false;
  // The queue of a frame is table[hash % size]; the size is a power of two. Frames that have no
  // hash go to table[0]. Empty: all queues in turn.
  std::vector<uint16_t> table;
  HashSides sides{};
};

// The table with `queues` queues in turn, or `rss.table` if there is one.
inline std::vector<uint16_t> table_of(const Rss& rss, uint32_t queues) {
  if (!rss.table.empty()) return rss.table;
  std::vector<uint16_t> t(queues == 1 ? 1 : default_table);
  for (std::size_t i = 0; i < t.size(); i++) t[i] = static_cast<uint16_t>(i % queues);
  return t;
}

}  // namespace kilim::inline v1::flow
