// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with a rule whatever the device, field by field. Pure functions, any thread.
#include <cerrno>
#include <iterator>

#include "kilim/detail/flow/check_action.hh"
#include "kilim/detail/flow/expand.hh"
#include "kilim/detail/flow/rule.hh"

namespace kilim::inline v1::flow {
namespace {

constexpr RuleError ok{};

RuleError wrong(Field field, const char* what) noexcept {
  return {EINVAL, field, what};
}

template <typename T>
bool beyond_mask(const Masked<T>& m) noexcept {
  return (m.value & ~m.mask) != 0;
}
template <std::size_t n>
bool beyond_mask(const Masked<std::array<uint8_t, n>>& m) noexcept {
  for (std::size_t i = 0; i < n; i++)
    if ((m.value[i] & ~m.mask[i]) != 0) return true;
  return false;
}

constexpr const char* needless = "the value has bits that its mask leaves out";

// A number that is named must be the one that another layer of the rule implies.
template <typename T>
bool contradicts(const Masked<T>& m, T implied) noexcept {
  return ((m.value ^ implied) & m.mask) != 0;
}

RuleError check_eth(const Match& m) noexcept {
  if (!m.eth) return ok;
  const Eth& e = *m.eth;
  if (beyond_mask(e.dst)) return wrong(Field::eth_dst, needless);
  if (beyond_mask(e.src)) return wrong(Field::eth_src, needless);
  if (beyond_mask(e.type)) return wrong(Field::eth_type, needless);
  if (m.ipv4 && contradicts(e.type, type_ipv4))
    return wrong(Field::eth_type, "the Ethernet type is not IPv4's and the rule names IPv4");
  if (m.ipv6 && contradicts(e.type, type_ipv6))
    return wrong(Field::eth_type, "the Ethernet type is not IPv6's and the rule names IPv6");
  return ok;
}

RuleError check_ip(const Match& m) noexcept {
  if (m.ipv4 && m.ipv6) return wrong(Field::ipv6, "a frame is IPv4 or IPv6: make two rules");
  if (m.ipv4 &&
      (beyond_mask(m.ipv4->src) || beyond_mask(m.ipv4->dst) || beyond_mask(m.ipv4->protocol) ||
       beyond_mask(m.ipv4->tos) || beyond_mask(m.ipv4->ttl)))
    return wrong(Field::ipv4, needless);
  if (!m.ipv6) return ok;
  if (beyond_mask(m.ipv6->src) || beyond_mask(m.ipv6->dst) || beyond_mask(m.ipv6->protocol) ||
      beyond_mask(m.ipv6->traffic_class) || beyond_mask(m.ipv6->label) ||
      beyond_mask(m.ipv6->hop_limit))
    return wrong(Field::ipv6, needless);
  if (m.ipv6->label.mask >> 20 != 0) return wrong(Field::ipv6, "a flow label has 20 bits");
  return ok;
}

// The protocol that the IP layer of a rule names; without such a layer every one.
Masked<uint8_t> protocol_in(const Match& m) noexcept {
  return m.ipv4 ? m.ipv4->protocol : m.ipv6 ? m.ipv6->protocol : Masked<uint8_t>{};
}
bool wants_fragments(const Match& m) noexcept {
  return (m.ipv4 && m.ipv4->fragment.value_or(false)) ||
         (m.ipv6 && m.ipv6->fragment.value_or(false));
}

RuleError check_ports(const Match& m, const std::optional<Ports>& ports, Field field,
                      uint8_t protocol) noexcept {
  constexpr unsigned flags = 9;
  if (!ports) return ok;
  if (!m.ipv4 && !m.ipv6) return wrong(field, "ports need ipv4 or ipv6 in the same rule");
  if (beyond_mask(ports->src) || beyond_mask(ports->dst) || beyond_mask(ports->flags))
    return wrong(field, needless);
  if (contradicts(protocol_in(m), protocol))
    return wrong(field, "the IP layer names another protocol");
  if (wants_fragments(m)) return wrong(field, "a device reads no ports of fragments");
  if (ports->flags.mask >> (field == Field::tcp ? flags : 0) != 0)
    return wrong(field, "TCP has nine flags, and UDP none");
  return ok;
}

RuleError check_icmp(const Match& m) noexcept {
  if (!m.icmp) return ok;
  if (!m.ipv4 && !m.ipv6) return wrong(Field::icmp, "icmp needs ipv4 or ipv6 in the same rule");
  if (protocol_in(m) != exactly(m.ipv4 ? protocol_icmp : protocol_icmpv6))
    return wrong(Field::icmp, "the IP layer names another protocol than ICMP: 1, in IPv6 58");
  if (beyond_mask(m.icmp->type) || beyond_mask(m.icmp->code) || beyond_mask(m.icmp->ident) ||
      beyond_mask(m.icmp->sequence))
    return wrong(Field::icmp, needless);
  if (m.tcp || m.udp || wants_fragments(m))
    return wrong(Field::icmp, "a device reads ICMP of whole packets that are no TCP or UDP");
  return ok;
}

RuleError check_esp(const Match& m) noexcept {
  if (!m.esp) return ok;
  const bool in_udp = m.udp && m.udp->dst == exactly(port_esp);
  if (!in_udp && protocol_in(m) != exactly(protocol_esp))
    return wrong(Field::esp, "esp needs an IP layer that names protocol 50, or UDP's port 4500");
  if (beyond_mask(m.esp->spi)) return wrong(Field::esp, needless);
  if (m.tcp || (m.udp && !in_udp) || m.icmp || wants_fragments(m))
    return wrong(Field::esp, "a device reads the SPI of whole packets of ESP");
  return ok;
}

RuleError check_tunnel(const Match& m) noexcept {
  if (!m.tunnel) return ok;
  const Tunnel& t = *m.tunnel;
  if (beyond_mask(t.id) || beyond_mask(t.protocol) || beyond_mask(t.present))
    return wrong(Field::tunnel, needless);
  if (t.kind == Tunnel::Kind::vxlan && (t.protocol.mask != 0 || t.present.mask != 0))
    return wrong(Field::tunnel, "GRE has a protocol and bits, VXLAN has none");
  if ((t.present.mask & ~0xbu) != 0)
    return wrong(Field::tunnel, "of GRE's bits 8, 2 and 1 are matched");
  if (m.tunnel->kind == Tunnel::Kind::vxlan && m.tunnel->id.mask >> 24 != 0)
    return wrong(Field::tunnel, "a VXLAN number has 24 bits");
  return ok;
}

RuleError check_layers(const Match& m) noexcept;

// What is wrong with inner headers is told as wrong with `inner`.
RuleError check_inner(const Match& m) noexcept {
  if (!m.inner) return ok;
  if (!m.tunnel) return wrong(Field::inner, "inner headers need a tunnel in the same rule");
  RuleError e = check_layers(inside(*m.inner));
  if (e.code != 0) e.field = Field::inner;
  return e;
}

RuleError check_layers(const Match& m) noexcept {
  if (RuleError e = check_eth(m); e.code != 0) return e;
  if (m.vlan && beyond_mask(m.vlan->tci)) return wrong(Field::vlan, needless);
  if (m.vlan && m.untagged) return wrong(Field::vlan, "a frame has a tag or none: make two rules");
  if (RuleError e = check_ip(m); e.code != 0) return e;
  if (m.tcp && m.udp) return wrong(Field::udp, "a frame is TCP or UDP: make two rules");
  if (RuleError e = check_ports(m, m.tcp, Field::tcp, protocol_tcp); e.code != 0) return e;
  if (RuleError e = check_ports(m, m.udp, Field::udp, protocol_udp); e.code != 0) return e;
  if (RuleError e = check_icmp(m); e.code != 0) return e;
  if (RuleError e = check_esp(m); e.code != 0) return e;
  return check_tunnel(m);
}

RuleError check(const Match& m) noexcept {
  if (RuleError e = check_layers(m); e.code != 0) return e;
  return check_inner(m);
}

}  // namespace

const char* name_of(Field field) noexcept {
  constexpr const char* names[] = {"",
                                   "priority",
                                   "eth.dst",
                                   "eth.src",
                                   "eth.type",
                                   "vlan",
                                   "ipv4",
                                   "ipv6",
                                   "tcp",
                                   "udp",
                                   "tunnel",
                                   "inner",
                                   "icmp",
                                   "esp",
                                   "action.queue",
                                   "action.rss.types",
                                   "action.rss.table",
                                   "action.mark",
                                   "action.count",
                                   "action.rewrite",
                                   "action.prepend",
                                   "egress",
                                   "macs",
                                   "vlans"};
  static_assert(std::size(names) == static_cast<std::size_t>(Field::filter_vlans) + 1);
  return names[static_cast<std::size_t>(field)];
}

RuleError check(const Rss& rss, const RuleLimits& limits) noexcept {
  if (rss.types == 0 || (rss.types & ~HashTypes::all) != 0)
    return wrong(Field::rss_types, "name at least one of ipv4, tcp4, udp4, ipv6, tcp6, udp6");
  const std::size_t size = rss.table.size();
  if ((size & (size - 1)) != 0 || size > limits.longest_table)
    return wrong(Field::rss_table,
                 "the table's size is a power of two, at most 512 and what the "
                 "device has");
  if (rss.inner && limits.few_places)
    return {EOPNOTSUPP, Field::rss_types,
            "inner headers are hashed with 16 priorities of flow rules, and this kernel has 8"};
  for (const uint16_t q : rss.table)
    if (q >= limits.queues) return wrong(Field::rss_table, "the port has no such receive queue");
  return ok;
}

RuleError check(const Rule& rule, const RuleLimits& limits) noexcept {
  if (rule.priority > last_priority) return wrong(Field::priority, "priorities are 0 to 2");
  if (rule.priority != 0 && limits.few_places)
    return {EOPNOTSUPP, Field::priority,
            "this kernel has 8 priorities of flow rules, which suffice for priority 0 alone"};
  if (RuleError e = check(rule.match); e.code != 0) return e;
  return check_action(rule, limits);
}

}  // namespace kilim::inline v1::flow
