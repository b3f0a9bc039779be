// SPDX-License-Identifier: BSD-3-Clause
#include "flow_fields.hh"

#include <algorithm>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "options.hh"
#include "words.hh"

namespace kilim::testpmd {
namespace {

using Pattern = flow::Match;

// A field of a layer.
template <auto layer, auto member>
void set(Pattern& m, const FieldValue& v, bool mask) {
  auto& field = (*(m.*layer)).*member;
  auto& part = mask ? field.mask : field.value;
  using T = std::remove_reference_t<decltype(part)>;
  if constexpr (std::is_integral_v<T>)
    part = static_cast<T>(v.number);
  else
    std::memcpy(part.data(), v.bytes.data(), part.size());
}

// Bits of a VLAN tag: priority 15:13, DEI 12, number 11:0.
template <unsigned shift, unsigned bits>
void set_tci(Pattern& m, const FieldValue& v, bool mask) {
  auto& part = mask ? m.vlan->tci.mask : m.vlan->tci.value;
  constexpr unsigned field = ((1u << bits) - 1) << shift;
  part = static_cast<uint16_t>((part & ~field) | (v.number << shift & field));
}

// The type behind a tag stands in the Ethernet layer.
void set_inner_type(Pattern& m, const FieldValue& v, bool mask) {
  if (!m.eth) m.eth.emplace();
  set<&Pattern::eth, &flow::Eth::type>(m, v, mask);
}

// Fields of ICMP are looked at where one is named.
template <auto member>
void set_icmp(Pattern& m, const FieldValue& v, bool mask) {
  if (!m.icmp) m.icmp.emplace();
  set<&Pattern::icmp, member>(m, v, mask);
}

constexpr FlowField table[] = {
    {"eth", "dst", FieldKind::mac, 48, set<&Pattern::eth, &flow::Eth::dst>},
    {"eth", "src", FieldKind::mac, 48, set<&Pattern::eth, &flow::Eth::src>},
    {"eth", "type", FieldKind::number, 16, set<&Pattern::eth, &flow::Eth::type>},
    {"vlan", "tci", FieldKind::number, 16, set_tci<0, 16>},
    {"vlan", "pcp", FieldKind::number, 3, set_tci<13, 3>},
    {"vlan", "dei", FieldKind::number, 1, set_tci<12, 1>},
    {"vlan", "vid", FieldKind::number, 12, set_tci<0, 12>},
    {"vlan", "inner_type", FieldKind::number, 16, set_inner_type},
    {"ipv4", "src", FieldKind::ipv4, 32, set<&Pattern::ipv4, &flow::Ipv4::src>},
    {"ipv4", "dst", FieldKind::ipv4, 32, set<&Pattern::ipv4, &flow::Ipv4::dst>},
    {"ipv4", "proto", FieldKind::number, 8, set<&Pattern::ipv4, &flow::Ipv4::protocol>},
    {"ipv4", "tos", FieldKind::number, 8, set<&Pattern::ipv4, &flow::Ipv4::tos>},
    {"ipv4", "ttl", FieldKind::number, 8, set<&Pattern::ipv4, &flow::Ipv4::ttl>},
    {"ipv6", "src", FieldKind::ipv6, 128, set<&Pattern::ipv6, &flow::Ipv6::src>},
    {"ipv6", "dst", FieldKind::ipv6, 128, set<&Pattern::ipv6, &flow::Ipv6::dst>},
    {"ipv6", "proto", FieldKind::number, 8, set<&Pattern::ipv6, &flow::Ipv6::protocol>},
    {"ipv6", "tc", FieldKind::number, 8, set<&Pattern::ipv6, &flow::Ipv6::traffic_class>},
    {"ipv6", "flow", FieldKind::number, 20, set<&Pattern::ipv6, &flow::Ipv6::label>},
    {"ipv6", "hop", FieldKind::number, 8, set<&Pattern::ipv6, &flow::Ipv6::hop_limit>},
    {"tcp", "src", FieldKind::number, 16, set<&Pattern::tcp, &flow::Ports::src>},
    {"tcp", "dst", FieldKind::number, 16, set<&Pattern::tcp, &flow::Ports::dst>},
    {"tcp", "flags", FieldKind::number, 8, set<&Pattern::tcp, &flow::Ports::flags>},
    {"udp", "src", FieldKind::number, 16, set<&Pattern::udp, &flow::Ports::src>},
    {"udp", "dst", FieldKind::number, 16, set<&Pattern::udp, &flow::Ports::dst>},
    {"icmp", "type", FieldKind::number, 8, set_icmp<&flow::Icmp::type>},
    {"icmp", "code", FieldKind::number, 8, set_icmp<&flow::Icmp::code>},
    {"icmp", "ident", FieldKind::number, 16, set_icmp<&flow::Icmp::ident>},
    {"icmp", "seq", FieldKind::number, 16, set_icmp<&flow::Icmp::sequence>},
    {"icmp6", "type", FieldKind::number, 8, set_icmp<&flow::Icmp::type>},
    {"icmp6", "code", FieldKind::number, 8, set_icmp<&flow::Icmp::code>},
    {"vxlan", "vni", FieldKind::number, 24, set<&Pattern::tunnel, &flow::Tunnel::id>},
    {"gre_key", "value", FieldKind::number, 32, set<&Pattern::tunnel, &flow::Tunnel::id>},
};

bool add_tunnel(Pattern& m, flow::Tunnel::Kind kind) {
  if (m.tunnel) return false;
  m.tunnel.emplace().kind = kind;
  return true;
}

template <auto layer>
bool add(Pattern& m) {
  if (m.*layer) return false;
  (m.*layer).emplace();
  return true;
}

// Without fields the item is the protocol's number.
template <auto ip, uint8_t number>
bool add_icmp(Pattern& m) {
  if (!(m.*ip) || m.tcp || m.udp || m.tunnel) return false;
  auto& protocol = (m.*ip)->protocol;
  if (protocol.value != (number & protocol.mask)) return false;
  protocol = flow::exactly(number);
  return true;
}

struct Item {
  const char* name;
  bool (*join)(Pattern& m);
};
constexpr Item items[] = {
    {"eth", add<&Pattern::eth>},
    {"vlan", add<&Pattern::vlan>},
    {"ipv4", add<&Pattern::ipv4>},
    {"ipv6", add<&Pattern::ipv6>},
    {"tcp", add<&Pattern::tcp>},
    {"udp", add<&Pattern::udp>},
    {"icmp", add_icmp<&Pattern::ipv4, IPPROTO_ICMP>},
    {"icmp6", add_icmp<&Pattern::ipv6, IPPROTO_ICMPV6>},
    {"vxlan", [](Pattern& m) { return add_tunnel(m, flow::Tunnel::Kind::vxlan); }},
    {"gre", [](Pattern& m) { return add_tunnel(m, flow::Tunnel::Kind::gre); }},
    // Behind `gre`, whose key it is.
    {"gre_key", [](Pattern& m) { return m.tunnel && m.tunnel->kind == flow::Tunnel::Kind::gre; }},
};

}  // namespace

std::span<const FlowField> flow_fields() {
  return table;
}

bool is_item(std::string_view word) {
  return std::any_of(std::begin(items), std::end(items),
                     [word](const Item& i) { return word == i.name; });
}

bool add_item(flow::Match& to, std::string_view item) {
  for (const Item& i : items)
    if (item == i.name) return i.join(to);
  return false;
}

bool read_value(std::string_view text, const FlowField& field, FieldValue& out) {
  const std::string word(text.substr(0, 64));
  if (field.kind == FieldKind::mac) {
    Mac mac;
    if (!parse_mac(text, mac)) return false;
    std::copy(mac.begin(), mac.end(), out.bytes.begin());
    return true;
  }
  if (field.kind == FieldKind::ipv4) return inet_pton(AF_INET, word.c_str(), out.bytes.data()) == 1;
  if (field.kind == FieldKind::ipv6)
    return inet_pton(AF_INET6, word.c_str(), out.bytes.data()) == 1;
  uint32_t n = 0;
  if (!read_number(text, n) || (field.bits < 32 && n >> field.bits != 0)) return false;
  out.number = n;
  return true;
}

FieldValue prefix_mask(const FlowField& field, uint32_t prefix) {
  FieldValue v;
  for (uint32_t i = 0; i < prefix; i++) v.bytes[i / 8] |= static_cast<uint8_t>(0x80 >> i % 8);
  const uint64_t all = (uint64_t{1} << std::min<uint32_t>(field.bits, 63)) - 1;
  v.number = prefix == 0 ? 0 : all << (field.bits - std::min<uint32_t>(prefix, field.bits)) & all;
  return v;
}

}  // namespace kilim::testpmd
