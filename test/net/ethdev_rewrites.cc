// SPDX-License-Identifier: BSD-3-Clause
// What rte_flow's patterns take inside tunnels, and what its actions do to the frames that they
// take: rewritten headers, a flag. Test only, on its own thread.
#include "ethdev_matches_fixture.hh"

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

// Sums that were right are right behind the change.
void headers_are_rewritten() {
  EthPair p;
  EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_CHECKSUM, .queues = 2}), 0);
  for (const Rewritten& row : rewritten_rows()) {
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
    {"flag marks without a number", flag_marks_without_a_number},
};

}  // namespace

const std::span<const Case> kilim::test::ethdev_rewrites = of_rewrites;
