// SPDX-License-Identifier: BSD-3-Clause
#include "spread.hh"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <rte_ethdev.h>

namespace kilim::testpmd {
namespace {

// Testpmd's names in its order (app/test-pmd/config.c, rss_type_table). What a Kilim port hashes by
// has a type, or is one side of it.
struct Single {
  std::string_view name;
  uint64_t rss_hf;
  uint32_t type = 0;
};
constexpr Single singles[] = {
    {"ipv4", RTE_ETH_RSS_IPV4, flow::HashTypes::ipv4},
    {"ipv4-frag", RTE_ETH_RSS_FRAG_IPV4, flow::HashTypes::ipv4},
    {"ipv4-tcp", RTE_ETH_RSS_NONFRAG_IPV4_TCP, flow::HashTypes::tcp4},
    {"ipv4-udp", RTE_ETH_RSS_NONFRAG_IPV4_UDP, flow::HashTypes::udp4},
    {"ipv4-sctp", RTE_ETH_RSS_NONFRAG_IPV4_SCTP},
    {"ipv4-other", RTE_ETH_RSS_NONFRAG_IPV4_OTHER, flow::HashTypes::ipv4},
    {"ipv6", RTE_ETH_RSS_IPV6, flow::HashTypes::ipv6},
    {"ipv6-frag", RTE_ETH_RSS_FRAG_IPV6, flow::HashTypes::ipv6},
    {"ipv6-tcp", RTE_ETH_RSS_NONFRAG_IPV6_TCP, flow::HashTypes::tcp6},
    {"ipv6-udp", RTE_ETH_RSS_NONFRAG_IPV6_UDP, flow::HashTypes::udp6},
    {"ipv6-sctp", RTE_ETH_RSS_NONFRAG_IPV6_SCTP},
    {"ipv6-other", RTE_ETH_RSS_NONFRAG_IPV6_OTHER, flow::HashTypes::ipv6},
    {"l2-payload", RTE_ETH_RSS_L2_PAYLOAD},
    {"ipv6-ex", RTE_ETH_RSS_IPV6_EX, flow::HashTypes::ipv6},
    {"ipv6-tcp-ex", RTE_ETH_RSS_IPV6_TCP_EX, flow::HashTypes::tcp6},
    {"ipv6-udp-ex", RTE_ETH_RSS_IPV6_UDP_EX, flow::HashTypes::udp6},
    {"l4-dst-only", RTE_ETH_RSS_L4_DST_ONLY},
    {"l4-src-only", RTE_ETH_RSS_L4_SRC_ONLY},
    {"l3-dst-only", RTE_ETH_RSS_L3_DST_ONLY},
    {"l3-src-only", RTE_ETH_RSS_L3_SRC_ONLY},
};
constexpr uint64_t all_sides = RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY |
                               RTE_ETH_RSS_L4_SRC_ONLY | RTE_ETH_RSS_L4_DST_ONLY;

// Both sides at once are all of it (rte_eth_rss_hf_refine()).
flow::HashSide side_of(uint64_t rss_hf, uint64_t source_only, uint64_t destination_only) noexcept {
  const bool source = (rss_hf & source_only) != 0, destination = (rss_hf & destination_only) != 0;
  if (source == destination) return flow::HashSide::both;
  return source ? flow::HashSide::source : flow::HashSide::destination;
}

// Words for several of them. Testpmd's `all` has tunnels, tags and more besides, of which the
// ports here take nothing.
struct Several {
  std::string_view name;
  uint64_t rss_hf;
};
constexpr Several groups[] = {
    {"ip", RTE_ETH_RSS_IP},
    {"udp", RTE_ETH_RSS_UDP},
    {"tcp", RTE_ETH_RSS_TCP},
    {"sctp", RTE_ETH_RSS_SCTP},
};
constexpr Several type_groups[] = {
    {"all", RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP |
                RTE_ETH_RSS_L2_PAYLOAD},
    {"none", 0},
};
// Bits of what a port offers that testpmd's list of flow types has no name for: the levels.
constexpr Several nameless[] = {
    {"user-defined-50", RTE_ETH_RSS_LEVEL_OUTERMOST},
    {"user-defined-51", RTE_ETH_RSS_LEVEL_INNERMOST},
};

// Testpmd counts 19 characters of each of them (config.c, rss_offload_types_display()).
constexpr std::size_t nameless_width = 19;

// Names in lines of at most 64 characters.
class Names {
 public:
  void add(std::string_view name) { add(name, name.size()); }
  // Adds a name as if it were `width` long.
  void add(std::string_view name, std::size_t width) {
    constexpr std::size_t longest = 64;
    if (counted_ + 2 + width > longest) {
      text_ += std::exchange(row_, "") + "\n";
      counted_ = 0;
    }
    row_.append("  ").append(name);
    counted_ += 2 + width;
  }
  [[nodiscard]] std::string text() const { return text_ + row_ + "\n"; }

 private:
  std::string text_, row_;
  std::size_t counted_ = 0;  // of the row
};

}  // namespace

std::optional<uint64_t> rss_of(std::string_view word) {
  for (const Several& s : type_groups)
    if (s.name == word) return s.rss_hf;
  for (const Several& s : groups)
    if (s.name == word) return s.rss_hf;
  for (const Single& s : singles)
    if (s.name == word) return s.rss_hf;
  return std::nullopt;
}

std::optional<uint64_t> rss_level_of(std::string_view word, uint64_t before) {
  const uint64_t kinds = before & ~RTE_ETH_RSS_LEVEL_MASK;
  if (word == "level-default") return kinds | RTE_ETH_RSS_LEVEL_PMD_DEFAULT;
  if (word == "level-outer") return kinds | RTE_ETH_RSS_LEVEL_OUTERMOST;
  if (word == "level-inner") return kinds | RTE_ETH_RSS_LEVEL_INNERMOST;
  return std::nullopt;
}

bool hashes_inside(uint64_t rss_hf) noexcept {
  return (rss_hf & RTE_ETH_RSS_LEVEL_MASK) == RTE_ETH_RSS_LEVEL_INNERMOST;
}

uint64_t rss_asked(const Options& o) noexcept {
  return o.disable_rss ? 0 : o.rss_hf.value_or(RTE_ETH_RSS_IP);
}

uint64_t native_rss(uint64_t rss_hf) noexcept {
  uint64_t can = all_sides;
  for (const Single& s : singles)
    if (s.type != 0) can |= s.rss_hf;
  return rss_hf & can;
}

flow::Rss spread_of(uint64_t rss_hf, const flow::Rss& before, uint32_t queues) {
  flow::Rss rss{.types = 0, .key = before.key, .table = before.table};
  for (const Single& s : singles)
    if ((rss_hf & s.rss_hf) != 0) rss.types |= s.type;
  if (rss.types == 0) {
    rss.types = before.types;
    rss.table = {0};
    return rss;
  }
  rss.inner = hashes_inside(rss_hf);
  rss.sides = {side_of(rss_hf, RTE_ETH_RSS_L3_SRC_ONLY, RTE_ETH_RSS_L3_DST_ONLY),
               side_of(rss_hf, RTE_ETH_RSS_L4_SRC_ONLY, RTE_ETH_RSS_L4_DST_ONLY)};
  const bool fits = rss.table.size() > 1 && std::all_of(rss.table.begin(), rss.table.end(),
                                                        [=](uint16_t q) { return q < queues; });
  if (!fits) rss.table.clear();
  return rss;
}

std::string rss_text(uint64_t rss_hf) {
  Names names;
  for (const Several& g : groups)
    if ((rss_hf & g.rss_hf) == g.rss_hf) names.add(g.name);
  for (const Single& s : singles)
    if ((rss_hf & s.rss_hf) != 0) names.add(s.name);
  return names.text();
}

std::string rss_offer_text(uint64_t rss_hf) {
  Names names;
  for (const Single& s : singles)
    if ((rss_hf & s.rss_hf & ~all_sides) != 0) names.add(s.name);
  for (const Several& n : nameless)
    if ((rss_hf & n.rss_hf) != 0) names.add(n.name, nameless_width);
  for (const Single& s : singles)
    if ((rss_hf & s.rss_hf & all_sides) != 0) names.add(s.name);
  return names.text();
}

std::string parse_rss_key(std::string_view text, flow::HashKey& key) {
  if (text.size() != 2 * key.size())
    return "key length: " + std::to_string(text.size()) + " invalid - key must be a string of " +
           std::to_string(2 * key.size()) + " hexa-decimal numbers";
  for (std::size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    uint8_t digit = 0;
    if (std::from_chars(&c, &c + 1, digit, 16).ec != std::errc{})
      return std::string("invalid key: character ") + (c < ' ' || c > '~' ? '?' : c) +
             " at position " + std::to_string(i) + " is not a valid hexa digit";
    uint8_t& byte = key[i / 2];
    byte = static_cast<uint8_t>(i % 2 == 0 ? digit << 4 : byte | digit);
  }
  return "";
}

}  // namespace kilim::testpmd
