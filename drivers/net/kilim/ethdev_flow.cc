// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/ethdev_flow.hh"

#include <cerrno>
#include <cstring>

#include "net/kilim/ethdev_flow_items.hh"

namespace kilim::net {

flow::Masked<uint8_t>* protocol_of(flow::Match& match) noexcept {
  return match.ipv4 ? &match.ipv4->protocol : match.ipv6 ? &match.ipv6->protocol : nullptr;
}

FlowRefusal name_protocol(const rte_flow_item& item, flow::Match& match, uint8_t number) {
  flow::Masked<uint8_t>* const protocol = protocol_of(match);
  if (protocol == nullptr)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "the item stands behind ipv4 or ipv6"};
  if (protocol->value != (number & protocol->mask))
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "the IP header names another protocol"};
  *protocol = flow::exactly(number);
  return {};
}

namespace {

constexpr uint16_t type_service = 0x88a8;  // of a tag of 802.1ad

// An Ethernet type that is a tag's says that there is one; of such a frame a rule's type is what
// stands behind its tags.
void take_tag_type(flow::Match& match) {
  flow::Masked<uint16_t>& type = match.eth->type;
  if (type != flow::exactly(flow::type_vlan) && type != flow::exactly(type_service)) return;
  match.vlan.emplace().kind =
      type.value == type_service ? flow::Vlan::Kind::service : flow::Vlan::Kind::customer;
  type = {};
}

FlowRefusal read_eth(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_eth usual{};
  std::memset(&usual.hdr.dst_addr, 0xff, 2 * RTE_ETHER_ADDR_LEN);
  Words<rte_flow_item_eth> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  if (!w.named) return {};
  flow::Eth& e = match.eth.emplace();
  e.dst = bytes_of<6>(w.value.hdr.dst_addr.addr_bytes, w.mask.hdr.dst_addr.addr_bytes);
  e.src = bytes_of<6>(w.value.hdr.src_addr.addr_bytes, w.mask.hdr.src_addr.addr_bytes);
  e.type = number_of(w.value.hdr.ether_type, w.mask.hdr.ether_type);
  take_tag_type(match);
  if (w.mask.has_vlan != 0 && w.value.has_vlan != 0 && !match.vlan) match.vlan.emplace();
  match.untagged = w.mask.has_vlan != 0 && w.value.has_vlan == 0;
  w.mask.has_vlan = 0;
  w.mask.hdr = {};
  return all_read(item, w.mask);
}

FlowRefusal read_vlan(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_vlan usual{};
  usual.hdr.vlan_tci = be16{0x0fff}.raw();
  Words<rte_flow_item_vlan> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  if (match.untagged)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "the item eth says that there is no tag"};
  if (!match.vlan) match.vlan.emplace();
  if (!w.named) return {};
  match.vlan->tci = number_of(w.value.hdr.vlan_tci, w.mask.hdr.vlan_tci);
  if (w.mask.has_more_vlan != 0) match.vlan->more = w.value.has_more_vlan != 0;
  const flow::Masked<uint16_t> type = number_of(w.value.hdr.eth_proto, w.mask.hdr.eth_proto);
  if (type == flow::exactly(flow::type_vlan)) {
    match.vlan->more = true;
  } else if (type.mask != 0) {
    if (!match.eth) match.eth.emplace();
    match.eth->type = type;
  }
  w.mask.has_more_vlan = 0;
  w.mask.hdr = {};
  return all_read(item, w.mask);
}

// A device knows fragments from whole packets, and no more of them: a field that says where in a
// packet a fragment lies is 0, or ranges over every value but that. DPDK's mlx5 driver takes the
// same words (22.11, drivers/net/mlx5/mlx5_flow_dv.c, flow_dv_validate_item_ipv4(),
// flow_dv_validate_item_ipv6_frag_ext()).
struct FragmentWords {
  uint16_t value, last, mask;  // in host order
  uint16_t all;                // bits that say it
  uint16_t least;              // in the field of a fragment
};
FlowRefusal read_fragment(const rte_flow_item& item, const FragmentWords& w,
                          std::optional<bool>& fragment) {
  if ((w.mask & w.all) == 0) return {};
  const auto value = static_cast<uint16_t>(w.value & w.all),
             last = static_cast<uint16_t>(w.last & w.all);
  if ((w.mask & w.all) != w.all)
    return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_MASK,
                       "the mask of a fragment's place has all its bits");
  if (value == last && value == 0)
    fragment = false;
  else if (value == w.least && last == w.all)
    fragment = true;
  else
    return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_SPEC,
                       "a rule takes whole packets (0) or all fragments (1 to the mask)");
  return {};
}

FlowRefusal read_ipv4(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_ipv4 usual{}, ranged{};
  usual.hdr.src_addr = usual.hdr.dst_addr = 0xffffffff;
  ranged.hdr.fragment_offset = 0xffff;
  Words<rte_flow_item_ipv4> w;
  if (FlowRefusal r = words_of(item, usual, w, ranged); r.code != 0) return r;
  flow::Ipv4& ip = match.ipv4.emplace();
  const rte_ipv4_hdr& v = w.value.hdr;
  rte_ipv4_hdr& m = w.mask.hdr;
  ip.src = bytes_of<4>(reinterpret_cast<const uint8_t*>(&v.src_addr),
                       reinterpret_cast<const uint8_t*>(&m.src_addr));
  ip.dst = bytes_of<4>(reinterpret_cast<const uint8_t*>(&v.dst_addr),
                       reinterpret_cast<const uint8_t*>(&m.dst_addr));
  ip.protocol = number_of(v.next_proto_id, m.next_proto_id);
  ip.tos = number_of(v.type_of_service, m.type_of_service);
  ip.ttl = number_of(v.time_to_live, m.time_to_live);
  const auto host = [](rte_be16_t raw) { return be16::from_raw(raw).host(); };
  const FragmentWords place{host(v.fragment_offset), host(w.last.hdr.fragment_offset),
                            host(m.fragment_offset), 0x3fff, 1};
  if (FlowRefusal r = read_fragment(item, place, ip.fragment); r.code != 0) return r;
  // With the place's bits come the two that no device looks at, as testpmd's `is` masks them: "do
  // not fragment", and the reserved one.
  if (ip.fragment) m.fragment_offset = 0;
  m.src_addr = m.dst_addr = 0;
  m.next_proto_id = m.type_of_service = m.time_to_live = 0;
  return all_read(item, w.mask);
}

FlowRefusal read_ipv6(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_ipv6 usual{};
  std::memset(&usual.hdr.src_addr, 0xff, sizeof usual.hdr.src_addr);
  std::memset(&usual.hdr.dst_addr, 0xff, sizeof usual.hdr.dst_addr);
  Words<rte_flow_item_ipv6> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  flow::Ipv6& ip = match.ipv6.emplace();
  // An array until 23.11, a structure of one from 24.11 on.
  const auto bytes = [](const auto& address) { return reinterpret_cast<const uint8_t*>(&address); };
  ip.src = bytes_of<16>(bytes(w.value.hdr.src_addr), bytes(w.mask.hdr.src_addr));
  ip.dst = bytes_of<16>(bytes(w.value.hdr.dst_addr), bytes(w.mask.hdr.dst_addr));
  ip.protocol = number_of(w.value.hdr.proto, w.mask.hdr.proto);
  ip.hop_limit = number_of(w.value.hdr.hop_limits, w.mask.hdr.hop_limits);
  const flow::Masked<uint32_t> word = long_number_of(w.value.hdr.vtc_flow, w.mask.hdr.vtc_flow);
  ip.traffic_class =
      number_of(static_cast<uint8_t>(word.value >> 20), static_cast<uint8_t>(word.mask >> 20));
  ip.label = {word.value & 0xfffff, word.mask & 0xfffff};
  if (w.mask.has_frag_ext != 0) ip.fragment = w.value.has_frag_ext != 0;
  std::memset(&w.mask.hdr.src_addr, 0, sizeof w.mask.hdr.src_addr);
  std::memset(&w.mask.hdr.dst_addr, 0, sizeof w.mask.hdr.dst_addr);
  w.mask.hdr.proto = w.mask.hdr.hop_limits = 0;
  w.mask.hdr.vtc_flow &= be32{0xf0000000}.raw();
  w.mask.has_frag_ext = 0;
  return all_read(item, w.mask);
}

FlowRefusal read_fragment_header(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_ipv6_frag_ext usual{}, ranged{};
  usual.hdr.next_header = 0xff;
  ranged.hdr.frag_data = 0xffff;
  Words<rte_flow_item_ipv6_frag_ext> w;
  if (FlowRefusal r = words_of(item, usual, w, ranged); r.code != 0) return r;
  if (!match.ipv6 || match.ipv6->fragment == false)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item,
            "ipv6_frag_ext is behind an ipv6 that may be a fragment"};
  match.ipv6->fragment = true;
  std::optional<bool> fragment;
  const auto host = [](rte_be16_t raw) { return be16::from_raw(raw).host(); };
  const FragmentWords place{host(w.value.hdr.frag_data), host(w.last.hdr.frag_data),
                            host(w.mask.hdr.frag_data), 0xfff9, 1};
  if (FlowRefusal r = read_fragment(item, place, fragment); r.code != 0) return r;
  if (fragment == false)
    return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_SPEC,
                       "packets of one fragment (0) are not told from others");
  if (w.mask.hdr.next_header == 0xff)
    if (FlowRefusal r = name_protocol(item, match, w.value.hdr.next_header); r.code != 0) return r;
  if (w.mask.hdr.next_header == 0xff) w.mask.hdr.next_header = 0;
  w.mask.hdr.frag_data = 0;
  return all_read(item, w.mask);
}

// How far from a frame's start an item's header stands, and what reads it.
struct Reader {
  rte_flow_item_type type;
  uint32_t layer;
  FlowRefusal (*read)(const rte_flow_item& item, flow::Match& match);
};
constexpr uint32_t tunnel_layer = 7;
constexpr Reader readers[] = {
    {RTE_FLOW_ITEM_TYPE_ETH, 1, read_eth},
    {RTE_FLOW_ITEM_TYPE_VLAN, 2, read_vlan},
    {RTE_FLOW_ITEM_TYPE_IPV4, 3, read_ipv4},
    {RTE_FLOW_ITEM_TYPE_IPV6, 3, read_ipv6},
    {RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT, 4, read_fragment_header},
    {RTE_FLOW_ITEM_TYPE_TCP, 5, read_tcp},
    {RTE_FLOW_ITEM_TYPE_UDP, 5, read_udp},
    {RTE_FLOW_ITEM_TYPE_ICMP, 5, read_icmp4},
    {RTE_FLOW_ITEM_TYPE_ICMP6, 5, read_icmp6},
    {RTE_FLOW_ITEM_TYPE_ESP, 6, read_esp},
    {RTE_FLOW_ITEM_TYPE_VXLAN, tunnel_layer, read_vxlan},
    {RTE_FLOW_ITEM_TYPE_GRE, tunnel_layer, read_gre},
    {RTE_FLOW_ITEM_TYPE_NVGRE, tunnel_layer, read_nvgre},
};

// The layers of a pattern: in front of a tunnel, and behind it.
class PatternReader {
 public:
  explicit PatternReader(flow::Match& match) noexcept : match_(match) {}

  FlowRefusal take(const rte_flow_item& item) {
    if (item.type == RTE_FLOW_ITEM_TYPE_VOID) return {};
    if (item.type == RTE_FLOW_ITEM_TYPE_GRE_KEY || item.type == RTE_FLOW_ITEM_TYPE_GRE_OPTION)
      return take_key(item);
    const Reader* const r =
        std::find_if(std::begin(readers), std::end(readers),
                     [&item](const Reader& known) { return known.type == item.type; });
    if (r == std::end(readers))
      return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM,
                         "items are eth, vlan, ipv4, ipv6, ipv6_frag_ext, tcp, udp, icmp, icmp6, "
                         "esp, vxlan, gre, gre_key, gre_option and nvgre");
    if (r->layer <= last_)
      return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM,
                         "items stand as headers do, one of each layer");
    if (r->layer == tunnel_layer && match_.tunnel)
      return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM, "a rule looks into one tunnel");
    last_ = r->layer;
    if (FlowRefusal refused = r->read(item, match_.tunnel ? inner_ : match_); refused.code != 0)
      return refused;
    if (r->layer == tunnel_layer) last_ = 0;
    return match_.tunnel && last_ != 0 ? keep_inner(item) : FlowRefusal{};
  }

 private:
  // Between the item of GRE and what lies in the tunnel.
  FlowRefusal take_key(const rte_flow_item& item) {
    const bool gre = match_.tunnel && match_.tunnel->kind == flow::Tunnel::Kind::gre;
    if (!gre || last_ != 0 || match_.tunnel->id.mask != 0)
      return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM,
                         "gre_key or gre_option stands behind gre, once");
    return item.type == RTE_FLOW_ITEM_TYPE_GRE_KEY ? read_gre_key(item, match_)
                                                   : read_gre_option(item, match_);
  }

  FlowRefusal keep_inner(const rte_flow_item& item) {
    if (inner_.untagged || inner_.icmp || inner_.esp)
      return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_MASK,
                         "inside a tunnel a rule looks at no lack of a tag, at no field of ICMP "
                         "and at no SPI");
    flow::Inner& to = match_.inner.emplace();
    to.eth = inner_.eth;
    to.vlan = inner_.vlan;
    to.ipv4 = inner_.ipv4;
    to.ipv6 = inner_.ipv6;
    to.tcp = inner_.tcp;
    to.udp = inner_.udp;
    if (to == flow::Inner{}) match_.inner.reset();  // any frame that has been wrapped
    return {};
  }

  flow::Match& match_;
  flow::Match inner_;
  uint32_t last_ = 0;  // the last item's layer
};

}  // namespace

FlowRefusal read_pattern(const rte_flow_item* items, flow::Match& match) {
  if (items == nullptr) return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_NUM, nullptr, "no pattern"};
  PatternReader reader(match);
  for (; items->type != RTE_FLOW_ITEM_TYPE_END; items++)
    if (FlowRefusal r = reader.take(*items); r.code != 0) return r;
  return {};
}

}  // namespace kilim::net
