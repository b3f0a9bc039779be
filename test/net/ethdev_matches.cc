// SPDX-License-Identifier: BSD-3-Clause
// Which frames the patterns of rte_flow take and which they leave, a row for each field. Test only,
// on its own thread.
#include "ethdev_matches_fixture.hh"

namespace ethdev_matches_ut {
namespace {

using namespace kilim::test;

std::vector<Row> rows_of_tags() {
  const auto more = [](unsigned v) {
    return a_vlan([v](auto& w) { w.mask.has_more_vlan = 1, w.spec.has_more_vlan = v & 1; });
  };
  const auto type = [](unsigned t) {
    return an_eth([t](auto& w) {
      w.spec.hdr.ether_type = net16(t);
      w.mask.hdr.ether_type = net16(0xffff);
    });
  };
  const auto has = [](unsigned v) {
    return an_eth([v](auto& w) { w.mask.has_vlan = 1, w.spec.has_vlan = v & 1; });
  };
  return {
      {"has_vlan is 0", {has(0)}, {tagged(0)}, {tagged(1), tagged(2), tagged(1, true)}},
      {"has_vlan is 0 / ipv4", {has(0), ipv4}, {tagged(0)}, {tagged(1), make_frame(tcp6)}},
      {"has_vlan is 1", {has(1)}, {tagged(1)}, {tagged(0), tagged(1, true)}},
      {"vlan", {eth, vlan}, {tagged(1), tagged(2)}, {tagged(0)}},
      {"type is 0x8100", {type(0x8100)}, {tagged(1)}, {tagged(0), tagged(1, true)}},
      {"type is 0x88a8 / vlan", {type(0x88a8), vlan}, {tagged(1, true)}, {tagged(1), tagged(0)}},
      {"has_more_vlan is 1", {eth, more(1)}, {tagged(2)}, {tagged(1), tagged(0)}},
      {"has_more_vlan is 0", {eth, more(0)}, {tagged(1)}, {tagged(2), tagged(0)}},
  };
}

std::vector<Row> rows_of_ip() {
  const auto place = [](unsigned spec, unsigned last, unsigned mask) {
    return an_ipv4([=](auto& w) {
      w.spec.hdr.fragment_offset = net16(spec);
      w.last.hdr.fragment_offset = net16(last);
      w.mask.hdr.fragment_offset = net16(mask);
      w.ranges = last != spec;
    });
  };
  const rte_flow_item ttl = an_ipv4([](auto& w) {
    w.spec.hdr.time_to_live = 3;
    w.mask.hdr.time_to_live = 0xff;
  });
  const rte_flow_item hop = an_ipv6([](auto& w) {
    w.spec.hdr.hop_limits = 3;
    w.mask.hdr.hop_limits = 0xff;
  });
  const auto extension = [](unsigned v) {
    return an_ipv6([v](auto& w) { w.mask.has_frag_ext = 1, w.spec.has_frag_ext = v & 1; });
  };
  const rte_flow_item same = an_ipv4([](auto& w) {
    w.spec.hdr.type_of_service = w.last.hdr.type_of_service = 8;
    w.mask.hdr.type_of_service = 0xff;
    w.ranges = true;
  });
  const rte_flow_item frag_data = words<rte_flow_item_ipv6_frag_ext>([](auto& w) {
                                    w.spec.hdr.frag_data = net16(1);
                                    w.last.hdr.frag_data = w.mask.hdr.frag_data = net16(0xfff9);
                                    w.ranges = true;
                                  }).as(RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT);
  const Bytes first = make_frame({.fragment = 0x2000}), later = make_frame({.fragment = 9}),
              whole = make_frame({.fragment = 0x4000}),
              six = carrying(tcp6, 44, {6, 0, 0, 1, 0, 0, 0, 9});
  return {
      {"ipv4 ttl is 3", {eth, ttl}, {changed(udp4, ttl_at, 3)}, {changed(udp4, ttl_at, 2)}},
      {"ipv4 last as spec", {eth, same}, {changed(udp4, 15, 8)}, {changed(udp4, 15, 0)}},
      {"ipv6 hop is 3", {eth, hop}, {changed(udp6, hop_at, 3)}, {changed(udp6, hop_at, 9)}},
      {"fragment_offset is 0", {eth, place(0, 0, 0xffff)}, {whole}, {first, later}},
      {"fragment_offset of fragments", {eth, place(1, 0x3fff, 0x3fff)}, {first, later}, {whole}},
      {"has_frag_ext is 1", {eth, extension(1)}, {six}, {make_frame(tcp6)}},
      {"has_frag_ext is 0", {eth, extension(0)}, {make_frame(tcp6)}, {six}},
      {"ipv6_frag_ext",
       {eth, ipv6, bare(RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT)},
       {six},
       {make_frame(tcp6)}},
      {"frag_data of fragments", {eth, ipv6, frag_data}, {six}, {make_frame(udp6)}},
  };
}

std::vector<Row> rows_of_layer4() {
  const rte_flow_item syn = words<rte_flow_item_tcp>([](auto& w) {
                              w.spec.hdr.tcp_flags = 2;
                              w.mask.hdr.tcp_flags = 0x12;
                            }).as(RTE_FLOW_ITEM_TYPE_TCP);
  const rte_flow_item type = an_icmp([](auto& w) {
    w.spec.hdr.icmp_type = 8;
    w.mask.hdr.icmp_type = 0xff;
  });
  const rte_flow_item code = an_icmp([](auto& w) {
    w.spec.hdr.icmp_code = 4;
    w.mask.hdr.icmp_code = 0xff;
  });
  const rte_flow_item ident = an_icmp([](auto& w) {
    w.spec.hdr.icmp_ident = net16(0x1234);
    w.mask.hdr.icmp_ident = net16(0xffff);
  });
  const rte_flow_item seq = an_icmp([](auto& w) {
    w.spec.hdr.icmp_seq_nb = net16(7);
    w.mask.hdr.icmp_seq_nb = net16(0xffff);
  });
  const rte_flow_item type6 = words<rte_flow_item_icmp6>([](auto& w) {
                                w.spec.type = 128, w.mask.type = 0xff;
                                w.spec.code = 1, w.mask.code = 0xff;
                              }).as(RTE_FLOW_ITEM_TYPE_ICMP6);
  const auto echo = [](unsigned kind, unsigned of, unsigned number) {
    return carrying(udp4, 1, {kind, of, 0, 0, 0x12, 0x34, 0, number});
  };
  return {
      {"tcp flags",
       {eth, ipv4, syn},
       {make_frame({.tcp_flags = 2})},
       {make_frame({.tcp_flags = 0x12}), make_frame({.tcp_flags = 0x10}), make_frame(udp4)}},
      {"icmp type is 8",
       {eth, ipv4, type},
       {echo(8, 0, 1)},
       {echo(0, 0, 1), carrying(udp4, 17, {8, 0})}},
      {"icmp code is 4", {eth, ipv4, code}, {echo(3, 4, 1)}, {echo(3, 3, 1)}},
      {"icmp ident",
       {eth, ipv4, ident},
       {echo(8, 0, 1)},
       {carrying(udp4, 1, {8, 0, 0, 0, 0x12, 0x35, 0, 1})}},
      {"icmp seq", {eth, ipv4, seq}, {echo(8, 0, 7)}, {echo(8, 0, 8)}},
      {"icmp6 type and code",
       {eth, ipv6, type6},
       {carrying(udp6, 58, {128, 1})},
       {carrying(udp6, 58, {129, 1}), carrying(udp6, 58, {128, 0})}},
  };
}

std::vector<Row> rows_of_esp() {
  const rte_flow_item spi = words<rte_flow_item_esp>([](auto& w) {
                              w.spec.hdr.spi = rte_cpu_to_be_32(0x01020304);
                              w.mask.hdr.spi = ~rte_be32_t{0};
                            }).as(RTE_FLOW_ITEM_TYPE_ESP);
  const Bytes esp = carrying(udp4, 50, {1, 2, 3, 4, 0, 0, 0, 1});
  // Behind UDP's port 4500 (RFC 3948).
  const auto in_udp = [](unsigned port) {
    Bytes b = udp_frame(port);
    const std::size_t at = l4_of(udp4) + 8;
    for (unsigned i = 0; i < 4; i++) b[at + i] = static_cast<std::byte>(i + 1);
    return b;
  };
  Bytes other_spi = in_udp(4500);
  other_spi[l4_of(udp4) + 8] = std::byte{9};
  return {
      {"esp spi",
       {eth, ipv4, spi},
       {esp},
       {carrying(udp4, 50, {1, 2, 3, 5, 0, 0, 0, 1}), carrying(udp4, 51, {1, 2, 3, 4})}},
      {"udp / esp spi", {eth, ipv4, udp, spi}, {in_udp(4500)}, {in_udp(4501), other_spi, esp}},
      {"esp", {eth, ipv4, bare(RTE_FLOW_ITEM_TYPE_ESP)}, {esp}, {make_frame(udp4)}},
  };
}

void tags_are_matched() {
  take(rows_of_tags());
}
void ip_fields_are_matched() {
  take(rows_of_ip());
}
void layer4_fields_are_matched() {
  take(rows_of_layer4());
  take(rows_of_esp());
}
const Case of_matches[] = {
    {"patterns match tags, and their lack", tags_are_matched},
    {"patterns match fields of IP, and fragments", ip_fields_are_matched},
    {"patterns match fields of TCP, ICMP and ESP", layer4_fields_are_matched},
};

}  // namespace
}  // namespace ethdev_matches_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_matches =
    ethdev_matches_ut::of_matches;
