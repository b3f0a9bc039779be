// SPDX-License-Identifier: BSD-3-Clause
// Part of steering_ut. What a kernel is told of a rule is true of the same frames as the rule: the
// comparisons are made here as nf_tables makes them, for rules that ask for parts of one frame, and
// for frames that differ from it a little.
#include "vhca/ethernet/kernel_rule.hh"

#include <random>

#include "steering_fixture.hh"
#include "vhca/ethernet/match_param.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace kernel_rule_ut {
namespace {

using kilim::test::Bytes;
using From = wire::FrameMatch::From;
using Random = std::mt19937;

unsigned below(Random& r, unsigned n) {
  return static_cast<unsigned>(r() % n);
}

// Where a kernel finds the headers of a frame without extension headers (Linux
// include/net/netfilter/nf_tables_ipv4.h, nf_tables_ipv6.h); 0: there is none.
struct Headers {
  std::size_t type = 12, network = 0, transport = 0;
  bool ipv4 = false, ipv6 = false;

  explicit Headers(const Bytes& f) {
    if (get16(f, 12) == 0x8100 || get16(f, 12) == 0x88a8) type = 16;
    ipv4 = get16(f, type) == 0x0800;
    ipv6 = get16(f, type) == 0x86dd;
    if (!ipv4 && !ipv6) return;
    network = type + 2;
    const bool whole = ipv6 || (get16(f, network + 6) & 0x1fff) == 0;
    if (whole) transport = network + (ipv6 ? 40 : 20);
  }
};

// The bytes that a comparison is about; none: they are not there.
Bytes loaded(const wire::FrameMatch::Compare& c, const Bytes& f) {
  const Headers h(f);
  if (c.from == From::fragment) return h.ipv6 ? Bytes{std::byte{0}} : Bytes{};
  std::size_t at = c.at;
  if (c.from == From::type) at = h.type;
  if (c.from == From::network) at += h.network;
  if (c.from == From::transport) at += h.transport;
  if (c.from == From::protocol) at = h.network + (h.ipv4 ? 9 : 6);
  const bool there = c.from == From::link || c.from == From::type ||
                     (c.from == From::transport ? h.transport : h.network) != 0;
  if (!there || at + c.bytes > f.size()) return {};
  const auto from = f.begin() + static_cast<std::ptrdiff_t>(at);
  return {from, from + c.bytes};
}

bool is_true(const wire::FrameMatch::Compare& c, const Bytes& f) {
  const Bytes bytes = loaded(c, f);
  if (bytes.empty()) return false;
  bool same = true;
  for (std::size_t i = 0; i < bytes.size(); i++)
    same = same && (std::to_integer<uint8_t>(bytes[i]) & c.mask[i]) == c.value[i];
  return same != c.differs;
}

bool is_taken(const ethernet::KernelRule& rule, const Bytes& f) {
  return std::any_of(rule.matches.begin(), rule.matches.end(), [&f](const wire::FrameMatch& m) {
    return std::all_of(m.compares.begin(), m.compares.end(),
                       [&f](const wire::FrameMatch::Compare& c) { return is_true(c, f); });
  });
}

Bytes any_packet(Random& r) {
  const bool ipv6 = below(r, 2) == 0;
  const uint16_t fragments[] = {0, 0, 0, 0x4000, 0x2000, 0x0010};
  Bytes f = make_frame({.ipv6 = ipv6,
                        .tcp = below(r, 2) == 0,
                        .tags = below(r, 3) == 0 ? 1 : 0,
                        .payload = below(r, 50),
                        .dst_first = static_cast<uint8_t>(below(r, 4) == 0 ? 3 : 2),
                        .tcp_flags = static_cast<uint8_t>(r()),
                        .fragment = ipv6 ? uint16_t{0} : fragments[below(r, 6)]});
  if (below(r, 10) == 0) put16(f, Headers(f).type, 0x0806);
  return f;
}

// A bit of a header, but for those that say what it is and how long.
Bytes any_neighbour(Random& r, Bytes f) {
  const Headers h(f);
  const std::size_t ends = h.network == 0 ? 14 : h.network + 44;
  const std::size_t at = below(r, static_cast<unsigned>(std::min(ends, f.size())));
  const bool l2 = at == 12 || at == 13 || at == h.type || at == h.type + 1;
  const bool l3 =
      at == h.network || at == h.network + (h.ipv4 ? 2 : 4) || at == h.network + (h.ipv4 ? 3 : 5);
  const bool l4 = at == h.transport + 4 || at == h.transport + 5 || at == h.transport + 12;
  if (l2 || (h.network != 0 && l3) || (h.transport != 0 && l4)) return f;
  f[at] ^= static_cast<std::byte>(1u << below(r, 8));
  return f;
}

// Bytes of the buffer that belong together.
struct Field {
  std::size_t at, bytes;
};
constexpr Field fields[] = {{0, 6},  {6, 2},  {8, 6},  {14, 2}, {16, 1}, {17, 1},  {18, 2}, {20, 2},
                            {22, 2}, {26, 1}, {27, 1}, {28, 2}, {30, 2}, {32, 16}, {48, 16}};

FlowSpec any_rule(Random& r, const Bytes& f) {
  FlowSpec s;
  s.by_buffer = true;
  for (unsigned n = below(r, 4); n > 0; n--) {
    const Field& field = fields[below(r, std::size(fields))];
    const bool whole = below(r, 3) != 0;
    for (std::size_t i = 0; i < field.bytes; i++)
      s.buffer_mask[field.at + i] = whole ? 0xff : static_cast<uint8_t>(r());
  }
  if (below(r, 2) == 0) s.buffer_mask[18] |= 0x1e;  // ip_version
  if (below(r, 2) == 0) s.buffer_mask[16] = 0xff;   // ip_protocol
  s.buffer_mask[26] &= 0xf0;                        // ipv4_ihl
  s.buffer = ethernet::outer_headers(f);
  for (std::size_t i = 0; i < s.buffer.size(); i++) s.buffer[i] &= s.buffer_mask[i];
  return s;
}

void a_kernel_loses_what_a_rule_takes_and_nothing_else() {
  Random r(5);
  unsigned said = 0, unsaid = 0, taken = 0, left = 0;
  for (int i = 0; i < 20000; i++) {
    const Bytes f = any_packet(r);
    const FlowSpec spec = any_rule(r, f);
    const ethernet::KernelRule rule = ethernet::kernel_rule_of(spec);
    if (rule.why != nullptr) {
      unsaid++;
      continue;
    }
    said++;
    Steering s;
    CU_ASSERT_FATAL(s.add(&a, spec).ok());
    EQUAL_FATAL(is_taken(rule, f), true);
    for (int k = 0; k < 6; k++) {
      const Bytes g = k < 3 ? any_neighbour(r, f) : any_packet(r);
      const bool takes = !s.match(g).empty();
      EQUAL_FATAL(is_taken(rule, g), takes);
      (takes ? taken : left)++;
    }
  }
  CU_ASSERT(said > 10000);
  CU_ASSERT(unsaid > 500);
  CU_ASSERT(taken > 9000);
  CU_ASSERT(left > 9000);
}

// Rules of verbs: what they ask for is what a buffer would.
void a_rule_of_verbs_is_said_too() {
  FlowSpec port;
  port.ip_version = 4;
  port.l4_protocol = 6;
  port.ports.dst = 80;
  port.ports_mask.dst = 0xffff;
  Bytes f = make_frame({});
  put16(f, l4_of({}) + 2, 80);
  const ethernet::KernelRule rule = ethernet::kernel_rule_of(port);
  EQUAL(rule.why, nullptr);
  CU_ASSERT(is_taken(rule, f));
  put16(f, l4_of({}) + 2, 81);
  CU_ASSERT(!is_taken(rule, f));
  CU_ASSERT(!is_taken(rule, make_frame({.tcp = false})));
  FlowSpec everything, groups, nothing;
  everything.type = FlowSpec::Type::all_default;
  groups.type = FlowSpec::Type::mc_default;
  nothing.has_eth = true;
  for (const FlowSpec& s : {everything, nothing}) {
    CU_ASSERT(is_taken(ethernet::kernel_rule_of(s), f));
    EQUAL(ethernet::kernel_rule_of(s).why, nullptr);
  }
  CU_ASSERT(!is_taken(ethernet::kernel_rule_of(groups), f));
  CU_ASSERT(is_taken(ethernet::kernel_rule_of(groups), make_frame({.dst_first = 1})));
}

// Half of a rule would take other frames than the rule.
void a_rule_that_cannot_be_said_is_not_said_at_all() {
  FlowSpec tunnel, part, missing;
  tunnel.by_buffer = part.by_buffer = missing.by_buffer = true;
  tunnel.deep = true;
  tunnel.deeper_mask.inner[8] = tunnel.deeper.inner[8] = 2;
  part.buffer_mask[18] = 0x10;     // a bit of ip_version
  missing.buffer_mask[20] = 0xff;  // TCP's source port is 0, or there is none
  for (const FlowSpec& s : {tunnel, part, missing}) {
    const ethernet::KernelRule rule = ethernet::kernel_rule_of(s);
    CU_ASSERT(rule.why != nullptr);
    CU_ASSERT(rule.matches.empty());
  }
}

constexpr Case of_kernel[] = {
    {"a kernel loses what a rule takes, and nothing else",
     a_kernel_loses_what_a_rule_takes_and_nothing_else},
    {"a rule of verbs is said to the kernel too", a_rule_of_verbs_is_said_too},
    {"a rule that cannot be said is not said at all",
     a_rule_that_cannot_be_said_is_not_said_at_all},
};

}  // namespace
}  // namespace kernel_rule_ut

std::span<const kilim::test::Case> kilim::test::kernel_rule_cases() {
  return kernel_rule_ut::of_kernel;
}
