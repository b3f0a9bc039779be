// SPDX-License-Identifier: BSD-3-Clause
// Part of spread_ut. Frames in tunnels: what their side records say of the headers inside, rules
// and ports that spread by those, and marks.
#include <cerrno>

#include <rte_mbuf_core.h>
#include <rte_mbuf_ptype.h>

#include "spread_fixture.hh"

namespace spread_tunnels_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr uint32_t outside4 = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN;
constexpr uint32_t outside6 = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6_EXT_UNKNOWN;
constexpr uint32_t inside4 = RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN;
constexpr uint32_t inside6 = RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN;

// A kind of frame inside a tunnel, and what is told of it.
struct TunnelKind {
  FrameKind frame;
  uint32_t type;
};
constexpr TunnelKind tunnel_kinds[] = {
    {udp4_kind, inside4 | RTE_PTYPE_INNER_L4_UDP},
    {{.layer3 = Layer3::ipv4, .protocol = 6}, inside4 | RTE_PTYPE_INNER_L4_TCP},
    {{.layer3 = Layer3::ipv4, .protocol = 50}, inside4 | RTE_PTYPE_INNER_L4_NONFRAG},
    {{.layer3 = Layer3::ipv4, .protocol = 17, .fragment = true}, inside4 | RTE_PTYPE_INNER_L4_FRAG},
    {{.layer3 = Layer3::ipv6, .protocol = 17}, inside6 | RTE_PTYPE_INNER_L4_UDP},
    {{.layer3 = Layer3::ipv6, .protocol = 6}, inside6 | RTE_PTYPE_INNER_L4_TCP},
    {{.layer3 = Layer3::arp, .protocol = 0}, 0},
};

void put16(Frame& f, std::size_t at, std::size_t v) {
  f[at] = as_byte(v >> 8 & 0xff), f[at + 1] = as_byte(v & 0xff);
}

// The frame behind an Ethernet and an IPv4 header, which never change, and `more` bytes.
Frame behind_ipv4(const Frame& inner, uint8_t protocol, std::size_t more) {
  constexpr std::size_t ip = 14;
  Frame f(ip + 20 + more + inner.size());
  f[0] = f[6] = as_byte(2), f[5] = as_byte(9);
  put16(f, 12, 0x0800);
  put16(f, ip, 0x4500);
  put16(f, ip + 2, f.size() - ip);
  put16(f, ip + 8, 0x4000u | protocol);
  for (std::size_t i = ip + 12; i < ip + 20; i++) f[i] = as_byte(i);
  std::memcpy(f.data() + ip + 20 + more, inner.data(), inner.size());
  return f;
}
Frame in_vxlan(const Frame& inner) {
  Frame f = behind_ipv4(inner, 17, 16);
  constexpr std::size_t udp = 34;
  put16(f, udp, 0xc000);
  put16(f, udp + 2, 4789);
  put16(f, udp + 4, inner.size() + 16);
  f[udp + 8] = as_byte(8);
  put16(f, udp + 13, 0x1234);
  return f;
}
Frame in_gre(const Frame& inner) {
  Frame f = behind_ipv4(inner, 47, 4);
  put16(f, 36, 0x6558);
  return f;
}

Frame in_gre6(const Frame& inner) {
  constexpr std::size_t ip = 14, gre = ip + 40;
  Frame f(gre + 4 + inner.size());
  f[0] = f[6] = as_byte(2), f[5] = as_byte(9);
  put16(f, 12, 0x86dd);
  f[ip] = as_byte(0x60);
  put16(f, ip + 4, f.size() - gre);
  f[ip + 6] = as_byte(47), f[ip + 7] = as_byte(64);
  for (std::size_t i = ip + 8; i < gre; i++) f[i] = as_byte(i);
  put16(f, gre + 2, 0x6558);
  std::memcpy(f.data() + gre + 4, inner.data(), inner.size());
  return f;
}

port::RxSetup looking() {
  port::RxSetup s = usual_setup;
  s.config.mark = s.config.tunnel = true;
  return s;
}

flow::Rule spreading(flow::Tunnel::Kind kind) {
  flow::Rule r;
  r.match.ipv4 = flow::Ipv4{};
  // Of a tunnel without a number only its port is looked at.
  if (kind == flow::Tunnel::Kind::vxlan)
    r.match.udp = flow::Ports{.src = {}, .dst = flow::exactly(uint16_t{4789})};
  r.match.tunnel = flow::Tunnel{.kind = kind, .id = {}};
  r.action.fate = flow::Action::Fate::rss;
  r.action.rss.inner = true;
  r.action.rss.table = {1, 2, 3, 2};
  r.action.mark = kind == flow::Tunnel::Kind::vxlan ? 0x123456u : 1u;
  return r;
}

// Each frame in its own queue by the hash of the headers inside, marked (0: not), and told.
void expect_spread(SpreadBench& b, const flow::Rss& rss, uint32_t mark, Frame (*wrap)(const Frame&),
                   uint32_t outside = outside4) {
  uint32_t queues_seen = 0;
  for (const TunnelKind& k : tunnel_kinds) {
    for (uint32_t flow = 0; flow < 12; flow++) {
      const Frame inner = make_frame(k.frame, flow, flow);
      const uint32_t hash = expected_hash(k.frame, inner, rss);
      const int queue = b.where(wrap(inner));
      EQUAL_FATAL(queue, int{expected_queue(hash, rss.table)});
      queues_seen |= 1u << queue;
      const pool::SideRecord& side = b.got[0].side;
      EQUAL(side.rx_hash, hash);
      EQUAL(side.packet_type, outside | k.type);
      EQUAL(side.mark(), mark);
      constexpr uint32_t marked = RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
      EQUAL(side.flags & marked, mark == 0 ? 0 : marked);
    }
  }
  EQUAL(queues_seen, 0xeu);
}

void inner_headers_spread_frames() {
  SpreadBench b(4, 4096, 128, looking());
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const flow::Rule vxlan = spreading(flow::Tunnel::Kind::vxlan);
  const flow::Rule gre = spreading(flow::Tunnel::Kind::gre);
  CU_ASSERT_TRUE_FATAL(b.far().add_rule(vxlan).ok());
  auto of_gre = b.far().add_rule(gre);
  CU_ASSERT_TRUE_FATAL(of_gre.ok());
  expect_spread(b, vxlan.action.rss, *vxlan.action.mark, in_vxlan);
  expect_spread(b, gre.action.rss, *gre.action.mark, in_gre);
  // In no tunnel: as the port spreads, without a mark.
  EQUAL(b.where(make_frame(udp4_kind, 1, 1)), 0);
  EQUAL(b.got[0].side.packet_type, outside4 | RTE_PTYPE_L4_UDP);
  EQUAL(b.got[0].side.mark(), 0u);
  EQUAL(b.got[0].side.flags & (RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID), 0u);
  // Without its rule a frame in a tunnel has the hash of its outer headers, and its types.
  CU_ASSERT_TRUE(b.far().remove_rule(*of_gre).ok());
  EQUAL(b.where(in_gre(make_frame(udp4_kind, 1, 1))), 0);
  EQUAL(b.got[0].side.packet_type, outside4 | inside4 | RTE_PTYPE_INNER_L4_UDP);
}

void expect_outer_hashes(SpreadBench& b, const flow::Rss& rss) {
  for (const TunnelKind& k : tunnel_kinds)
    for (uint32_t flow = 0; flow < 4; flow++) {
      const Frame f = make_frame(k.frame, flow, flow);
      const uint32_t hash = expected_hash(k.frame, f, rss);
      EQUAL(b.where(f), int{expected_queue(hash, rss.table)});
      EQUAL(b.got[0].side.rx_hash, hash);
    }
}

// A port without rules: frames in tunnels by the headers inside, others by their own.
void ports_spread_by_inner_headers() {
  SpreadBench b(4, 4096, 128, looking());
  flow::Rss rss{.inner = true, .table = {1, 2, 3, 2}};
  CU_ASSERT_TRUE_FATAL(b.far().set_rss(rss).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  for (const bool promiscuous : {true, false}) {
    flow::Filter filter{.promiscuous = promiscuous};
    filter.macs = {{2, 0, 0, 0, 0, 9}};  // of make_frame()
    CU_ASSERT_TRUE_FATAL(b.far().set_filter(filter).ok());
    expect_spread(b, rss, 0, in_vxlan);
    expect_spread(b, rss, 0, in_gre);
    expect_spread(b, rss, 0, in_gre6, outside6);
    expect_outer_hashes(b, rss);
  }
  // Not by inner headers any more: one flow outside is one queue.
  rss.inner = false;
  CU_ASSERT_TRUE_FATAL(b.far().set_rss(rss).ok());
  const int queue = b.where(in_vxlan(make_frame(udp4_kind, 0, 0)));
  for (uint32_t flow = 1; flow < 12; flow++)
    EQUAL(b.where(in_vxlan(make_frame(udp4_kind, flow, flow))), queue);
  expect_outer_hashes(b, rss);
}

// The two sets of a port's rules share places in the device's order: frames on their way arrive
// once, whatever changes to whatever.
void inner_and_outer_change_under_traffic() {
  SpreadBench b(4, 4096, 128, looking());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  constexpr uint32_t types[] = {HashTypes::all, HashTypes::ip, HashTypes::tcp | HashTypes::udp4};
  constexpr Frame (*wraps[])(const Frame&) = {in_vxlan, in_gre, in_gre6,
                                              [](const Frame& f) { return f; }};
  uint32_t sent = 0;
  for (uint16_t round = 0; round < 18; round++) {
    const auto queue = static_cast<uint16_t>(round % 4);
    for (int i = 0; i < 28; i++, sent++)
      b.send(wraps[sent % 4](make_frame(tunnel_kinds[sent % 7].frame, sent, sent)));
    const flow::Rss rss{
        .types = types[round % 3], .inner = round / 3 % 2 == round % 2, .table = {queue}};
    CU_ASSERT_TRUE_FATAL(b.far().set_rss(rss).ok());
    b.got.clear();
    b.receive_all();
    EQUAL(b.got.size(), 28u);
    for (const SpreadBench::Got& g : b.got) EQUAL(g.queue, queue);
  }
}

// A rule may name inner headers and lead to a queue.
void rules_look_inside() {
  SpreadBench b(2, 4096, 128, looking());
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const Frame wanted = make_frame(udp4_kind, 3, 1), other = make_frame(udp4_kind, 4, 1);
  flow::Rule r;
  r.match.tunnel = flow::Tunnel{};
  r.match.ipv4 = flow::Ipv4{};
  r.match.udp = flow::Ports{};
  flow::Ports ports;
  ports.dst = flow::exactly(static_cast<uint16_t>(std::to_integer<unsigned>(wanted[36]) << 8 |
                                                  std::to_integer<unsigned>(wanted[37])));
  r.match.inner = flow::Inner{.ipv4 = flow::Ipv4{}, .udp = ports};
  r.action.queue = 1;
  CU_ASSERT_TRUE_FATAL(b.far().add_rule(r).ok());
  EQUAL(b.where(in_vxlan(wanted)), 1);
  EQUAL(b.where(in_vxlan(other)), 0);
  EQUAL(b.where(wanted), 0);
  EQUAL(b.where(in_gre(wanted)), 0);
}

void what_tunnels_need() {
  SpreadBench b(4);
  flow::RuleError why;
  flow::Rss inner;
  inner.inner = true;
  CU_ASSERT_TRUE_FATAL(b.far().set_rss(inner).ok());
  EQUAL(b.far().start().error().code, EINVAL);
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  EQUAL(b.far().set_rss(inner, &why).error().code, EINVAL);
  EQUAL(why.field, flow::Field::rss_types);
  // The queues do not look into tunnels.
  const Result<port::RuleId> got = b.far().add_rule(spreading(flow::Tunnel::Kind::gre), &why);
  CU_ASSERT_TRUE_FATAL(!got.ok());
  EQUAL(got.error().code, EINVAL);
  EQUAL(why.field, flow::Field::rss_types);
  EQUAL(b.where(in_gre(make_frame(udp4_kind, 1, 1))) >= 0, true);
  EQUAL(b.got[0].side.packet_type, outside4 | RTE_PTYPE_L4_NONFRAG);
  device::Caps poor = b.far().device().caps();
  poor.tx.tunnels = false;
  port::RxSetup setup = looking();
  setup.cache = b.caches[0].get();
  EQUAL(port::check_rx(setup, {}, b.t.memory.arena(), poor, {}).error().code, EOPNOTSUPP);
}

constexpr kilim::test::Case of_tunnels[] = {
    {"frames are spread by the headers inside tunnels", inner_headers_spread_frames},
    {"ports spread by the headers inside tunnels", ports_spread_by_inner_headers},
    {"inner and outer headers change under traffic", inner_and_outer_change_under_traffic},
    {"rules look at the headers inside tunnels", rules_look_inside},
    {"what tunnels need is refused where it lacks", what_tunnels_need},
};

}  // namespace
}  // namespace spread_tunnels_ut

std::span<const kilim::test::Case> kilim::test::tunnel_cases() {
  return spread_tunnels_ut::of_tunnels;
}
