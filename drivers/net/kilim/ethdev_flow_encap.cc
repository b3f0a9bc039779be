// SPDX-License-Identifier: BSD-3-Clause
// From rte_flow's actions that put headers in front of a frame to a rule's: raw_encap, vxlan_encap
// and nvgre_encap. What a header leaves 0 is filled in as DPDK's mlx5 driver does (22.11,
// drivers/net/mlx5/mlx5_flow_dv.c, flow_dv_convert_encap_data()). On the caller's thread; pure
// functions, which never touch a device.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include <netinet/in.h>

#include "net/kilim/ethdev_flow_actions.hh"

namespace kilim::net {
namespace {

// The fields in which the headers so far say what follows them; null: none does.
struct Before {
  std::byte* type = nullptr;      // an Ethernet header or a tag
  std::byte* protocol = nullptr;  // an IP header
  std::byte* port = nullptr;      // UDP's destination
};

// Writes a number in the wire's order where there is 0.
template <typename T>
void fill(std::byte* at, T value) noexcept {
  if (std::any_of(at, at + sizeof value, [](std::byte b) { return b != std::byte{0}; })) return;
  for (std::size_t i = sizeof value; i-- > 0; value = static_cast<T>(value >> 4 >> 4))
    at[i] = static_cast<std::byte>(value);
}

// Each fills in its header and what the one before says of it; false: it has no place there.
bool put_eth(std::byte* at, Before& b) noexcept {
  b.type = at + offsetof(rte_ether_hdr, ether_type);
  return true;
}
bool put_vlan(std::byte* at, Before& b) noexcept {
  if (b.type == nullptr) return false;
  fill(b.type, uint16_t{RTE_ETHER_TYPE_VLAN});
  b.type = at + offsetof(rte_vlan_hdr, eth_proto);
  return true;
}
bool put_ipv4(std::byte* at, Before& b) noexcept {
  constexpr uint8_t without_options = 0x45, hops = 64;
  if (b.type == nullptr) return false;
  fill(b.type, uint16_t{RTE_ETHER_TYPE_IPV4});
  fill(at + offsetof(rte_ipv4_hdr, version_ihl), without_options);
  fill(at + offsetof(rte_ipv4_hdr, time_to_live), hops);
  b.protocol = at + offsetof(rte_ipv4_hdr, next_proto_id);
  return true;
}
bool put_ipv6(std::byte* at, Before& b) noexcept {
  constexpr uint8_t hops = 0xff;
  constexpr uint32_t version = 0x60000000;
  if (b.type == nullptr) return false;
  fill(b.type, uint16_t{RTE_ETHER_TYPE_IPV6});
  fill(at + offsetof(rte_ipv6_hdr, vtc_flow), version);
  fill(at + offsetof(rte_ipv6_hdr, hop_limits), hops);
  b.protocol = at + offsetof(rte_ipv6_hdr, proto);
  return true;
}
bool put_udp(std::byte* at, Before& b) noexcept {
  if (b.protocol == nullptr) return false;
  fill(b.protocol, uint8_t{IPPROTO_UDP});
  b.port = at + offsetof(rte_udp_hdr, dst_port);
  return true;
}
bool put_vxlan(std::byte* at, Before& b) noexcept {
  constexpr uint32_t has_number = 0x08000000;
  if (b.port == nullptr) return false;
  fill(b.port, flow::port_vxlan);
  fill(at + offsetof(rte_vxlan_hdr, vx_flags), has_number);
  return true;
}
// GRE says what it carries: without that it is no header.
bool put_gre(std::byte* at, Before& b) noexcept {
  const std::byte* const carries = at + offsetof(rte_flow_item_nvgre, protocol);
  if (b.protocol == nullptr || (carries[0] | carries[1]) == std::byte{0}) return false;
  fill(b.protocol, uint8_t{IPPROTO_GRE});
  return true;
}

struct Layer {
  rte_flow_item_type type;
  std::size_t bytes;
  bool (*put)(std::byte* at, Before& before) noexcept;
};
constexpr Layer layers[] = {
    {RTE_FLOW_ITEM_TYPE_ETH, sizeof(rte_ether_hdr), put_eth},
    {RTE_FLOW_ITEM_TYPE_VLAN, sizeof(rte_vlan_hdr), put_vlan},
    {RTE_FLOW_ITEM_TYPE_IPV4, sizeof(rte_ipv4_hdr), put_ipv4},
    {RTE_FLOW_ITEM_TYPE_IPV6, sizeof(rte_ipv6_hdr), put_ipv6},
    {RTE_FLOW_ITEM_TYPE_UDP, sizeof(rte_udp_hdr), put_udp},
    {RTE_FLOW_ITEM_TYPE_VXLAN, sizeof(rte_vxlan_hdr), put_vxlan},
    {RTE_FLOW_ITEM_TYPE_GRE, sizeof(rte_gre_hdr), put_gre},
    {RTE_FLOW_ITEM_TYPE_NVGRE, sizeof(rte_flow_item_nvgre), put_gre},
};

FlowRefusal read_items(const rte_flow_action& a, const rte_flow_item* items, flow::Action& action) {
  if (items == nullptr) return refuse_conf(a, EINVAL, "no headers to put in front");
  // Pointers into it stay good: it does not grow.
  std::vector<std::byte>& out = action.prepend;
  out.reserve(flow::longest_prepend);
  Before before;
  for (; items->type != RTE_FLOW_ITEM_TYPE_END; items++) {
    if (items->type == RTE_FLOW_ITEM_TYPE_VOID) continue;
    const Layer* const layer =
        std::find_if(std::begin(layers), std::end(layers),
                     [items](const Layer& l) { return l.type == items->type; });
    if (layer == std::end(layers) || items->spec == nullptr)
      return refuse_conf(a, EINVAL,
                         "headers in front are eth, vlan, ipv4, ipv6, udp, vxlan, gre and nvgre");
    if (out.size() + layer->bytes > flow::longest_prepend)
      return refuse_conf(a, EINVAL, "headers in front of a frame are at most 128 bytes");
    const auto* const from = static_cast<const std::byte*>(items->spec);
    const std::size_t at = out.size();
    out.insert(out.end(), from, from + layer->bytes);
    if (!layer->put(out.data() + at, before))
      return refuse_conf(a, EINVAL, "headers in front stand as in a frame, from eth on");
  }
  return {};
}

// Fewer bytes are another Ethernet header, for a frame that has lost its own (the same file,
// flow_dv_validate_action_raw_encap_decap(), MLX5_ENCAPSULATION_DECISION_SIZE).
FlowRefusal read_raw(const rte_flow_action& a, flow::Action& action) {
  constexpr std::size_t no_tunnel = sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr);
  const auto& conf = *static_cast<const rte_flow_action_raw_encap*>(a.conf);
  if (conf.data == nullptr || conf.size == 0)
    return refuse_conf(a, EINVAL, "no headers to put in front");
  if (conf.size <= no_tunnel)
    return refuse_conf(a, ENOTSUP, "headers of a tunnel are put in front, of more than 34 bytes");
  if (conf.size > flow::longest_prepend)
    return refuse_conf(a, EINVAL, "headers in front of a frame are at most 128 bytes");
  const auto bytes = std::as_bytes(std::span(conf.data, conf.size));
  action.prepend.assign(bytes.begin(), bytes.end());
  return {};
}

}  // namespace

bool prepends_headers(rte_flow_action_type type) noexcept {
  return type == RTE_FLOW_ACTION_TYPE_RAW_ENCAP || type == RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP ||
         type == RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP;
}

FlowRefusal read_prepend(const rte_flow_action& a, flow::Action& action) {
  if (a.conf == nullptr) return refuse_conf(a, EINVAL, "no configuration");
  if (!action.prepend.empty()) return refuse_action(a, "headers are put in front once");
  if (a.type == RTE_FLOW_ACTION_TYPE_RAW_ENCAP) return read_raw(a, action);
  // Both configurations are the items alone.
  static_assert(sizeof(rte_flow_action_vxlan_encap) == sizeof(rte_flow_action_nvgre_encap));
  const rte_flow_item* const items =
      a.type == RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP
          ? static_cast<const rte_flow_action_vxlan_encap*>(a.conf)->definition
          : static_cast<const rte_flow_action_nvgre_encap*>(a.conf)->definition;
  return read_items(a, items, action);
}

}  // namespace kilim::net
