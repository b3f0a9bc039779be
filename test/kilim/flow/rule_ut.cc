// SPDX-License-Identifier: BSD-3-Clause
// Flow rules as values: what is refused and which field is named, how rules that spread are
// divided, what a port's filter takes.
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "kilim/detail/flow/expand.hh"
#include "kilim/detail/flow/filter.hh"
#include "kilim/detail/flow/rule.hh"
#include "ut.hh"

namespace rule_ut {
namespace {

using namespace kilim;
using namespace kilim::flow;

constexpr RuleLimits limits{.queues = 4, .longest_table = 8};
constexpr MacAddress own{2, 0, 0, 0, 0, 1}, other{2, 0, 0, 0, 0, 2}, group{1, 0, 0x5e, 0, 0, 1};

Rule udp_rule() {
  Rule r;
  r.match.ipv4 = Ipv4{.src = exactly(Ipv4Address{10, 0, 0, 1})};
  r.match.udp = Ports{.dst = exactly(uint16_t{53})};
  return r;
}

struct Wrong {
  Field field;
  const char* name;
  void (*spoil)(Rule&);
};
constexpr Wrong wrongs[] = {
    {Field::priority, "priority", [](Rule& r) { r.priority = 3; }},
    {Field::eth_dst, "eth.dst",
     [](Rule& r) {
       r.match.eth = Eth{.dst = {other, {}}};
     }},
    {Field::eth_src, "eth.src",
     [](Rule& r) {
       r.match.eth = Eth{.src = {other, {}}};
     }},
    {Field::eth_type, "eth.type",
     [](Rule& r) {
       r.match.eth = Eth{.type = {1, 2}};
     }},
    {Field::eth_type, "eth.type", [](Rule& r) { r.match.eth = Eth{.type = exactly(type_ipv6)}; }},
    {Field::eth_type, "eth.type",
     [](Rule& r) {
       r.match = {};
       r.match.ipv6 = Ipv6{};
       r.match.eth = Eth{.type = exactly(type_ipv4)};
     }},
    {Field::vlan, "vlan",
     [](Rule& r) {
       r.match.vlan = Vlan{.tci = {7, 8}};
     }},
    {Field::ipv4, "ipv4", [](Rule& r) { r.match.ipv4->dst.value[3] = 1; }},
    {Field::ipv4, "ipv4", [](Rule& r) { r.match.ipv4->tos.value = 1; }},
    {Field::ipv6, "ipv6", [](Rule& r) { r.match.ipv6 = Ipv6{}; }},
    {Field::ipv6, "ipv6",
     [](Rule& r) {
       r.match.ipv4.reset();
       r.match.ipv6 = Ipv6{.label = exactly(uint32_t{1})};
     }},
    {Field::ipv6, "ipv6",
     [](Rule& r) {
       r.match.ipv4.reset();
       r.match.ipv6 = Ipv6{.traffic_class = {1, 0}};
     }},
    {Field::ipv6, "ipv6",
     [](Rule& r) {
       r.match.ipv4.reset();
       r.match.ipv6 = Ipv6{.label = {0, 1u << 20}};
     }},
    {Field::udp, "udp", [](Rule& r) { r.match.tcp = Ports{}; }},
    {Field::udp, "udp", [](Rule& r) { r.match.ipv4.reset(); }},
    {Field::udp, "udp", [](Rule& r) { r.match.ipv4->protocol = exactly(uint8_t{6}); }},
    {Field::udp, "udp", [](Rule& r) { r.match.udp->src.value = 1; }},
    {Field::tcp, "tcp",
     [](Rule& r) {
       r.match.udp.reset();
       r.match.tcp = Ports{.src = {1, 0}};
     }},
    {Field::tunnel, "tunnel",
     [](Rule& r) {
       r.match.tunnel = Tunnel{.id = {1, ~0u}};
     }},
    {Field::tunnel, "tunnel",
     [](Rule& r) {
       r.match.tunnel = Tunnel{.id = {1, 0}};
     }},
    {Field::queue, "action.queue", [](Rule& r) { r.action.queue = 4; }},
    {Field::rss_types, "action.rss.types",
     [](Rule& r) {
       r.action.fate = Action::Fate::rss;
       r.action.rss.types = 0;
     }},
    {Field::rss_types, "action.rss.types",
     [](Rule& r) {
       r.action.fate = Action::Fate::rss;
       r.action.rss.types = 64;
     }},
    {Field::rss_table, "action.rss.table",
     [](Rule& r) {
       r.action.fate = Action::Fate::rss;
       r.action.rss.table = {0, 1, 2};
     }},
    {Field::rss_table, "action.rss.table",
     [](Rule& r) {
       r.action.fate = Action::Fate::rss;
       r.action.rss.table.assign(16, 0);
     }},
    {Field::rss_table, "action.rss.table",
     [](Rule& r) {
       r.action.fate = Action::Fate::rss;
       r.action.rss.table = {0, 4};
     }},
    {Field::inner, "inner", [](Rule& r) { r.match.inner = Inner{}; }},
    {Field::inner, "inner",
     [](Rule& r) {
       r.match.tunnel = Tunnel{};
       r.match.inner = Inner{.tcp = Ports{}};
     }},
    {Field::inner, "inner",
     [](Rule& r) {
       r.match.tunnel = Tunnel{};
       r.match.inner = Inner{.ipv4 = Ipv4{}, .ipv6 = Ipv6{}};
     }},
    {Field::rss_types, "action.rss.types",
     [](Rule& r) {
       r.action.fate = Action::Fate::rss;
       r.action.rss.inner = true;
     }},
    {Field::mark, "action.mark", [](Rule& r) { r.action.mark = 0; }},
    {Field::mark, "action.mark", [](Rule& r) { r.action.mark = 1u << 24; }},
    {Field::mark, "action.mark",
     [](Rule& r) {
       r.action.fate = Action::Fate::drop;
       r.action.mark = 1;
     }},
};

void refused_rules() {
  EQUAL(check(udp_rule(), limits).code, 0);
  EQUAL(check(Rule{}, limits).code, 0);
  for (const Wrong& w : wrongs) {
    Rule r = udp_rule();
    w.spoil(r);
    const RuleError e = check(r, limits);
    EQUAL(e.code, EINVAL);
    EQUAL(e.field, w.field);
    EQUAL(std::strcmp(name_of(e.field), w.name), 0);
    CU_ASSERT_TRUE(std::strlen(e.what) > 0);
  }
  Rule labelled = udp_rule();
  labelled.match.ipv4.reset();
  labelled.match.ipv6 = Ipv6{.label = {0xfffff, 0xfffff}};
  EQUAL(check(labelled, limits).code, 0);
  Rule last = udp_rule();
  last.priority = last_priority;
  last.action.queue = 3;
  last.action.mark = 0xffffff;
  EQUAL(check(last, limits).code, 0);
}

bool has(const std::vector<Leaf>& leaves, HashKind kind, Layer layer) {
  for (const Leaf& l : leaves)
    if (l.kind == kind && layer_of(l.match) == layer) return true;
  return false;
}

// Deeper leaves stand first, as sets of rules are changed in this order.
bool deepest_first(const std::vector<Leaf>& leaves) {
  Layer before = Layer::ports;
  for (const Leaf& l : leaves) {
    const bool other_version = l.match.ipv6 && before == Layer::ip;
    if (!other_version && layer_of(l.match) < before) return false;
    before = layer_of(l.match);
  }
  return true;
}

void divided() {
  std::vector<Leaf> all = expand({}, HashTypes::all);
  EQUAL(all.size(), 7u);
  CU_ASSERT_TRUE(deepest_first(all));
  for (const HashKind k : {HashKind::tcp4, HashKind::udp4, HashKind::tcp6, HashKind::udp6})
    CU_ASSERT_TRUE(has(all, k, Layer::ports));
  CU_ASSERT_TRUE(has(all, HashKind::ipv4, Layer::ip));
  CU_ASSERT_TRUE(has(all, HashKind::ipv6, Layer::ip));
  CU_ASSERT_TRUE(has(all, HashKind::none, Layer::link));

  EQUAL(expand({}, 0).size(), 1u);
  EQUAL(expand({}, HashTypes::ip).size(), 3u);
  // Ports only: other frames of the version are taken, and not hashed.
  const std::vector<Leaf> udp = expand({}, HashTypes::udp4);
  EQUAL(udp.size(), 3u);
  CU_ASSERT_TRUE(has(udp, HashKind::udp4, Layer::ports));
  CU_ASSERT_TRUE(has(udp, HashKind::none, Layer::ip));

  Match named;
  named.ipv4 = Ipv4{.protocol = exactly(protocol_udp)};
  const std::vector<Leaf> of_udp = expand(named, HashTypes::all);
  EQUAL(of_udp.size(), 2u);
  CU_ASSERT_TRUE(has(of_udp, HashKind::udp4, Layer::ports));
  CU_ASSERT_TRUE(of_udp[0].match.ipv4 == named.ipv4);
}

// Inner kinds, in the order of inner layers; the outer match stays in each.
void divided_by_inner_headers() {
  Match tunnel = udp_rule().match;
  tunnel.tunnel = Tunnel{};
  const std::vector<Leaf> outside = expand(tunnel, HashTypes::all);
  CU_ASSERT_TRUE(outside.size() == 1 && outside[0].kind == HashKind::udp4 &&
                 outside[0].layer == Layer::ports);
  const std::vector<Leaf> all = expand(tunnel, HashTypes::all, true);
  EQUAL_FATAL(all.size(), 7u);
  for (const Leaf& l : all) {
    Match outer = l.match;
    outer.inner.reset();
    CU_ASSERT_TRUE(outer == tunnel);
    EQUAL(l.match.inner.has_value(), l.kind != HashKind::none);
    const bool ports = l.match.inner && (l.match.inner->tcp || l.match.inner->udp);
    EQUAL(l.layer, ports ? Layer::ports : l.match.inner ? Layer::ip : Layer::link);
  }
  EQUAL(all[0].kind, HashKind::tcp4);
  CU_ASSERT_TRUE(all[0].match.inner->ipv4.has_value());
  CU_ASSERT_TRUE(all[0].match.inner->tcp.has_value());
  tunnel.inner = Inner{.ipv6 = Ipv6{}, .udp = Ports{.dst = exactly(uint16_t{53})}};
  const std::vector<Leaf> named = expand(tunnel, HashTypes::all, true);
  CU_ASSERT_TRUE(named.size() == 1 && named[0].kind == HashKind::udp6 && named[0].match == tunnel);
}

void divided_by_what_is_named() {
  const std::vector<Leaf> port = expand(udp_rule().match, HashTypes::all);
  EQUAL(port.size(), 1u);
  EQUAL(port[0].kind, HashKind::udp4);
  EQUAL(expand(udp_rule().match, HashTypes::ip)[0].kind, HashKind::ipv4);
  EQUAL(expand(udp_rule().match, HashTypes::tcp)[0].kind, HashKind::none);
  Match type;
  type.eth = Eth{.type = exactly(type_ipv6)};
  const std::vector<Leaf> six = expand(type, HashTypes::all);
  EQUAL(six.size(), 4u);
  CU_ASSERT_FALSE(has(six, HashKind::ipv4, Layer::ip));
  type.eth->type = exactly(uint16_t{0x0806});
  EQUAL(expand(type, HashTypes::all).size(), 1u);
  Match groups = udp_rule().match;
  groups.eth = Eth{.dst = exactly(group)};
  EQUAL(expand(groups, HashTypes::all).size(), 1u);
  EQUAL(expand(groups, HashTypes::all)[0].kind, HashKind::none);
}

void places() {
  uint16_t next = 0;
  for (uint8_t priority = 0; priority <= last_priority; priority++)
    for (const Layer l : {Layer::ports, Layer::ip, Layer::link})
      EQUAL(device_priority(place_of_priority(priority), l), next++);
  for (uint16_t set = 0; set < own_sets; set++) {
    uint16_t own_next = next + set;
    for (const bool tunnels : {true, false})
      for (const Layer l : {Layer::ports, Layer::ip, Layer::link})
        EQUAL(device_priority(place_of_own(set, tunnels), l), own_next++);
    EQUAL(own_next, 15u + set);  // an mlx5 device's last priority is 15
  }
}

using Placed = std::pair<uint16_t, Match>;

// A port's own rules for frames to one address.
std::vector<Placed> own_rules(uint16_t set, uint32_t types, bool inner) {
  Match m;
  m.eth = Eth{.dst = exactly(own)};
  std::vector<Placed> all;
  const auto add = [&](const Match& match, bool tunnels) {
    for (const Leaf& l : expand(match, types, tunnels))
      all.emplace_back(device_priority(place_of_own(set, tunnels), l.layer), l.match);
  };
  if (inner)
    for (const Match& t : in_tunnels(m)) add(t, true);
  add(m, false);
  return all;
}

// While both sets stand no rule of one is the other's at the same place: a device would give its
// frames to both.
void own_sets_stand_beside_each_other() {
  constexpr uint32_t kinds[] = {HashTypes::all, HashTypes::ip, HashTypes::tcp, HashTypes::udp4,
                                HashTypes::ipv6};
  for (const uint32_t before : kinds)
    for (const uint32_t after : kinds)
      for (uint32_t inner = 0; inner < 4; inner++)
        for (const Placed& a : own_rules(0, before, (inner & 1) != 0))
          for (const Placed& b : own_rules(1, after, (inner & 2) != 0)) CU_ASSERT_FALSE(a == b);
}

void frames_in_tunnels() {
  Match m;
  m.eth = Eth{.dst = exactly(own)};
  m.vlan = Vlan{};
  const std::vector<Match> all = in_tunnels(m);
  EQUAL_FATAL(all.size(), 4u);
  for (std::size_t i = 0; i < all.size(); i++) {
    EQUAL(all[i].eth, m.eth);
    EQUAL(all[i].vlan, m.vlan);
    CU_ASSERT_TRUE(!all[i].inner);
    CU_ASSERT_TRUE(!all[i].tcp);
    EQUAL(all[i].ipv4.has_value(), i < 2);
    EQUAL(all[i].ipv6.has_value(), i >= 2);
    const bool vxlan = i % 2 == 1;
    EQUAL(all[i].tunnel->kind, vxlan ? Tunnel::Kind::vxlan : Tunnel::Kind::gre);
    EQUAL(all[i].udp.has_value(), vxlan);
    if (vxlan) CU_ASSERT_TRUE(all[i].udp->dst == exactly(uint16_t{4789}));
  }
  m.eth = Eth{.dst = exactly(group)};
  EQUAL(in_tunnels(m).size(), 0u);
}

void filters() {
  EQUAL(matches_of({}, own).size(), 1u);
  CU_ASSERT_TRUE(matches_of({}, own)[0] == Match{});
  Filter f{.promiscuous = false, .macs = {other, own, group}};
  std::vector<Match> m = matches_of(f, own);
  EQUAL(m.size(), 4u);  // own, broadcast, other, group
  EQUAL(m[0].eth->dst, exactly(own));
  EQUAL(m[2].eth->dst, exactly(other));
  f.all_multicast = true;
  m = matches_of(f, own);
  EQUAL(m.size(), 3u);
  CU_ASSERT_TRUE(m[1].eth->dst.mask == (MacAddress{1, 0, 0, 0, 0, 0}));
  f.vlans = {5, 4095};
  m = matches_of(f, own);
  EQUAL(m.size(), 6u);
  CU_ASSERT_TRUE(m[5].vlan && m[5].vlan->tci == (Masked<uint16_t>{4095, 4095}));
}

void refused_filters() {
  Filter f;
  EQUAL(check(f).code, 0);
  f.vlans = {4096};
  EQUAL(check(f).field, Field::filter_vlans);
  EQUAL(check(f).code, EINVAL);
  f.vlans.assign(129, 1);
  EQUAL(check(f).field, Field::filter_vlans);
  EQUAL(check(f).code, ENOSPC);
  f.vlans.clear();
  f.macs = {MacAddress{}};
  EQUAL(check(f).field, Field::filter_macs);
  EQUAL(check(f).code, EINVAL);
  f.macs.assign(129, other);
  EQUAL(check(f).field, Field::filter_macs);
  EQUAL(check(f).code, ENOSPC);
}

const kilim::test::Case cases[] = {
    {"a wrong rule is refused and the field is named", refused_rules},
    {"a rule that spreads is divided by kinds of hash", divided},
    {"rules are divided by inner headers", divided_by_inner_headers},
    {"frames in tunnels are found behind a filter", frames_in_tunnels},
    {"a port's sets of rules stand beside each other", own_sets_stand_beside_each_other},
    {"and only by those that its match leaves", divided_by_what_is_named},
    {"bands and layers fill a device's priorities", places},
    {"a filter takes the port's address, broadcast and what it names", filters},
    {"a wrong filter is refused", refused_filters},
};

}  // namespace
}  // namespace rule_ut

KILIM_TEST_SUITE(rule, rule_ut::cases)
