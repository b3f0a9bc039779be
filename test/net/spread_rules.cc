// SPDX-License-Identifier: BSD-3-Clause
// Part of spread_ut. Flow rules and filters of a port, and what is refused.
#include <cerrno>

#include "spread_fixture.hh"

namespace spread_rules_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr FrameKind tcp6{.layer3 = Layer3::ipv6, .protocol = 6};
constexpr FrameKind arp{.layer3 = Layer3::arp, .protocol = 0};
constexpr flow::MacAddress group{1, 0, 0x5e, 1, 2, 3}, station{2, 0, 0, 0, 0, 9};

constexpr int nowhere = -1;  // SpreadBench::where() of a frame that did not arrive

uint16_t port_of(const Frame& f) {  // destination port of a frame of udp4_kind
  return static_cast<uint16_t>(std::to_integer<unsigned>(f[36]) << 8 |
                               std::to_integer<unsigned>(f[37]));
}

flow::Rule to_queue(uint16_t queue, const flow::Match& match, uint8_t priority = 0) {
  flow::Rule r;
  r.match = match;
  r.action.queue = queue;
  r.priority = priority;
  return r;
}

flow::Match udp_to(uint16_t port) {
  flow::Match m;
  m.ipv4 = flow::Ipv4{};
  m.udp = flow::Ports{.src = {}, .dst = flow::exactly(port)};
  return m;
}

void rules_come_first() {
  SpreadBench b(4);
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const Frame f = make_frame(udp4_kind, 1, 1), other = make_frame(udp4_kind, 2, 1);
  auto by_port = b.far().add_rule(to_queue(2, udp_to(port_of(f)), 1));
  CU_ASSERT_TRUE_FATAL(by_port.ok());
  EQUAL(b.where(f), 2);
  EQUAL(b.where(other), 0);
  EQUAL(b.where(make_frame(arp, 1, 1)), 0);
  // A lower number is asked first, however little its match says; a rule of more layers before.
  flow::Match any;
  any.eth = flow::Eth{.dst = flow::exactly(station), .src = {}, .type = {}};
  auto first = b.far().add_rule(to_queue(3, any, 0));
  auto last = b.far().add_rule(to_queue(1, any, 2));
  CU_ASSERT_TRUE_FATAL(first.ok());
  CU_ASSERT_TRUE_FATAL(last.ok());
  EQUAL(b.where(f), 3);
  EQUAL(b.where(other), 3);
  CU_ASSERT_TRUE(b.far().remove_rule(*first).ok());
  EQUAL(b.where(f), 2);
  EQUAL(b.where(other), 1);
  // A new way of spreading leaves rules alone.
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {3}}).ok());
  EQUAL(b.where(f), 2);
  EQUAL(b.where(other), 1);
  CU_ASSERT_TRUE(b.far().remove_rule(*by_port).ok());
  CU_ASSERT_TRUE(b.far().remove_rule(*last).ok());
  EQUAL(b.where(f), 3);
  EQUAL(b.where(other), 3);
  EQUAL(b.far().remove_rule(*last).error().code, EINVAL);
}

// A rule that spreads over two queues by its own table and hash; stop() removes it.
void a_rule_spreads() {
  SpreadBench b(4);
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  flow::Rule rule;
  rule.match.ipv6 = flow::Ipv6{};
  rule.action.fate = flow::Action::Fate::rss;
  rule.action.rss = {.types = HashTypes::tcp6, .key = flow::symmetric_key, .table = {2, 3}};
  CU_ASSERT_TRUE_FATAL(b.far().add_rule(rule).ok());
  for (uint32_t flow = 0; flow < 20; flow++) {
    const Frame f = make_frame(tcp6, flow, 0);
    const uint32_t hash = expected_hash(tcp6, f, rule.action.rss);
    EQUAL(b.where(f), expected_queue(hash, rule.action.rss.table));
  }
  EQUAL(b.where(make_frame({.layer3 = Layer3::ipv6, .protocol = 17}, 1, 0)), 2);
  EQUAL(b.where(make_frame(udp4_kind, 1, 0)), 0);
  b.far().stop();
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  EQUAL(b.where(make_frame(tcp6, 1, 0)), 0);
}

// Each part of a rule that spreads counts; what is dropped is counted by its rule alone.
void rules_drop_and_count() {
  SpreadBench b(2);
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const Frame f = make_frame(udp4_kind, 1, 1), other = make_frame(tcp6, 2, 1);
  flow::Rule drop = to_queue(0, udp_to(port_of(f)));
  drop.action.fate = flow::Action::Fate::drop;
  drop.action.count = true;
  flow::Rule spread;
  spread.action.fate = flow::Action::Fate::rss;
  spread.action.rss.table = {1};
  spread.action.count = true;
  spread.action.mark = 7;
  spread.priority = 1;
  auto dropping = b.far().add_rule(drop), spreading = b.far().add_rule(spread);
  CU_ASSERT_TRUE_FATAL(dropping.ok());
  CU_ASSERT_TRUE_FATAL(spreading.ok());
  for (int i = 0; i < 3; i++) {
    EQUAL(b.where(f), nowhere);
    EQUAL(b.where(other), 1);
    EQUAL(b.where(make_frame(arp, 1, 1)), 1);
  }
  auto dropped = b.far().query_rule(*dropping), spread_over = b.far().query_rule(*spreading);
  CU_ASSERT_TRUE_FATAL(dropped.ok());
  CU_ASSERT_TRUE_FATAL(spread_over.ok());
  EQUAL(dropped->packets, 3);
  EQUAL(dropped->bytes, 300);
  EQUAL(spread_over->packets, 6);
  EQUAL(spread_over->bytes, 600);
  CU_ASSERT_TRUE(b.far().remove_rule(*dropping).ok());
  EQUAL(b.where(f), 1);
}

// One queue, which a queue pair carries where nothing special is asked of it: rules and filters
// work there too.
void one_queue() {
  SpreadBench b(1);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const Frame f = make_frame(udp4_kind, 1, 1);
  CU_ASSERT_TRUE_FATAL(b.far().set_filter({.promiscuous = false}).ok());
  EQUAL(b.where(f), nowhere);
  auto rule = b.far().add_rule(to_queue(0, udp_to(port_of(f))));
  CU_ASSERT_TRUE_FATAL(rule.ok());
  EQUAL(b.where(f), 0);
  // A tag of any number is a word of match buffers, which lead to either kind of queue pair.
  const Frame tagged = make_frame({.layer3 = Layer3::ipv4, .protocol = 17, .vlan = 7}, 3, 2);
  EQUAL(b.where(tagged), nowhere);
  flow::Match tags;
  tags.vlan = flow::Vlan{};
  flow::Rule by_buffers = to_queue(0, tags);
  by_buffers.action.count = true;
  auto tag_rule = b.far().add_rule(by_buffers);
  CU_ASSERT_TRUE_FATAL(tag_rule.ok());
  EQUAL(b.where(tagged), 0);
  EQUAL(b.where(make_frame(udp4_kind, 2, 1)), nowhere);
  EQUAL(b.far().query_rule(*tag_rule)->packets, 1u);
  CU_ASSERT_TRUE(b.far().remove_rule(*tag_rule).ok());
  EQUAL(b.where(tagged), nowhere);
  CU_ASSERT_TRUE_FATAL(b.far().set_filter({}).ok());
  EQUAL(b.where(f), 0);
  EQUAL(b.where(make_frame(arp, 1, 1)), 0);
  const Status stopped = b.far().stop_rx(0, nullptr);
  EQUAL(stopped.ok(), port::needs_rwq(usual_setup));
  if (!stopped) EQUAL(stopped.error().code, EOPNOTSUPP);
}

// Another program's rule for all frames stands at the last priority, on the same device: a rule of
// the port's own stands before it, whatever the number of queues. A default rule would not.
void own_rules_stand_before_others() {
  for (const uint32_t queues : {1u, 4u})
    for (const bool promiscuous : {true, false}) {
      SpreadBench b(queues, 4096, 128, {});
      device::Device& device = b.far().device();
      CU_ASSERT_TRUE_FATAL(b.far().set_filter({.promiscuous = promiscuous}).ok());
      CU_ASSERT_TRUE_FATAL(b.far().start().ok());
      auto cq = device::create_cq(device, 64);
      CU_ASSERT_TRUE_FATAL(cq.ok());
      auto other = device::create_raw_packet(
          device,
          {.send_cq = (*cq)->handle, .recv_cq = (*cq)->handle, .send_wqebbs = 64, .recv_wrs = 32},
          1);
      CU_ASSERT_TRUE_FATAL(other.ok());
      constexpr uint16_t last = 15;
      auto rule = device.add_rule({.qp = (*other)->handle, .match = {}, .priority = last});
      CU_ASSERT_TRUE_FATAL(rule.ok());
      const flow::MacAddress own = b.far().info().mac;
      CU_ASSERT_TRUE(b.where(make_frame({.dst = own}, 1, 1)) >= 0);
      EQUAL(b.where(make_frame({.dst = station}, 1, 1)) >= 0, promiscuous);
      CU_ASSERT_TRUE(device.remove_flow(*rule).ok());
    }
}

// Nothing but what rules lead to it, from the start or from the middle of a run.
void isolated() {
  for (const uint32_t queues : {1u, 2u}) {
    SpreadBench b(queues);
    CU_ASSERT_TRUE_FATAL(b.far().set_isolated(true).ok());
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    const Frame f = make_frame(udp4_kind, 1, 1), other = make_frame(udp4_kind, 2, 1);
    const Frame own = make_frame({.dst = b.far().info().mac}, 3, 1);
    EQUAL(b.where(f), nowhere);
    EQUAL(b.where(own), nowhere);
    auto rule = b.far().add_rule(to_queue(0, udp_to(port_of(f))));
    CU_ASSERT_TRUE_FATAL(rule.ok());
    EQUAL(b.where(f), 0);
    EQUAL(b.where(other), nowhere);
    // What is set meanwhile counts when it is over.
    CU_ASSERT_TRUE(b.far().set_filter({.promiscuous = false}).ok());
    EQUAL(b.where(own), nowhere);
    CU_ASSERT_TRUE(b.far().isolated());
    CU_ASSERT_TRUE(b.far().set_isolated(false).ok());
    CU_ASSERT_TRUE(!b.far().isolated());
    EQUAL(b.where(f), 0);
    CU_ASSERT_TRUE(b.where(own) >= 0);
    EQUAL(b.where(other), nowhere);
    CU_ASSERT_TRUE(b.far().set_isolated(true).ok());
    EQUAL(b.where(f), 0);
    EQUAL(b.where(own), nowhere);
    b.far().stop();
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    EQUAL(b.where(own), nowhere);
  }
}

Frame framed_to(const flow::MacAddress& dst, uint16_t vlan = 0) {
  return make_frame({.layer3 = Layer3::ipv4, .protocol = 17, .vlan = vlan, .dst = dst}, 1, 1);
}

void filters() {
  SpreadBench b(2);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const flow::MacAddress own = b.far().info().mac;
  const flow::MacAddress everyone{255, 255, 255, 255, 255, 255};
  auto passes = [&b](const flow::MacAddress& dst, uint16_t vlan = 0) {
    return b.where(framed_to(dst, vlan)) >= 0;
  };
  for (const auto& dst : {own, everyone, station, group}) CU_ASSERT_TRUE(passes(dst));
  CU_ASSERT_TRUE_FATAL(b.far().set_filter({.promiscuous = false}).ok());
  CU_ASSERT_TRUE(passes(own));
  CU_ASSERT_TRUE(passes(own, 7));
  CU_ASSERT_TRUE(passes(everyone));
  CU_ASSERT_FALSE(passes(station) || passes(group));
  CU_ASSERT_TRUE_FATAL(b.far().set_filter({.promiscuous = false, .macs = {station, group}}).ok());
  CU_ASSERT_TRUE(passes(own));
  CU_ASSERT_TRUE(passes(station));
  CU_ASSERT_TRUE(passes(group));
  CU_ASSERT_FALSE(passes({1, 0, 0x5e, 1, 2, 4}));
  CU_ASSERT_TRUE_FATAL(b.far().set_filter({.promiscuous = false, .all_multicast = true}).ok());
  CU_ASSERT_TRUE(passes(own));
  CU_ASSERT_TRUE(passes(group));
  CU_ASSERT_TRUE(passes(everyone));
  CU_ASSERT_FALSE(passes(station));
  CU_ASSERT_TRUE_FATAL(b.far().set_filter({.promiscuous = false, .vlans = {7, 9}}).ok());
  CU_ASSERT_TRUE(passes(own, 7));
  CU_ASSERT_TRUE(passes(own, 9));
  CU_ASSERT_TRUE(passes(everyone, 9));
  CU_ASSERT_FALSE(passes(own, 8) || passes(own) || passes(station, 7));
  CU_ASSERT_TRUE_FATAL(b.far().set_filter({}).ok());
  CU_ASSERT_TRUE(passes(station));
  CU_ASSERT_TRUE(passes(group, 8));
}

// A tag that is stripped is in the side record; switched on and off while frames come.
void vlan_stripping() {
  SpreadBench b(2);
  CU_ASSERT_TRUE_FATAL(b.far().strip_vlan(0, true).ok());
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const Frame tagged = framed_to(station, 7);
  EQUAL(b.where(tagged), 0);
  EQUAL(b.got[0].frame.size(), tagged.size() - 4);
  CU_ASSERT_TRUE_FATAL(b.far().strip_vlan(0, false).ok());
  EQUAL(b.where(tagged), 0);
  EQUAL(b.got[0].frame, tagged);
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {1}}).ok());
  EQUAL(b.where(tagged), 1);
  EQUAL(b.got[0].frame, tagged);
  EQUAL(b.far().strip_vlan(2, true).error().code, EINVAL);
}

void expect_refused(const Status& s, const flow::RuleError& why, int code, flow::Field field) {
  CU_ASSERT_TRUE(!s.ok() && s.error().code == code);
  EQUAL(why.code, code);
  EQUAL(why.field, field);
}

void refused() {
  SpreadBench b(2);
  flow::RuleError why;
  port::Port& p = b.far();
  EQUAL(p.add_rule({}, &why).error().code, EINVAL);  // not started
  expect_refused(p.set_rss({.table = {2}}, &why), why, EINVAL, flow::Field::rss_table);
  CU_ASSERT_TRUE_FATAL(p.start().ok());
  expect_refused(p.set_rss({.table = {2}}, &why), why, EINVAL, flow::Field::rss_table);
  expect_refused(p.set_rss({.types = 0}, &why), why, EINVAL, flow::Field::rss_types);
  expect_refused(p.set_filter({.vlans = {5000}}, &why), why, EINVAL, flow::Field::filter_vlans);
  CU_ASSERT_TRUE(p.rss().table.empty());
  CU_ASSERT_TRUE(p.filter().vlans.empty());
  EQUAL(p.add_rule(to_queue(2, {}), &why).error().code, EINVAL);
  EQUAL(why.field, flow::Field::queue);
  flow::Rule spreads_groups;
  spreads_groups.action.fate = flow::Action::Fate::rss;
  spreads_groups.match.eth = flow::Eth{.dst = flow::exactly(group), .src = {}, .type = {}};
  EQUAL(p.add_rule(spreads_groups, &why).error().code, EOPNOTSUPP);
  EQUAL(why.field, flow::Field::eth_dst);
  EQUAL(p.query_rule(port::RuleId{9}).error().code, EINVAL);
  auto rule = p.add_rule(to_queue(1, {}));
  CU_ASSERT_TRUE(rule.ok() && p.query_rule(*rule).error().code == EINVAL);  // it does not count
  EQUAL(p.stop_rx(2, nullptr).error().code, EINVAL);
  CU_ASSERT_TRUE(!p.start_rx(2).ok());
  EQUAL(b.where(make_frame(udp4_kind, 1, 1)), 1);  // everything still works
}

// VXLAN by its number, GRE by its key; frames of other tunnels go on.
void rules_of_tunnels() {
  SpreadBench b(3);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  flow::Rule vxlan = to_queue(1, {});
  vxlan.match.ipv4 = flow::Ipv4{};
  vxlan.match.udp = flow::Ports{};
  vxlan.match.tunnel = flow::Tunnel{.kind = flow::Tunnel::Kind::vxlan, .id = {0x1234, 0xffffff}};
  flow::Rule gre = to_queue(2, {});
  gre.match.ipv4 = flow::Ipv4{};
  gre.match.tunnel = flow::Tunnel{.kind = flow::Tunnel::Kind::gre, .id = {0x1234, 0xffffffff}};
  CU_ASSERT_TRUE_FATAL(b.far().add_rule(vxlan).ok());
  CU_ASSERT_TRUE_FATAL(b.far().add_rule(gre).ok());
  const auto with = [](Frame f, std::initializer_list<int> words, std::size_t at) {
    for (const int w : words) {
      f[at++] = static_cast<std::byte>(w >> 8);
      f[at++] = static_cast<std::byte>(w);
    }
    return f;
  };
  constexpr std::size_t vni_at = 14 + 20 + 8 + 4, gre_at = 14 + 20;
  const Frame udp = with(make_frame(udp4_kind, 1, 1), {4789}, 14 + 20 + 2);
  EQUAL(b.where(with(udp, {0x0012, 0x3400}, vni_at)), 1);
  EQUAL(b.where(with(udp, {0x0012, 0x3500}, vni_at)), 0);
  FrameKind kind = udp4_kind;
  kind.protocol = 47;
  const Frame other = make_frame(kind, 1, 1);
  EQUAL(b.where(with(other, {0x2000, 0x6558, 0, 0x1234}, gre_at)), 2);
  EQUAL(b.where(with(other, {0x2000, 0x6558, 0, 0x1235}, gre_at)), 0);
  EQUAL(b.where(with(other, {0x0000, 0x6558, 0, 0x1234}, gre_at)), 0);  // no key
}

constexpr kilim::test::Case of_rules[] = {
    {"rules of tunnels lead to queues", rules_of_tunnels},
    {"rules come before the port's own, by priority and depth", rules_come_first},
    {"a rule spreads by a table and key of its own", a_rule_spreads},
    {"rules drop and count", rules_drop_and_count},
    {"a port of one queue has rules and filters too", one_queue},
    {"a port's own rules stand before others' last ones", own_rules_stand_before_others},
    {"an isolated port receives what rules lead to it alone", isolated},
    {"filters by address, group and VLAN", filters},
    {"VLAN tags are stripped and left, also while frames come", vlan_stripping},
    {"what is wrong is refused, the field is named, nothing changes", refused},
};

}  // namespace
}  // namespace spread_rules_ut

std::span<const kilim::test::Case> kilim::test::rule_cases() {
  return spread_rules_ut::of_rules;
}
