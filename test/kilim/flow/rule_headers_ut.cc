// SPDX-License-Identifier: BSD-3-Clause
// The headers of flow rules that verbs have no words for, and changes of headers: what is refused
// with which field, and how rules of them that spread are divided. Test only, on its own thread.
#include <cerrno>
#include <cstring>

#include "kilim/detail/flow/expand.hh"
#include "kilim/detail/flow/rule.hh"
#include "ut.hh"

namespace rule_headers_ut {
namespace {

using namespace kilim;
using namespace kilim::flow;

constexpr RuleLimits limits{.queues = 4, .longest_table = 8};

Rule udp_rule() {
  Rule r;
  r.match.ipv4 = Ipv4{.src = exactly(Ipv4Address{10, 0, 0, 1})};
  r.match.udp = Ports{.dst = exactly(uint16_t{53})};
  return r;
}

void send_on(Rule& r) {
  r.egress = true;
  r.action.fate = Action::Fate::send;
}

struct Wrong {
  Field field;
  const char* name;
  void (*spoil)(Rule&);
};
constexpr Wrong wrongs[] = {
    {Field::vlan, "vlan",
     [](Rule& r) {
       r.match.untagged = true;
       r.match.vlan = Vlan{};
     }},
    {Field::ipv4, "ipv4", [](Rule& r) { r.match.ipv4->ttl.value = 1; }},
    {Field::ipv6, "ipv6",
     [](Rule& r) {
       r.match.ipv4.reset();
       r.match.ipv6 = Ipv6{.hop_limit = {1, 0}};
     }},
    {Field::udp, "udp", [](Rule& r) { r.match.ipv4->fragment = true; }},
    {Field::udp, "udp",
     [](Rule& r) {
       r.match.udp->flags = {0, 1};
     }},
    {Field::tcp, "tcp",
     [](Rule& r) {
       r.match.udp.reset();
       r.match.tcp = Ports{.flags = {0, 0x200}};
     }},
    {Field::icmp, "icmp",
     [](Rule& r) {
       r.match.udp.reset();
       r.match.icmp = Icmp{};
     }},
    {Field::icmp, "icmp",
     [](Rule& r) {
       r.match = {};
       r.match.icmp = Icmp{};
     }},
    {Field::icmp, "icmp",
     [](Rule& r) {
       r.match.udp.reset();
       r.match.ipv4->protocol = exactly(protocol_icmp);
       r.match.icmp = Icmp{.code = {1, 0}};
     }},
    {Field::esp, "esp",
     [](Rule& r) {
       r.match.udp.reset();
       r.match.esp = Esp{};
     }},
    {Field::tunnel, "tunnel",
     [](Rule& r) { r.match.tunnel = Tunnel{.protocol = exactly(type_ipv4)}; }},
    {Field::tunnel, "tunnel",
     [](Rule& r) {
       r.match.tunnel = Tunnel{.kind = Tunnel::Kind::gre, .present = {4, 4}};
     }},
    {Field::rewrite, "action.rewrite",
     [](Rule& r) { r.action.rewrite.emplace_back().header = Rewrite::Header::ipv6_dst; }},
    {Field::rewrite, "action.rewrite",
     [](Rule& r) { r.action.rewrite.emplace_back().adds = true; }},
    {Field::rewrite, "action.rewrite",
     [](Rule& r) {
       r.action.fate = Action::Fate::drop;
       r.action.rewrite.resize(1);
     }},
    {Field::rewrite, "action.rewrite",
     [](Rule& r) { r.action.rewrite.resize(longest_rewrite + 1); }},
    {Field::rewrite, "action.rewrite",
     [](Rule& r) { r.action.rewrite.push_back({.header = Rewrite::Header::vlan_id}); }},
    {Field::rewrite, "action.rewrite",
     [](Rule& r) {
       r.action.rewrite.push_back({.header = Rewrite::Header::tcp_seq, .adds = true});
     }},
    {Field::rewrite, "action.rewrite",
     [](Rule& r) {
       r.action.rewrite.push_back({.header = Rewrite::Header::dscp, .skipped = 3, .bits = 4});
     }},
    {Field::prepend, "action.prepend", [](Rule& r) { r.action.prepend.resize(50); }},
    {Field::prepend, "action.prepend",
     [](Rule& r) {
       send_on(r);
       r.action.prepend.resize(longest_prepend + 1);
     }},
    {Field::egress, "egress", [](Rule& r) { r.egress = true; }},
    {Field::egress, "egress", [](Rule& r) { r.action.fate = Action::Fate::send; }},
    {Field::mark, "action.mark",
     [](Rule& r) {
       send_on(r);
       r.action.mark = 5;
     }},
    {Field::esp, "esp", [](Rule& r) { r.match.esp = Esp{.spi = exactly(uint32_t{9})}; }},
};

void headers_are_refused() {
  EQUAL(check(udp_rule(), limits).code, 0);
  for (const Wrong& w : wrongs) {
    Rule r = udp_rule();
    w.spoil(r);
    const RuleError e = check(r, limits);
    EQUAL(e.code, EINVAL);
    EQUAL(e.field, w.field);
    EQUAL(std::strcmp(name_of(e.field), w.name), 0);
    CU_ASSERT_TRUE(std::strlen(e.what) > 0);
  }
}

void headers_are_taken() {
  Rule r = udp_rule();
  r.match.ipv4->ttl = exactly(uint8_t{3});
  r.match.ipv4->fragment = false;
  r.match.untagged = true;
  r.action.rewrite.resize(longest_rewrite);
  r.action.rewrite[0].header = Rewrite::Header::port_dst;
  r.action.rewrite[1] = {.header = Rewrite::Header::ttl, .adds = true};
  r.action.rewrite[2] = {.header = Rewrite::Header::dscp, .skipped = 2, .bits = 4};
  EQUAL(check(r, limits).code, 0);
  send_on(r);
  r.action.prepend.resize(longest_prepend);
  EQUAL(check(r, limits).code, 0);
  r = udp_rule();
  r.match.udp->dst = exactly(port_esp);
  r.match.esp = Esp{.spi = exactly(uint32_t{9})};
  EQUAL(check(r, limits).code, 0);
  r = {};
  r.match.ipv6 = Ipv6{.protocol = exactly(protocol_icmpv6)};
  r.match.icmp = Icmp{.type = exactly(uint8_t{128})};
  EQUAL(check(r, limits).code, 0);
  r.match.icmp.reset();
  r.match.ipv6->protocol = exactly(protocol_esp);
  r.match.esp = Esp{.spi = exactly(uint32_t{5})};
  EQUAL(check(r, limits).code, 0);
}

void what_has_no_ports_is_not_divided() {
  // What cannot be TCP nor UDP is hashed by its addresses.
  Match fragments;
  fragments.ipv4 = Ipv4{.fragment = true};
  Match echoes;
  echoes.ipv4 = Ipv4{.protocol = exactly(protocol_icmp)};
  echoes.icmp = Icmp{.type = exactly(uint8_t{8})};
  for (const Match& m : {fragments, echoes}) {
    EQUAL_FATAL(expand(m, HashTypes::all).size(), 1u);
    EQUAL(expand(m, HashTypes::all)[0].kind, HashKind::ipv4);
  }
  EQUAL(layer_of(echoes), Layer::ports);
}

const kilim::test::Case cases[] = {
    {"wrong headers and changes are refused by field", headers_are_refused},
    {"right headers and changes are taken", headers_are_taken},
    {"what has no ports is not divided", what_has_no_ports_is_not_divided},
};

}  // namespace
}  // namespace rule_headers_ut

KILIM_TEST_SUITE(rule_headers, rule_headers_ut::cases)
