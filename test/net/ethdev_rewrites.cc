// SPDX-License-Identifier: BSD-3-Clause
// What rte_flow's patterns take inside tunnels, and what its actions do to the frames that they
// take: rewritten headers, a flag. Test only, on its own thread.
#include "ethdev_matches_fixture.hh"

namespace ethdev_rewrites_ut {
namespace {

using namespace kilim::test;

std::vector<Row> rows_of_vxlan() {
  const rte_flow_item to_10 = an_eth([](auto& w) {
    w.spec.hdr.dst_addr.addr_bytes[0] = 0x02, w.mask.hdr.dst_addr.addr_bytes[0] = 0xff;
    w.spec.hdr.dst_addr.addr_bytes[1] = 0x11, w.mask.hdr.dst_addr.addr_bytes[1] = 0xff;
  });
  const rte_flow_item vid = a_vlan([](auto& w) {
    w.spec.hdr.vlan_tci = net16(0x64);
    w.mask.hdr.vlan_tci = net16(0xfff);
  });
  const rte_flow_item ttl = an_ipv4([](auto& w) {
    w.spec.hdr.time_to_live = 3;
    w.mask.hdr.time_to_live = 0xff;
  });
  const Bytes inner = udp_frame(777), other = udp_frame(778);
  return {
      {"vxlan / eth / ipv4 / udp dst",
       {eth, ipv4, udp, vxlan, eth, ipv4, udp_to(777)},
       {in_vxlan(inner)},
       {in_vxlan(other), inner}},
      {"vxlan / eth dst",
       {eth, ipv4, udp, vxlan, to_10},
       {in_vxlan(inner)},
       {in_vxlan(changed(udp4, 1, 9)), inner}},
      {"vxlan / eth / vlan vid",
       {eth, ipv4, udp, vxlan, eth, vid},
       {in_vxlan(tagged(1))},
       {in_vxlan(inner), tagged(1)}},
      {"vxlan / eth / ipv4 ttl",
       {eth, ipv4, udp, vxlan, eth, ttl},
       {in_vxlan(changed(udp4, ttl_at, 3))},
       {in_vxlan(inner), changed(udp4, ttl_at, 3)}},
      {"vxlan / eth / ipv6 / tcp",
       {eth, ipv4, udp, vxlan, eth, ipv6, tcp},
       {in_vxlan(make_frame(tcp6))},
       {in_vxlan(inner), in_vxlan(make_frame(udp6))}},
  };
}

std::vector<Row> rows_of_gre() {
  const rte_flow_item of_ipv4 = a_gre([](auto& w) {
    w.spec.protocol = net16(0x0800);
    w.mask.protocol = net16(0xffff);
  });
  const rte_flow_item keyed =
      a_gre([](auto& w) { w.spec.c_rsvd0_ver = w.mask.c_rsvd0_ver = net16(0x2000); });
  const rte_flow_item key = words<rte_be32_t>([](auto& w) {
                              w.spec = rte_cpu_to_be_32(0x12345);
                              w.mask = ~rte_be32_t{0};
                            }).as(RTE_FLOW_ITEM_TYPE_GRE_KEY);
  const rte_flow_item option = words<rte_flow_item_gre_opt>([](auto& w) {
                                 w.spec.key.key = rte_cpu_to_be_32(0x12345);
                                 w.mask.key.key = ~rte_be32_t{0};
                               }).as(RTE_FLOW_ITEM_TYPE_GRE_OPTION);
  const rte_flow_item subnet = words<rte_flow_item_nvgre>([](auto& w) {
                                 w.spec.tni[2] = 0x12;
                                 std::memset(w.mask.tni, 0xff, 3);
                               }).as(RTE_FLOW_ITEM_TYPE_NVGRE);
  const Bytes inner = udp_frame(777), other = udp_frame(778);
  return {
      {"gre protocol",
       {eth, ipv4, of_ipv4},
       {in_gre(inner, 0)},
       {in_gre(make_frame(udp6), 0), inner}},
      {"gre k_bit", {eth, ipv4, keyed}, {in_gre(inner, 5)}, {in_gre(inner, 0)}},
      {"gre / gre_option",
       {eth, ipv4, gre, option},
       {in_gre(inner, 0x12345)},
       {in_gre(inner, 0x12346), in_gre(inner, 0)}},
      {"gre / gre_key",
       {eth, ipv4, gre, key},
       {in_gre(inner, 0x12345)},
       {in_gre(inner, 0x12346), in_gre(inner, 0)}},
      {"gre / ipv4 / udp dst",
       {eth, ipv4, gre, ipv4, udp_to(777)},
       {in_gre(inner, 0)},
       {in_gre(other, 0), inner}},
      {"nvgre tni",
       {eth, ipv4, subnet},
       {in_gre(inner, 0x1200, true)},
       {in_gre(inner, 0x1300, true), in_gre(inner, 0x1200)}},
  };
}

void tunnels_are_matched() {
  take(rows_of_vxlan());
  take(rows_of_gre());
}

struct Rewritten {
  const char* what;
  FrameSpec frame;
  Items items;
  rte_flow_action action;
  std::size_t at;                 // where bytes differ then
  std::vector<unsigned> becomes;  // those bytes
};

unsigned byte_of(const FrameSpec& s, std::size_t at) {
  return std::to_integer<unsigned>(make_frame(s)[at]);
}
// The 32 bits there and `n`.
std::vector<unsigned> word_and(const FrameSpec& s, std::size_t at, int n) {
  const Bytes f = make_frame(s);
  const uint32_t word = (get16(f, at) << 16 | get16(f, at + 2)) + static_cast<uint32_t>(n);
  return {word >> 24, word >> 16 & 0xff, word >> 8 & 0xff, word & 0xff};
}

std::vector<Rewritten> rewritten_rows() {
  static const rte_flow_action_set_mac mac{{2, 9, 9, 9, 9, 9}};
  static const rte_flow_action_set_ipv4 v4{rte_cpu_to_be_32(0x0a0b0c0d)};
  static const rte_flow_action_set_ipv6 v6{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
  static const rte_flow_action_set_tp port{net16(4660)};
  static const rte_flow_action_set_ttl ttl{33};
  const std::vector<unsigned> mac_bytes{2, 9, 9, 9, 9, 9}, v4_bytes{10, 11, 12, 13},
      v6_bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, port_bytes{0x12, 0x34};
  const auto less = [](const FrameSpec& s, std::size_t at) {
    return std::vector<unsigned>{std::to_integer<unsigned>(make_frame(s)[at]) - 1};
  };
  return {
      {"set_mac_src", udp4, {eth}, {RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &mac}, 6, mac_bytes},
      {"set_mac_dst", tcp6, {eth}, {RTE_FLOW_ACTION_TYPE_SET_MAC_DST, &mac}, 0, mac_bytes},
      {"set_ipv4_src", udp4, {eth, ipv4}, {RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC, &v4}, 26, v4_bytes},
      {"set_ipv4_dst", tcp4, {eth, ipv4}, {RTE_FLOW_ACTION_TYPE_SET_IPV4_DST, &v4}, 30, v4_bytes},
      {"set_ipv6_src", udp6, {eth, ipv6}, {RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC, &v6}, 22, v6_bytes},
      {"set_ipv6_dst", tcp6, {eth, ipv6}, {RTE_FLOW_ACTION_TYPE_SET_IPV6_DST, &v6}, 38, v6_bytes},
      {"set_tp_src",
       tcp4,
       {eth, ipv4, tcp},
       {RTE_FLOW_ACTION_TYPE_SET_TP_SRC, &port},
       34,
       port_bytes},
      {"set_tp_dst",
       udp6,
       {eth, ipv6, udp},
       {RTE_FLOW_ACTION_TYPE_SET_TP_DST, &port},
       56,
       port_bytes},
      {"set_ttl", udp4, {eth, ipv4}, {RTE_FLOW_ACTION_TYPE_SET_TTL, &ttl}, ttl_at, {33}},
      {"set_ttl of IPv6", udp6, {eth, ipv6}, {RTE_FLOW_ACTION_TYPE_SET_TTL, &ttl}, hop_at, {33}},
      {"dec_ttl",
       tcp4,
       {eth, ipv4},
       {RTE_FLOW_ACTION_TYPE_DEC_TTL, nullptr},
       ttl_at,
       less(tcp4, ttl_at)},
      {"dec_ttl of IPv6",
       tcp6,
       {eth, ipv6},
       {RTE_FLOW_ACTION_TYPE_DEC_TTL, nullptr},
       hop_at,
       less(tcp6, hop_at)},
  };
}

std::vector<Rewritten> rows_of_classes_and_numbers() {
  static const rte_flow_action_set_dscp dscp{0x15};
  static const rte_be32_t two = rte_cpu_to_be_32(2);
  constexpr std::size_t seq = 4, ack = 8;  // behind TCP's begin
  return {
      {"set_ipv4_dscp",
       udp4,
       {eth, ipv4},
       {RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP, &dscp},
       15,
       {0x15 << 2 | (byte_of(udp4, 15) & 3)}},
      {"set_ipv6_dscp",
       tcp6,
       {eth, ipv6},
       {RTE_FLOW_ACTION_TYPE_SET_IPV6_DSCP, &dscp},
       14,
       {0x60 | 0x15 >> 2, (0x15 & 3) << 6 | (byte_of(tcp6, 15) & 0x3f)}},
      {"inc_tcp_seq",
       tcp4,
       {eth, ipv4, tcp},
       {RTE_FLOW_ACTION_TYPE_INC_TCP_SEQ, &two},
       l4_of(tcp4) + seq,
       word_and(tcp4, l4_of(tcp4) + seq, 2)},
      {"dec_tcp_ack",
       tcp6,
       {eth, ipv6, tcp},
       {RTE_FLOW_ACTION_TYPE_DEC_TCP_ACK, &two},
       l4_of(tcp6) + ack,
       word_and(tcp6, l4_of(tcp6) + ack, -2)},
  };
}

rte_flow_action modify(rte_flow_field_id field, rte_flow_modify_op op, uint32_t skipped,
                       uint32_t width, std::initializer_list<uint8_t> value) {
  static std::vector<std::unique_ptr<rte_flow_action_modify_field>> all;
  all.push_back(std::make_unique<rte_flow_action_modify_field>());
  rte_flow_action_modify_field& m = *all.back();
  m.operation = op;
  m.dst.field = field;
  m.dst.offset = skipped;
  m.src.field = RTE_FLOW_FIELD_VALUE;
  std::copy(value.begin(), value.end(), m.src.value);
  m.width = width;
  return {RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &m};
}

// Bits count from a field's highest one, and the value's stand where the field's do.
std::vector<Rewritten> modified_rows() {
  constexpr auto set = RTE_FLOW_MODIFY_SET, add = RTE_FLOW_MODIFY_ADD;
  const auto plus = [](const FrameSpec& s, std::size_t at, unsigned n) {
    return std::vector<unsigned>{(byte_of(s, at) + n) & 0xff};
  };
  return {
      {"modify ipv4_ttl",
       udp4,
       {eth, ipv4},
       modify(RTE_FLOW_FIELD_IPV4_TTL, set, 0, 8, {7}),
       ttl_at,
       {7}},
      {"modify ipv6_hoplimit by adding",
       tcp6,
       {eth, ipv6},
       modify(RTE_FLOW_FIELD_IPV6_HOPLIMIT, add, 0, 8, {5}),
       hop_at,
       plus(tcp6, hop_at, 5)},
      {"modify the second byte of ipv4_dst",
       udp4,
       {eth, ipv4},
       modify(RTE_FLOW_FIELD_IPV4_DST, set, 8, 8, {1, 77, 3, 4}),
       31,
       {77}},
      {"modify mac_dst where its two parts meet",
       tcp4,
       {eth},
       modify(RTE_FLOW_FIELD_MAC_DST, set, 24, 16, {1, 2, 3, 0xa4, 0xb5, 6}),
       3,
       {0xa4, 0xb5}},
      {"modify ipv6_src across words",
       udp6,
       {eth, ipv6},
       modify(RTE_FLOW_FIELD_IPV6_SRC, set, 24, 16, {0, 0, 0, 0xc7, 0xd8}),
       22 + 3,
       {0xc7, 0xd8}},
      {"modify udp_port_dst",
       udp4,
       {eth, ipv4, udp},
       modify(RTE_FLOW_FIELD_UDP_PORT_DST, set, 0, 16, {0x12, 0x34}),
       l4_of(udp4) + 2,
       {0x12, 0x34}},
      {"modify tcp_flags",
       tcp4,
       {eth, ipv4, tcp},
       modify(RTE_FLOW_FIELD_TCP_FLAGS, set, 0, 9, {1, 0x12}),
       l4_of(tcp4) + 12,
       {(byte_of(tcp4, l4_of(tcp4) + 12) & 0xfe) | 1, 0x12}},
  };
}

// Sums that were right are right behind the change.
void headers_are_rewritten() {
  EthPair p;
  EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_CHECKSUM, .queues = 2}), 0);
  std::vector<Rewritten> rows = rewritten_rows();
  for (const auto& more : {rows_of_classes_and_numbers(), modified_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  for (const Rewritten& row : rows) {
    rte_flow* const rule = make(p, row.what, row.items, {row.action, queue_1});
    const Bytes frame = make_frame(row.frame);
    p.queue_of.clear();
    p.far.send(frame);
    const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 2);
    EQUAL_FATAL(got.size(), 1);
    EQUAL(p.queue_of[0], 1);
    Bytes want = frame;
    for (std::size_t i = 0; i < row.becomes.size(); i++)
      want[row.at + i] = static_cast<std::byte>(row.becomes[i]);
    Bytes arrived = bytes_of(got[0]);
    EQUAL(got[0]->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    if (!row.frame.ipv6) EQUAL(l3_check(arrived, row.frame), 0xffff);
    EQUAL(l4_check(arrived, row.frame), 0xffff);
    // But for the sums it is the frame with the change.
    for (Bytes* b : {&want, &arrived}) {
      put16(*b, l4_checksum_at(row.frame), 0);
      if (!row.frame.ipv6) put16(*b, 24, 0);
    }
    if (arrived != want) std::printf("%s\n", row.what);
    EQUAL(arrived, want);
    rte_pktmbuf_free(got[0]);
    rte_flow_error error{};
    EQUAL(rte_flow_destroy(p.near.id, rule, &error), 0);
  }
  arrives(p, make_frame(udp4), 0, 0);  // without a rule nothing changes
}

// The first tag's number changes, and its priority stays; the type behind it stays too.
void tags_are_renumbered() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  static const rte_flow_action_of_set_vlan_vid number{net16(0xabc)};
  Bytes frame = tagged(1);
  frame[14] = std::byte{0xa0};
  for (const rte_flow_action& action :
       {rte_flow_action{RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID, &number},
        modify(RTE_FLOW_FIELD_VLAN_ID, RTE_FLOW_MODIFY_SET, 0, 12, {0x0a, 0xbc})}) {
    rte_flow* const rule = make(p, "vlan_id", {eth, vlan}, {action, queue_1});
    p.far.send(frame);
    rte_mbuf* const got = p.receive(p.near, 1, 2).at(0);
    Bytes want = frame;
    want[14] = std::byte{0xaa}, want[15] = std::byte{0xbc};
    EQUAL(bytes_of(got), want);
    rte_pktmbuf_free(got);
    rte_flow_error error{};
    EQUAL(rte_flow_destroy(p.near.id, rule, &error), 0);
  }
}

void flag_marks_without_a_number() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  constexpr uint64_t both = RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
  (void)make(p, "flag", {eth, ipv4}, {{RTE_FLOW_ACTION_TYPE_FLAG, nullptr}, queue_1});
  static const rte_flow_action_mark last{0xfffffd};
  (void)make(p, "mark", {eth, ipv6}, {{RTE_FLOW_ACTION_TYPE_MARK, &last}, queue_1});
  for (const auto& [frame, flags] : {std::pair{udp4, RTE_MBUF_F_RX_FDIR}, {udp6, both}}) {
    p.far.send(make_frame(frame));
    const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 2);
    EQUAL_FATAL(got.size(), 1);
    EQUAL(got[0]->ol_flags & both, flags);
    if (flags == both) EQUAL(got[0]->hash.fdir.hi, 0xfffffd);
    rte_pktmbuf_free(got[0]);
  }
}

const Case of_rewrites[] = {
    {"patterns match what lies in tunnels", tunnels_are_matched},
    {"actions rewrite headers", headers_are_rewritten},
    {"a tag's number is rewritten", tags_are_renumbered},
    {"flag marks without a number", flag_marks_without_a_number},
};

}  // namespace
}  // namespace ethdev_rewrites_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_rewrites =
    ethdev_rewrites_ut::of_rewrites;
