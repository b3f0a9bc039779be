// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/flow/expand.hh"

namespace kilim::inline v1::flow {
namespace {

template <typename T>
bool allows(const Masked<T>& m, T value) noexcept {
  return ((m.value ^ value) & m.mask) == 0;
}

HashKind kind_if(HashKind kind, uint32_t types, HashKind otherwise) noexcept {
  return (types & type_of(kind)) != 0 ? kind : otherwise;
}

// The kinds of one IP version.
struct Version {
  HashKind ip, tcp, udp;
};
constexpr Version version4{HashKind::ipv4, HashKind::tcp4, HashKind::udp4};
constexpr Version version6{HashKind::ipv6, HashKind::tcp6, HashKind::udp6};

// A match that names an IP version.
void expand_ip(const Match& m, uint32_t types, std::vector<Leaf>& to) {
  const Version& v = m.ipv4 ? version4 : version6;
  const Masked<uint8_t>& protocol = m.ipv4 ? m.ipv4->protocol : m.ipv6->protocol;
  const HashKind by_address = kind_if(v.ip, types, HashKind::none);
  // A fragment is hashed by its addresses.
  if ((m.ipv4 ? m.ipv4->fragment : m.ipv6->fragment).value_or(false) || m.icmp || m.esp)
    return to.push_back({m, by_address});
  if (m.tcp || m.udp) return to.push_back({m, kind_if(m.tcp ? v.tcp : v.udp, types, by_address)});
  if ((types & type_of(v.tcp)) != 0 && allows(protocol, protocol_tcp)) {
    Leaf leaf{m, v.tcp};
    leaf.match.tcp = Ports{};
    to.push_back(leaf);
  }
  if ((types & type_of(v.udp)) != 0 && allows(protocol, protocol_udp)) {
    Leaf leaf{m, v.udp};
    leaf.match.udp = Ports{};
    to.push_back(leaf);
  }
  to.push_back({m, by_address});
}

bool wants(const Match& m, uint32_t types, const Version& v, uint16_t type) noexcept {
  const uint32_t any = type_of(v.ip) | type_of(v.tcp) | type_of(v.udp);
  return (types & any) != 0 && (!m.eth || allows(m.eth->type, type));
}

// The leaves without their layers.
std::vector<Leaf> expand_layers(const Match& match, uint32_t types) {
  std::vector<Leaf> leaves;
  if (match.ipv4 || match.ipv6) {
    expand_ip(match, types, leaves);
    return leaves;
  }
  if (wants(match, types, version4, type_ipv4)) {
    Match m = match;
    m.ipv4 = Ipv4{};
    expand_ip(m, types, leaves);
  }
  if (wants(match, types, version6, type_ipv6)) {
    Match m = match;
    m.ipv6 = Ipv6{};
    expand_ip(m, types, leaves);
  }
  leaves.push_back({match, HashKind::none});
  return leaves;
}

}  // namespace

Layer layer_of(const Match& m) noexcept {
  if (m.tcp || m.udp || m.tunnel || m.icmp || m.esp) return Layer::ports;
  return m.ipv4 || m.ipv6 ? Layer::ip : Layer::link;
}

bool for_groups_alone(const Match& m) noexcept {
  return m.eth && (m.eth->dst.value[0] & m.eth->dst.mask[0] & 1) != 0;
}

Match inside(const Inner& i) noexcept {
  Match m;
  m.ipv4 = i.ipv4;
  m.ipv6 = i.ipv6;
  m.tcp = i.tcp;
  m.udp = i.udp;
  m.eth = i.eth;
  m.vlan = i.vlan;
  return m;
}

std::vector<Match> in_tunnels(const Match& match) {
  std::vector<Match> all;
  if (for_groups_alone(match)) return all;
  for (const bool six : {false, true}) {
    Match outer = match;
    if (six)
      outer.ipv6 = Ipv6{};
    else
      outer.ipv4 = Ipv4{};
    outer.tunnel = Tunnel{.kind = Tunnel::Kind::gre, .id = {}};
    all.push_back(outer);
    // A rule for a tunnel without a number asks for the UDP port alone.
    outer.tunnel->kind = Tunnel::Kind::vxlan;
    outer.udp = Ports{.src = {}, .dst = exactly(port_vxlan)};
    all.push_back(outer);
  }
  return all;
}

std::vector<Leaf> expand(const Match& match, uint32_t types, bool inner) {
  if (for_groups_alone(match)) return {{match, HashKind::none, layer_of(match)}};
  if (!inner) {
    std::vector<Leaf> leaves = expand_layers(match, types);
    for (Leaf& l : leaves) l.layer = layer_of(l.match);
    return leaves;
  }
  std::vector<Leaf> leaves = expand_layers(inside(match.inner.value_or(Inner{})), types);
  for (Leaf& l : leaves) {
    l.layer = layer_of(l.match);
    const Match& m = l.match;
    const Inner headers{m.ipv4, m.ipv6, m.tcp, m.udp, m.eth, m.vlan};
    l.match = match;
    if (headers != Inner{}) l.match.inner = headers;
  }
  return leaves;
}

}  // namespace kilim::inline v1::flow
