// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Rules and hashes that look into VXLAN and GRE. Frames are built by hand
// (tunnel_fixture.hh).
#include "eth_fixture.hh"
#include "toeplitz_fixture.hh"
#include "tunnel_fixture.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

void the_inner_headers_are_hashed() {
  for (bool inner : {true, false}) {
    Rig r;
    RawQueue q = r.queue(0);
    TirSpec t;
    t.rqt = *create_rqt(*r.hca, {{ready_rq(r, q)}});
    t.tunnels = true;
    t.inner = inner;
    t.ip_version = 4;
    t.l4_protocol = inner ? 6 : 17;
    t.fields = 15;
    for (std::size_t i = 0; i < t.key.size(); i++) t.key[i] = static_cast<uint8_t>(i * 37 + 1);
    CU_ASSERT(create_flow_to_tir(*r.hca, *create_tir(*r.hca, t, &r.sink), everything()).ok());
    uint32_t posted = 0;
    const auto hash_of = [&](const Bytes& frame) {
      const Bytes d = r.pointer(r.room(1), 2048);
      std::memcpy(q.rq() + posted % ring_wqes * 16, d.data(), 16);
      record_store(q.record() + 8, be32{++posted});
      r.far->send(frame);
      r.run();
      const prm::Cqe c = Rig::poll(q);
      EQUAL(opcode(c), recv_opcode);
      return c;
    };
    for (Carrier carrier : {Carrier::vxlan, Carrier::gre_ip}) {
      const TunnelSpec tunnel{.carrier = carrier};
      const Bytes frame = make_tunnel(tunnel);
      const std::size_t at = inner ? inner_at(tunnel) + l3_of(tunnel.inner) + 12 : outer_l3 + 12;
      const prm::Cqe c = hash_of(frame);
      const bool ports = inner || has_udp(tunnel);
      const std::span<const std::byte> input(frame.data() + at, ports ? 12 : 8);
      EQUAL(c.rx_hash_result.host(),
            slow_toeplitz(t.key, {reinterpret_cast<const uint8_t*>(input.data()), input.size()}));
      EQUAL(c.rx_hash_type, ports ? (inner ? 5 : 9) : 1);
      EQUAL(c.outer_l3_tunneled, 1);
    }
    // A frame in no tunnel has no inner headers.
    const prm::Cqe c = hash_of(make_frame({.tcp = false}));
    EQUAL(c.rx_hash_result.host() != 0, !inner);
    EQUAL(c.rx_hash_type, inner ? 0 : 9);
  }
}

// A rule as parse_specs() (uverbs/flow.cc) makes it.
FlowSpec tunnel_rule(std::size_t at, uint32_t value, uint32_t mask, std::size_t bytes,
                     const FlowSpec& inner = {}) {
  FlowSpec rule = everything();
  DeepMatch v, m;
  const be32 value_bytes{value << (32 - 8 * bytes)}, mask_bytes{mask << (32 - 8 * bytes)};
  std::memcpy(v.misc.data() + at, &value_bytes, bytes);
  std::memcpy(m.misc.data() + at, &mask_bytes, bytes);
  use_buffer(rule, inner, v, m);
  return rule;
}

void rules_look_into_tunnels() {
  FlowSpec tcp6;
  tcp6.ip_version = 6;
  tcp6.l4_protocol = 6;
  tcp6.ports = {0, 80};
  tcp6.ports_mask = {0, 0xffff};
  struct Row {
    FlowSpec rule;
    TunnelSpec yes, no;
  };
  const TunnelSpec vxlan{}, gre{.carrier = Carrier::gre}, six{.inner = {.ipv6 = true}},
      udp6{.inner = {.ipv6 = true, .tcp = false}};
  for (const Row& row :
       {Row{tunnel_rule(match_place::vni, 0x123456, 0xffffff, 3), vxlan, {.id = 0x123457}},
        Row{tunnel_rule(match_place::vni, 0x120000, 0xff0000, 3),
            {.id = 0x12ffff},
            {.id = 0x13ffff}},
        Row{tunnel_rule(match_place::vni, 0x123456, 0xffffff, 3), vxlan, gre},
        Row{tunnel_rule(match_place::gre_key, 0x123456, 0xffffffff, 4), gre, vxlan},
        Row{tunnel_rule(match_place::gre_key, 0x123456, 0xffffffff, 4),
            gre,
            {.carrier = Carrier::gre, .key = false}},
        Row{tunnel_rule(match_place::gre_protocol, 0x6558, 0xffff, 2),
            gre,
            {.carrier = Carrier::gre_ip}},
        Row{tunnel_rule(0, 0, 0, 1, tcp6), six, vxlan},
        Row{tunnel_rule(0, 0, 0, 1, tcp6), six, udp6}}) {
    Steering steering;
    Qp qp;
    CU_ASSERT(steering.add(&qp, row.rule).ok());
    EQUAL(steering.match(make_tunnel(row.yes)).size(), 1);
    EQUAL(steering.match(make_tunnel(row.no)).size(), 0);
    EQUAL(steering.match(make_frame({})).size(), 0);
  }
}

constexpr Case of_tunnel_rules[] = {
    {"the inner headers are hashed", the_inner_headers_are_hashed},
    {"rules look into tunnels", rules_look_into_tunnels},
};

}  // namespace

std::span<const Case> kilim::test::eth_tunnel_rule_cases() {
  return of_tunnel_rules;
}
