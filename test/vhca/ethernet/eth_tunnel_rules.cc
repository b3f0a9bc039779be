// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Rules and hashes that look into VXLAN and GRE, and steering entries that take a
// tunnel off. Frames are built by hand (tunnel_fixture.hh).
#include "eth_fixture.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/ste.hh"
#include "toeplitz_fixture.hh"
#include "tunnel_fixture.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_tunnel_rules_ut {
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
  ethernet::use_buffer(rule, inner, v, m);
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
       {Row{tunnel_rule(ethernet::match_place::vni, 0x123456, 0xffffff, 3),
            vxlan,
            {.id = 0x123457}},
        Row{tunnel_rule(ethernet::match_place::vni, 0x120000, 0xff0000, 3),
            {.id = 0x12ffff},
            {.id = 0x13ffff}},
        Row{tunnel_rule(ethernet::match_place::vni, 0x123456, 0xffffff, 3), vxlan, gre},
        Row{tunnel_rule(ethernet::match_place::gre_key, 0x123456, 0xffffffff, 4), gre, vxlan},
        Row{tunnel_rule(ethernet::match_place::gre_key, 0x123456, 0xffffffff, 4),
            gre,
            {.carrier = Carrier::gre, .key = false}},
        Row{tunnel_rule(ethernet::match_place::gre_protocol, 0x6558, 0xffff, 2),
            gre,
            {.carrier = Carrier::gre_ip}},
        Row{tunnel_rule(0, 0, 0, 1, tcp6), six, vxlan},
        Row{tunnel_rule(0, 0, 0, 1, tcp6), six, udp6}}) {
    ethernet::Steering steering;
    wq::Qp qp;
    CU_ASSERT(steering.add(&qp, row.rule).ok());
    EQUAL(steering.match(make_tunnel(row.yes)).size(), 1);
    EQUAL(steering.match(make_tunnel(row.no)).size(), 0);
    EQUAL(steering.match(make_frame({})).size(), 0);
  }
}

// Everything goes to a steering entry that takes a tunnel off and leads to a TIR.
struct Decapsulator {
  Rig r{false, "", "sw-steering"};
  RawQueue q = r.queue(0);
  ethernet::SoftSteering& soft = *r.hca->eth.soft;
  uint32_t posted = 0, rule = 0, tirn = 0, unwraps = 0;

  Decapsulator() {
    eth_use_soft(r.hca->eth);
    TirSpec t;
    t.rqt = *create_rqt(*r.hca, {{ready_rq(r, q)}});
    t.own_unicast = true;
    tirn = *create_tir(*r.hca, t, &r.sink);
    const ethernet::IcmBlock block = *soft.icm.steering.alloc(4096);
    put_entry(reinterpret_cast<std::byte*>(block.va));
    ethernet::FlowTable* table = make_table(unwraps);
    table->software = true;
    table->root = block.address;
    lead(unwraps);
  }
  ethernet::FlowTable* make_table(uint32_t& number) const {
    ethernet::FlowTable* table = soft.tables.create(number);
    table->number = number;
    table->end.table = table;
    return table;
  }
  void lead(uint32_t table) {
    if (rule != 0) EQUAL(destroy_flow(*r.hca, rule), 0);
    rule = *create_flow_to_table(*r.hca, table, everything());
  }
  // rdma-core v44 providers/mlx5/mlx5_ifc.h, ste_rx_steering_mult: type, lookup "do not care" here
  // and next, a table of one entry at the hit address, and the action.
  std::byte* entry = nullptr;
  void put_entry(std::byte* to) {
    constexpr uint32_t receives = 2, do_not_care = 0x0f;
    entry = to;
    const uint64_t index = ethernet::icm_end::address_of(ethernet::IcmEnd::tir, tirn) >> 5 | 1;
    std::memset(entry, 0, 64);
    const auto span = std::span(entry, 64);
    prm::cap_set(span, {0, 4}, receives);
    prm::cap_set(span, {8, 8}, do_not_care);
    prm::cap_set(span, {0x30, 8}, do_not_care);
    prm::cap_set(span, {0x38, 8}, static_cast<uint32_t>(index >> 27));
    prm::cap_set(span, {0x40, 27}, static_cast<uint32_t>(index));
    prm::cap_set(span, prm::ste::tunneling_action, prm::ste::tunnel_decap);
  }
  // A packet without an Ethernet header gets that of this frame: ste_modify_packet, and the actions
  // of libmlx5's dr_ste_v0_set_action_decap_l3_list() as 8 bytes each.
  void give_header(const Bytes& of) const {
    constexpr uint32_t modifies = 6, set = 2, count = 5;
    const auto bits = [&of](std::size_t at, std::size_t n) {
      uint32_t v = 0;
      for (std::size_t i = 0; i < n; i++) v = v << 8 | std::to_integer<uint32_t>(of[at + i]);
      return v;
    };
    struct Set {
      uint32_t field, shift, length, data;
    };
    const Set sets[count] = {{0, 16, 0, bits(0, 4)},
                             {1, 16, 0, bits(6, 4)},
                             {0, 0, 16, bits(4, 2)},
                             {2, 32, 16, bits(12, 2)},
                             {1, 0, 16, bits(10, 2)}};
    const ethernet::IcmBlock block = *soft.icm.rewrite.alloc(64);
    const std::span list(reinterpret_cast<std::byte*>(block.va), 64);
    for (std::size_t i = 0; i < count; i++) {
      const auto to = list.subspan(i * 8, 8);
      prm::cap_set(to, {0, 32},
                   set << 24 | sets[i].field << 16 | sets[i].shift << 8 | sets[i].length);
      prm::cap_set(to, {32, 32}, sets[i].data);
    }
    const std::span span(entry, 64);
    prm::cap_set(span, {0, 4}, modifies);
    prm::cap_set(span, {0x60, 16}, count);
    prm::cap_set(span, {0x80, 32},
                 static_cast<uint32_t>((block.address - soft.icm.rewrite.start()) / 64));
    prm::cap_set(span, {0xa1, 3}, 3);  // DR_STE_TUNL_ACTION_L3_DECAP
  }
  // From the wire, or from the adapter's own queue. The bytes that have come, or 0.
  std::size_t pass(const Bytes& frame, bool looped) {
    const Bytes d = r.pointer(r.room(1), 2048);
    std::memcpy(q.rq() + posted % ring_wqes * 16, d.data(), 16);
    record_store(q.record() + 8, be32{++posted});
    r.hca->eth.clients = looped ? 2 : 1;
    if (looped) {
      r.send(q, r.load(0, frame), frame.size());
      r.ring(q);
    } else {
      r.far->send(frame);
    }
    r.run();
    if (looped) (void)r.arrived();
    std::size_t bytes = 0;
    for (prm::Cqe c = Rig::poll(q); opcode(c) != prm::CqeOpcode::invalid; c = Rig::poll(q))
      if (opcode(c) == recv_opcode) bytes += c.byte_cnt.host();
    return bytes;
  }
  [[nodiscard]] uint64_t drops() const {
    return r.hca->context.journal->count(Journal::Kind::frame_drop);
  }
  [[nodiscard]] uint64_t filtered() const { return eth_port_counters(r.hca->eth, 1).rx_filtered; }
};

// GRE of version 1 is one as of version 0; what is no tunnel is dropped, with a line and a count,
// whether it comes from the wire or back from the adapter itself.
void a_tunnel_is_taken_off_or_the_drop_is_told() {
  Decapsulator d;
  const TunnelSpec gre{.carrier = Carrier::gre};
  const std::size_t gre_at = outer_l4(gre), inner = make_frame(gre.inner).size();
  struct Row {
    std::size_t flags, bytes;
  };
  for (const bool looped : {false, true})
    for (const Row& row : {Row{0x2000, inner}, {0x2001, inner}, {0x2002, 0}, {0x6000, 0}}) {
      Bytes frame = make_tunnel(gre);
      put16(frame, gre_at, row.flags);
      const uint64_t drops = d.drops(), filtered = d.filtered();
      EQUAL(d.pass(frame, looped), row.bytes);
      EQUAL(d.drops() - drops, row.bytes == 0 ? 1u : 0u);
      EQUAL(d.filtered() - filtered, row.bytes == 0 ? 1u : 0u);
    }
  // With an acknowledgement number (RFC 2637) the inner frame begins four bytes later.
  Bytes late = make_tunnel(gre);
  put16(late, gre_at, 0x2081);
  EQUAL(d.pass(late, false), inner - 4);
  // PPP in version 1 is none that is known.
  Bytes pptp = make_tunnel(gre);
  put16(pptp, gre_at, 0x2001);
  put16(pptp, gre_at + 2, 0x880b);
  EQUAL(d.pass(pptp, false), 0u);
}

// mlx5dv_dr's L3_TUNNEL_TO_L2 with five header actions.
void a_packet_in_a_tunnel_gets_an_ethernet_header() {
  for (const bool ipv6 : {false, true}) {
    Decapsulator d;
    const TunnelSpec gre{.carrier = Carrier::gre_ip, .inner = {.ipv6 = ipv6}};
    const Bytes inner = make_frame(gre.inner);
    d.give_header(inner);
    for (const bool looped : {false, true}) {
      std::memset(d.r.room(1), 0xee, inner.size());
      EQUAL_FATAL(d.pass(make_tunnel(gre), looped), inner.size());
      CU_ASSERT(std::memcmp(d.r.room(1), inner.data(), inner.size()) == 0);
      // What has an Ethernet header of its own is no such packet, nor is what lies in no tunnel.
      const uint64_t drops = d.drops();
      EQUAL(d.pass(make_tunnel({.carrier = Carrier::gre}), looped), 0u);
      EQUAL(d.pass(make_frame({}), looped), 0u);
      EQUAL(d.drops() - drops, 2u);
    }
    // With a tag: refused, and told.
    prm::cap_set(std::span(d.entry, 64), {0xa4, 4}, 1);
    EQUAL(d.pass(make_tunnel(gre), false), 0u);
  }
}

// RFC 8926. `of`: what lies in it; `first`: version, words of options, flags.
Bytes make_geneve(std::size_t first, std::size_t protocol, const Bytes& of) {
  const TunnelSpec udp{.carrier = Carrier::other};
  Bytes frame = wrap(udp, of);
  put16(frame, outer_l4(udp) + 2, 6081);
  put16(frame, outer_l4(udp) + 8, first);
  put16(frame, outer_l4(udp) + 10, protocol);
  return frame;
}

// With options and without; what is no GENEVE, or ends before its options do, is dropped and told.
void geneve_is_taken_off() {
  Decapsulator d;
  const Bytes inner = make_frame({}), packet(inner.begin() + 14, inner.end());
  Bytes with_option(8, std::byte{0x5a});
  with_option.insert(with_option.end(), inner.begin(), inner.end());
  for (const bool looped : {false, true}) {
    std::memset(d.r.room(1), 0xee, inner.size());
    EQUAL_FATAL(d.pass(make_geneve(0, 0x6558, inner), looped), inner.size());
    CU_ASSERT(std::memcmp(d.r.room(1), inner.data(), inner.size()) == 0);
    EQUAL(d.pass(make_geneve(0x0200, 0x6558, with_option), looped), inner.size());
    CU_ASSERT(std::memcmp(d.r.room(1), inner.data(), inner.size()) == 0);
    const uint64_t drops = d.drops();
    EQUAL(d.pass(make_geneve(0x4000, 0x6558, inner), looped), 0u);  // version 1
    EQUAL(d.pass(make_geneve(0x3f00, 0x6558, Bytes(64)), looped), 0u);
    EQUAL(d.pass(make_geneve(0, 0x880b, inner), looped), 0u);
    EQUAL(d.pass(make_geneve(0, 0x0800, packet), looped), 0u);  // it has no Ethernet header
    EQUAL(d.drops() - drops, 4u);
  }
  d.give_header(inner);
  EQUAL_FATAL(d.pass(make_geneve(0, 0x0800, packet), false), inner.size());
  CU_ASSERT(std::memcmp(d.r.room(1), inner.data(), inner.size()) == 0);
}

// A frame that comes by another way all the same is told to have lost this one.
void a_way_that_is_lost_is_told() {
  Decapsulator d;
  uint32_t number = 0;
  ethernet::FlowTable* both = d.make_table(number);
  both->has_entry = true;
  both->entry.to = {{false, d.tirn}, {true, d.unwraps}};
  d.lead(number);
  const Bytes frame = make_frame({});
  for (const bool looped : {false, true}) {
    const uint64_t drops = d.drops();
    EQUAL(d.pass(frame, looped), frame.size());
    EQUAL(d.drops() - drops, 1u);
  }
}

constexpr Case of_tunnel_rules[] = {
    {"a tunnel is taken off, or the drop is told", a_tunnel_is_taken_off_or_the_drop_is_told},
    {"a packet in a tunnel gets an Ethernet header", a_packet_in_a_tunnel_gets_an_ethernet_header},
    {"GENEVE is taken off", geneve_is_taken_off},
    {"a way that is lost is told", a_way_that_is_lost_is_told},
    {"the inner headers are hashed", the_inner_headers_are_hashed},
    {"rules look into tunnels", rules_look_into_tunnels},
};

}  // namespace
}  // namespace eth_tunnel_rules_ut

std::span<const Case> kilim::test::eth_tunnel_rule_cases() {
  return eth_tunnel_rules_ut::of_tunnel_rules;
}
