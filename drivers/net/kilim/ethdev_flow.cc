// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/ethdev_flow.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>

#include "kilim/base/be.hh"
#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

FlowRefusal refuse_item(const rte_flow_item& item, rte_flow_error_type type, const char* what) {
  return {ENOTSUP, type, &item, what};
}

template <std::size_t n>
flow::Masked<std::array<uint8_t, n>> bytes_of(const uint8_t* value, const uint8_t* mask) noexcept {
  flow::Masked<std::array<uint8_t, n>> m;
  for (std::size_t i = 0; i < n; i++) {
    m.mask[i] = mask[i];
    m.value[i] = value[i] & mask[i];
  }
  return m;
}
flow::Masked<uint16_t> number_of(rte_be16_t value, rte_be16_t mask) noexcept {
  const uint16_t m = be16::from_raw(mask).host();
  return {static_cast<uint16_t>(be16::from_raw(value).host() & m), m};
}
flow::Masked<uint8_t> number_of(uint8_t value, uint8_t mask) noexcept {
  return {static_cast<uint8_t>(value & mask), mask};
}

// An item's words, and those of its mask that nobody has read yet.
template <typename T>
struct Words {
  T value{}, mask{};
  bool named = false;  // any of them
};

template <typename T>
FlowRefusal words_of(const rte_flow_item& item, const T& usual, Words<T>& w) {
  if (item.spec == nullptr && (item.mask != nullptr || item.last != nullptr))
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "a mask or a range without a value"};
  if (item.spec == nullptr) return {};
  w.named = true;
  std::memcpy(static_cast<void*>(&w.value), item.spec, sizeof(T));
  if (item.mask != nullptr)
    std::memcpy(static_cast<void*>(&w.mask), item.mask, sizeof(T));
  else
    std::memcpy(static_cast<void*>(&w.mask), &usual, sizeof(T));
  if (item.last != nullptr)
    return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_LAST, "rules have no ranges");
  return {};
}

// Refuses an item whose mask has words left.
template <typename T>
FlowRefusal all_read(const rte_flow_item& item, const T& mask) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&mask);
  const bool none = std::all_of(bytes, bytes + sizeof(T), [](uint8_t b) { return b == 0; });
  return none ? FlowRefusal{}
              : refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_MASK,
                            "the item's mask names a field that no rule of this port has");
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
  if (w.mask.has_vlan != 0 && w.value.has_vlan == 0)
    return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM_SPEC, "no rule asks for the lack of a tag");
  if (w.mask.has_vlan != 0) match.vlan.emplace();
  w.mask.has_vlan = 0;
  w.mask.hdr = {};
  return all_read(item, w.mask);
}

FlowRefusal read_vlan(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_vlan usual{};
  usual.hdr.vlan_tci = be16{0x0fff}.raw();
  Words<rte_flow_item_vlan> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  match.vlan.emplace();
  if (!w.named) return {};
  match.vlan->tci = number_of(w.value.hdr.vlan_tci, w.mask.hdr.vlan_tci);
  if (w.mask.hdr.eth_proto != 0) {
    if (!match.eth) match.eth.emplace();
    match.eth->type = number_of(w.value.hdr.eth_proto, w.mask.hdr.eth_proto);
  }
  w.mask.hdr = {};
  return all_read(item, w.mask);
}

FlowRefusal read_ipv4(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_ipv4 usual{};
  usual.hdr.src_addr = usual.hdr.dst_addr = 0xffffffff;
  Words<rte_flow_item_ipv4> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  flow::Ipv4& ip = match.ipv4.emplace();
  const rte_ipv4_hdr &v = w.value.hdr, &m = w.mask.hdr;
  ip.src = bytes_of<4>(reinterpret_cast<const uint8_t*>(&v.src_addr),
                       reinterpret_cast<const uint8_t*>(&m.src_addr));
  ip.dst = bytes_of<4>(reinterpret_cast<const uint8_t*>(&v.dst_addr),
                       reinterpret_cast<const uint8_t*>(&m.dst_addr));
  ip.protocol = number_of(v.next_proto_id, m.next_proto_id);
  ip.tos = number_of(v.type_of_service, m.type_of_service);
  w.mask.hdr.src_addr = w.mask.hdr.dst_addr = 0;
  w.mask.hdr.next_proto_id = w.mask.hdr.type_of_service = 0;
  return all_read(item, w.mask);
}

FlowRefusal read_ipv6(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_ipv6 usual{};
  std::memset(usual.hdr.src_addr, 0xff, sizeof usual.hdr.src_addr);
  std::memset(usual.hdr.dst_addr, 0xff, sizeof usual.hdr.dst_addr);
  Words<rte_flow_item_ipv6> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  flow::Ipv6& ip = match.ipv6.emplace();
  ip.src = bytes_of<16>(w.value.hdr.src_addr, w.mask.hdr.src_addr);
  ip.dst = bytes_of<16>(w.value.hdr.dst_addr, w.mask.hdr.dst_addr);
  ip.protocol = number_of(w.value.hdr.proto, w.mask.hdr.proto);
  const uint32_t value = be32::from_raw(w.value.hdr.vtc_flow).host();
  const uint32_t mask = be32::from_raw(w.mask.hdr.vtc_flow).host();
  ip.traffic_class = number_of(static_cast<uint8_t>(value >> 20), static_cast<uint8_t>(mask >> 20));
  ip.label = {value & mask & 0xfffff, mask & 0xfffff};
  std::memset(w.mask.hdr.src_addr, 0, 2 * sizeof w.mask.hdr.src_addr);
  w.mask.hdr.proto = 0;
  w.mask.hdr.vtc_flow &= be32{0xf0000000}.raw();
  return all_read(item, w.mask);
}

template <typename T>
FlowRefusal read_ports(const rte_flow_item& item, std::optional<flow::Ports>& ports) {
  T usual{};
  usual.hdr.src_port = usual.hdr.dst_port = 0xffff;
  Words<T> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  ports.emplace();
  ports->src = number_of(w.value.hdr.src_port, w.mask.hdr.src_port);
  ports->dst = number_of(w.value.hdr.dst_port, w.mask.hdr.dst_port);
  w.mask.hdr.src_port = w.mask.hdr.dst_port = 0;
  return all_read(item, w.mask);
}

// A rule looks at the protocol's number alone: verbs have no words for type and code. Without
// `protocol` there is no such IP header.
template <typename T>
FlowRefusal read_icmp(const rte_flow_item& item, flow::Masked<uint8_t>* protocol, uint8_t number) {
  constexpr std::size_t type_and_code = 2;  // the first bytes of both items
  T usual{};
  std::memset(static_cast<void*>(&usual), 0xff, type_and_code);
  Words<T> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  if (protocol == nullptr)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "icmp is behind ipv4, icmp6 behind ipv6"};
  if (protocol->value != (number & protocol->mask))
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "the IP header names another protocol"};
  *protocol = flow::exactly(number);
  return all_read(item, w.mask);
}

FlowRefusal read_vxlan(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_vxlan usual{};
  std::memset(usual.vni, 0xff, sizeof usual.vni);
  Words<rte_flow_item_vxlan> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  const auto id = [](const uint8_t(&vni)[3]) {
    return uint32_t{vni[0]} << 16 | uint32_t{vni[1]} << 8 | vni[2];
  };
  flow::Tunnel& t = match.tunnel.emplace();
  t.id = {id(w.value.vni) & id(w.mask.vni), id(w.mask.vni)};
  std::memset(w.mask.vni, 0, sizeof w.mask.vni);
  return all_read(item, w.mask);
}

// Fields of it are not matched.
FlowRefusal read_gre(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_gre usual{};
  usual.protocol = 0xffff;
  Words<rte_flow_item_gre> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  match.tunnel.emplace().kind = flow::Tunnel::Kind::gre;
  return all_read(item, w.mask);
}

// How far from a frame's start an item's header stands; 0: it is none of ours.
uint32_t layer_of(rte_flow_item_type type) noexcept {
  switch (type) {
    case RTE_FLOW_ITEM_TYPE_ETH:
      return 1;
    case RTE_FLOW_ITEM_TYPE_VLAN:
      return 2;
    case RTE_FLOW_ITEM_TYPE_IPV4:
    case RTE_FLOW_ITEM_TYPE_IPV6:
      return 3;
    case RTE_FLOW_ITEM_TYPE_TCP:
    case RTE_FLOW_ITEM_TYPE_UDP:
    case RTE_FLOW_ITEM_TYPE_ICMP:
    case RTE_FLOW_ITEM_TYPE_ICMP6:
      return 4;
    default:
      return 0;
  }
}

FlowRefusal read_item(const rte_flow_item& item, flow::Match& match) {
  switch (item.type) {
    case RTE_FLOW_ITEM_TYPE_VOID:
      return {};
    case RTE_FLOW_ITEM_TYPE_ETH:
      return read_eth(item, match);
    case RTE_FLOW_ITEM_TYPE_VLAN:
      return read_vlan(item, match);
    case RTE_FLOW_ITEM_TYPE_IPV4:
      return read_ipv4(item, match);
    case RTE_FLOW_ITEM_TYPE_IPV6:
      return read_ipv6(item, match);
    case RTE_FLOW_ITEM_TYPE_TCP:
      return read_ports<rte_flow_item_tcp>(item, match.tcp);
    case RTE_FLOW_ITEM_TYPE_UDP:
      return read_ports<rte_flow_item_udp>(item, match.udp);
    case RTE_FLOW_ITEM_TYPE_ICMP:
      return read_icmp<rte_flow_item_icmp>(item, match.ipv4 ? &match.ipv4->protocol : nullptr,
                                           IPPROTO_ICMP);
    case RTE_FLOW_ITEM_TYPE_ICMP6:
      return read_icmp<rte_flow_item_icmp6>(item, match.ipv6 ? &match.ipv6->protocol : nullptr,
                                            IPPROTO_ICMPV6);
    case RTE_FLOW_ITEM_TYPE_VXLAN:
      return read_vxlan(item, match);
    case RTE_FLOW_ITEM_TYPE_GRE:
      return read_gre(item, match);
    default:
      return refuse_item(item, RTE_FLOW_ERROR_TYPE_ITEM,
                         "items are eth, vlan, ipv4, ipv6, tcp, udp, icmp, icmp6, vxlan and gre");
  }
}

FlowRefusal refuse_action(const rte_flow_action& a, const char* what) {
  return {ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &a, what};
}
FlowRefusal refuse_conf(const rte_flow_action& a, int code, const char* what) {
  return {code, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &a, what};
}

bool needs_conf(rte_flow_action_type type) noexcept {
  return type == RTE_FLOW_ACTION_TYPE_QUEUE || type == RTE_FLOW_ACTION_TYPE_RSS ||
         type == RTE_FLOW_ACTION_TYPE_MARK;
}

FlowRefusal check_rss(const rte_flow_action& a) {
  const auto& conf = *static_cast<const rte_flow_action_rss*>(a.conf);
  if (conf.func != RTE_ETH_HASH_FUNCTION_DEFAULT && conf.func != RTE_ETH_HASH_FUNCTION_TOEPLITZ)
    return refuse_conf(a, ENOTSUP, "the hash is Toeplitz's");
  if (conf.level > rss_innermost)
    return refuse_conf(a, ENOTSUP, "frames are spread by their outermost or innermost headers");
  if (conf.key_len != 0 && conf.key_len != flow::hash_key_bytes)
    return refuse_conf(a, ENOTSUP, "an RSS key has 40 bytes");
  if ((conf.types & ~all_rss_hf) != 0)
    return refuse_conf(a, ENOTSUP, "a kind of hash that flow_type_rss_offloads has not");
  if (conf.queue_num == 0 || conf.queue == nullptr)
    return refuse_conf(a, EINVAL, "rss needs queues");
  return {};
}

FlowRefusal read_rss(const rte_flow_action& a, const flow::Rss& defaults, flow::Action& action) {
  if (FlowRefusal r = check_rss(a); r.code != 0) return r;
  const auto& conf = *static_cast<const rte_flow_action_rss*>(a.conf);
  action.fate = flow::Action::Fate::rss;
  action.rss = defaults;
  action.rss.inner = conf.level == rss_innermost;
  if (conf.types != 0) action.rss.types = hash_types_of(conf.types);
  if (conf.key_len != 0 && conf.key != nullptr)
    std::copy_n(conf.key, flow::hash_key_bytes, action.rss.key.begin());
  // A device's table has a power of two of entries: as many as spread any number evenly enough.
  const bool power = (conf.queue_num & (conf.queue_num - 1)) == 0;
  action.rss.table.resize(power ? conf.queue_num : reta_entries);
  for (std::size_t i = 0; i < action.rss.table.size(); i++)
    action.rss.table[i] = conf.queue[i % conf.queue_num];
  return {};
}

FlowRefusal read_action(const rte_flow_action& a, const flow::Rss& defaults, flow::Action& action,
                        uint32_t& fates) {
  if (a.conf == nullptr && needs_conf(a.type)) return refuse_conf(a, EINVAL, "no configuration");
  switch (a.type) {
    case RTE_FLOW_ACTION_TYPE_VOID:
      return {};
    case RTE_FLOW_ACTION_TYPE_QUEUE:
      fates++;
      action.queue = static_cast<const rte_flow_action_queue*>(a.conf)->index;
      return {};
    case RTE_FLOW_ACTION_TYPE_DROP:
      fates++;
      action.fate = flow::Action::Fate::drop;
      return {};
    case RTE_FLOW_ACTION_TYPE_RSS:
      fates++;
      return read_rss(a, defaults, action);
    case RTE_FLOW_ACTION_TYPE_COUNT:
      action.count = true;
      return {};
    case RTE_FLOW_ACTION_TYPE_MARK:
      action.mark = static_cast<const rte_flow_action_mark*>(a.conf)->id + 1;
      if (*action.mark == 0 || *action.mark > 0xffffff)
        return refuse_conf(a, ENOTSUP, "a mark is below 16777215");
      return {};
    case RTE_FLOW_ACTION_TYPE_FLAG:
      return refuse_action(a, "mark with a number instead of flag");
    default:
      return refuse_action(a, "actions are queue, rss, drop, mark and count");
  }
}

}  // namespace

FlowRefusal read_pattern(const rte_flow_item* items, flow::Match& match) {
  if (items == nullptr) return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_NUM, nullptr, "no pattern"};
  for (uint32_t last = 0; items->type != RTE_FLOW_ITEM_TYPE_END; items++) {
    if (match.tunnel && items->type != RTE_FLOW_ITEM_TYPE_VOID)
      return refuse_item(*items, RTE_FLOW_ERROR_TYPE_ITEM, "nothing behind a tunnel is matched");
    const uint32_t layer = layer_of(items->type);
    if (layer != 0 && layer <= last)
      return refuse_item(*items, RTE_FLOW_ERROR_TYPE_ITEM,
                         "items stand as headers do, one of each layer");
    if (layer != 0) last = layer;
    if (FlowRefusal r = read_item(*items, match); r.code != 0) return r;
  }
  // VXLAN behind any UDP port is behind its own (DPDK drivers/net/mlx5/mlx5_flow_dv.c,
  // flow_dv_translate_item_vxlan()).
  const bool vxlan = match.tunnel && match.tunnel->kind == flow::Tunnel::Kind::vxlan;
  if (vxlan && match.udp && match.udp->dst.mask == 0)
    match.udp->dst = flow::exactly(flow::port_vxlan);
  return {};
}

FlowRefusal read_actions(const rte_flow_action* actions, const flow::Rss& defaults,
                         flow::Action& action) {
  if (actions == nullptr) return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_NUM, nullptr, "no actions"};
  uint32_t fates = 0;
  const rte_flow_action* const first = actions;
  for (; actions->type != RTE_FLOW_ACTION_TYPE_END; actions++)
    if (FlowRefusal r = read_action(*actions, defaults, action, fates); r.code != 0) return r;
  if (fates != 1)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, first, "a rule has one of queue, rss and drop"};
  return {};
}

}  // namespace kilim::net
