// SPDX-License-Identifier: BSD-3-Clause
// Commands about how frames are spread over receive queues, with testpmd's answers (DPDK 22.11,
// app/test-pmd/cmdline.c and config.c). They change at once, and count for further starts too.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <rte_ethdev.h>

#include "commands.hh"
#include "session.hh"
#include "spread.hh"

namespace kilim::testpmd {
namespace {

// Says whether a port spreads frames. With one queue it spreads none, like an ethdev.
bool spreads(Session& s, uint32_t port) {
  return s.forwarder().sizes_of(port).rxq > 1;
}

int set_native(Session& s, uint32_t n, const flow::Rss& rss) {
  if (!spreads(s, n)) {
    std::fprintf(stderr, "Multi-queue RSS mode isn't enabled.\n");
    return EOPNOTSUPP;
  }
  const Status done = s.port(n).native->set_rss(rss);
  if (!done) std::fprintf(stderr, "port %u: %s\n", n, done.error().what);
  return done ? 0 : done.error().code;
}

// What a port can be asked for.
uint64_t offered(Session& s, uint32_t n) {
  if (s.port(n).native != nullptr) return s.forwarder().native_rss_of(n);
  rte_eth_dev_info info{};
  const bool told = rte_eth_dev_info_get(s.port(n).ethdev, &info) == 0;
  return told ? info.flow_type_rss_offloads : 0;
}

// Returns an errno.
int set_types(Session& s, uint32_t n, uint64_t asked, bool as_can) {
  const PortRef& p = s.port(n);
  const uint64_t can = offered(s, n);
  const uint64_t now = rte_eth_rss_hf_refine(as_can ? can : asked & can);
  if (!as_can && now != asked)
    std::printf("Port %u modified RSS hash function based on hardware support,requested:%#" PRIx64
                " configured:%#" PRIx64 "\n",
                n, asked, now);
  if (p.native != nullptr)
    return set_native(s, n, spread_of(now, p.native->rss(), s.forwarder().sizes_of(n).rxq));
  rte_eth_rss_conf conf{};
  conf.rss_hf = now;
  return -rte_eth_dev_rss_hash_update(p.ethdev, &conf);
}

void config_rss(Session& s, const Line& line) {
  const bool as_can = line.word(4) == "default";
  const uint64_t asked = as_can ? 0
                                : rss_level_of(line.word(4), rss_asked(s.options()))
                                      .value_or(rss_of(line.word(4)).value_or(0));
  bool all = true;
  for (uint32_t n = 0; n < s.ports(); n++) {
    const int error = set_types(s, n, asked, as_can);
    all = all && error == 0;
    if (error != 0)
      std::fprintf(stderr,
                   "Configuration of RSS hash at ethernet port %u failed with error (%d): %s.\n", n,
                   error, std::strerror(error));
  }
  if (!all) return;
  const uint64_t kept = as_can ? rte_eth_rss_hf_refine(native_rss(~uint64_t{0})) : asked;
  s.note_spread(kept);
  if (!as_can) std::printf("rss_hf %#" PRIx64 "\n", asked);
}

// A driver's own words are on its log.
void say_key_error(int error) {
  if (error == ENOTSUP)
    std::fprintf(stderr, "operation not supported by device\n");
  else if (error != 0)
    std::fprintf(stderr, "operation failed - diag=%d\n", -error);
}

// Sets the key and makes the named kind the only one, as testpmd does.
void config_key(Session& s, const Line& line) {
  const auto list = s.ports_of(line.word(2));
  if (list.empty()) return;
  flow::HashKey key{};
  const std::string why = parse_rss_key(line.word(5), key);
  if (!why.empty()) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return;
  }
  const uint64_t kind = rss_of(line.word(4)).value_or(0);
  const PortRef& p = s.port(list[0]);
  if (p.native == nullptr) {
    rte_eth_rss_conf conf{key.data(), static_cast<uint8_t>(key.size()), kind};
    return say_key_error(-rte_eth_dev_rss_hash_update(p.ethdev, &conf));
  }
  if (native_rss(kind) == 0) return say_key_error(EINVAL);
  flow::Rss rss = spread_of(kind, p.native->rss(), s.forwarder().sizes_of(list[0]).rxq);
  rss.key = key;
  const int error = set_native(s, list[0], rss);
  if (error == 0) s.memory(list[0]).rss_hf = kind;
  say_key_error(error);
}

// "(0,1),(5,2)". False: it was said what is wrong.
bool read_reta(const std::string& text, std::vector<uint16_t>& table) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('(', at), comma = text.find(',', open),
                      end = text.find(')', comma);
    uint32_t hash = 0, queue = 0;
    if (open != at || end == std::string::npos ||
        !read_number(text.substr(open + 1, comma - open - 1), hash) ||
        !read_number(text.substr(comma + 1, end - comma - 1), queue) || queue > UINT16_MAX) {
      std::fprintf(stderr, "reta is (HASH,QUEUE)[,(HASH,QUEUE)...] with HASH below %zu\n",
                   table.size());
      return false;
    }
    if (hash >= table.size()) {
      std::fprintf(stderr, "Invalid RETA hash index=%u\n", hash);
      return false;
    }
    table[hash] = static_cast<uint16_t>(queue);
    at = end + 1;
    if (at < text.size() && text[at] == ',') at++;
  }
  return true;
}

// The table in as many entries as `show port info` says, as an ethdev tells it: one of a single
// entry stands again and again.
std::vector<uint16_t> reta_of(Session& s, uint32_t n, const flow::Rss& rss) {
  std::vector<uint16_t> table = flow::table_of(rss, s.forwarder().sizes_of(n).rxq);
  for (std::size_t i = 0, own = table.size(); table.size() < flow::default_table; i++)
    table.push_back(table[i % own]);
  return table;
}

void config_reta(Session& s, const Line& line) {
  const auto list = s.ports_of(line.word(2));
  port::Port* p = list.empty() ? nullptr : s.native_of(list[0]);
  if (p == nullptr) return;
  flow::Rss rss = p->rss();
  rss.table = reta_of(s, list[0], rss);
  std::printf("The reta size of port %u is %zu\n", list[0], rss.table.size());
  const std::vector<uint16_t> before = rss.table;
  flow::RuleError why;
  if (!read_reta(line.word(5), rss.table))
    std::fprintf(stderr, "Invalid RSS Redirection Table config entered\n");
  else if (rss.table == before)
    return;  // nor is a table written down that more queues would have to keep
  else if (!p->set_rss(rss, &why))
    std::fprintf(stderr, "port %u: %s: %s\n", list[0], flow::name_of(why.field), why.what);
}

void print_reta(std::size_t i, uint16_t queue) {
  std::printf("RSS RETA configuration: hash index=%zu, queue=%u\n", i, queue);
}

void show_reta(Session& s, const Line& line) {
  for (const uint32_t n : s.ports_of(line.word(2))) {
    port::Port* p = s.native_of(n);
    if (p == nullptr) return;
    const auto table = reta_of(s, n, p->rss());
    for (std::size_t i = 0; i < table.size(); i++) print_reta(i, table[i]);
  }
}

// "0xff,0x1": bits of 64 entries each.
void show_part_of_reta(Session& s, const Line& line) {
  constexpr std::size_t each = RTE_ETH_RETA_GROUP_SIZE;
  const auto list = s.ports_of(line.word(2));
  port::Port* p = list.empty() ? nullptr : s.native_of(list[0]);
  if (p == nullptr) return;
  const auto table = reta_of(s, list[0], p->rss());
  if (line.number(5) == 0 || line.number(5) > table.size()) {
    std::fprintf(stderr, "Invalid redirection table size: %u; it has %zu entries\n", line.number(5),
                 table.size());
    return;
  }
  std::string masks = line.word(6);  // testpmd's has brackets
  std::erase_if(masks, [](char c) { return c == '(' || c == ')'; });
  std::size_t at = 0;
  for (std::size_t first = 0; first < line.number(5) && at <= masks.size(); first += each) {
    const std::size_t comma = std::min(masks.find(',', at), masks.size());
    const uint64_t mask = std::strtoull(masks.substr(at, comma - at).c_str(), nullptr, 0);
    for (std::size_t i = 0; i < each && first + i < line.number(5); i++)
      if ((mask >> i & 1) != 0) print_reta(first + i, table[first + i]);
    at = comma + 1;
  }
}

void print_spread(uint64_t rss_hf, std::span<const uint8_t> key) {
  if (rss_hf == 0) {
    std::printf("RSS disabled\n");
    return;
  }
  std::printf("RSS functions:\n%s", rss_text(rss_hf).c_str());
  if (key.empty()) return;
  std::printf("RSS key:\n");
  for (const uint8_t b : key) std::printf("%02X", b);
  std::printf("\n");
}

void show_hash(Session& s, const Line& line) {
  const bool with_key = line.size() > 4;
  for (const uint32_t n : s.ports_of(line.word(2))) {
    const PortRef& p = s.port(n);
    if (p.native != nullptr) {
      const uint64_t own = s.memory(n).rss_hf.value_or(rss_asked(s.options()));
      print_spread(
          spreads(s, n) ? native_rss(own) : 0,
          with_key ? std::span<const uint8_t>(p.native->rss().key) : std::span<const uint8_t>());
      continue;
    }
    flow::HashKey key{};
    rte_eth_rss_conf conf{with_key ? key.data() : nullptr, static_cast<uint8_t>(key.size()), 0};
    const int error = -rte_eth_dev_rss_hash_conf_get(p.ethdev, &conf);
    if (error != 0) return say_key_error(error);
    print_spread(conf.rss_hf, with_key ? std::span<const uint8_t>(key).first(
                                             std::min(std::size_t{conf.rss_key_len}, key.size()))
                                       : std::span<const uint8_t>());
  }
}

constexpr CommandRow rss_rows[] = {
    {"show port <port> rss-hash", show_hash, "By what frames are spread over receive queues."},
    {"show port <port> rss-hash key", show_hash, "The same with the key."},
    {"show port <port> rss reta", show_reta, "The table from hash to queue."},
    {"show port <port> rss reta <n> <text>", show_part_of_reta,
     "Of its first N entries those whose bits are in MASK[,MASK...], 64 each."},
    {"port config all rss level-default|level-outer|level-inner", config_rss,
     "By which of a tunnel's headers frames are spread; inner: in VXLAN and GRE by those inside."},
    {"port config all rss all|default|none|ip|tcp|udp|sctp|ipv4|ipv4-frag|ipv4-tcp|ipv4-udp|"
     "ipv4-sctp|ipv4-other|ipv6|ipv6-frag|ipv6-tcp|ipv6-udp|ipv6-sctp|ipv6-other|ipv6-ex|"
     "ipv6-tcp-ex|ipv6-udp-ex|l2-payload|l3-src-only|l3-dst-only|l4-src-only|l4-dst-only",
     config_rss, "By what frames are spread; default: all that a port can."},
    {"port config <port> rss-hash-key ipv4|ipv4-frag|ipv4-tcp|ipv4-udp|ipv4-sctp|ipv4-other|ipv6|"
     "ipv6-frag|ipv6-tcp|ipv6-udp|ipv6-sctp|ipv6-other|ipv6-ex|ipv6-tcp-ex|ipv6-udp-ex|l2-payload "
     "<text>",
     config_key, "A key of 80 hexadecimal digits, and this kind of frames alone."},
    {"port config <port> rss reta <text>", config_reta, "Entries of the table, (HASH,QUEUE),..."},
};

}  // namespace

const Section rss_commands{"rss", "Spreading of frames over receive queues", rss_rows};

}  // namespace kilim::testpmd
