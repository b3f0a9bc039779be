// SPDX-License-Identifier: BSD-3-Clause
// From rte_flow's items of tunnels to a rule's: VXLAN, GRE and its key, NVGRE. For ethdev_flow.cc,
// on the caller's thread; pure functions, which never touch a device.
#include "net/kilim/ethdev_flow_items.hh"

namespace kilim::net {
namespace {

constexpr uint16_t type_ether = 0x6558;           // transparent Ethernet bridging (RFC 7637)
constexpr uint8_t has_key = 2, known_bits = 0xb;  // of flow::Tunnel::present
constexpr unsigned present_shift = 12;

uint32_t number_in(const uint8_t (&of_24_bits)[3]) noexcept {
  return uint32_t{of_24_bits[0]} << 16 | uint32_t{of_24_bits[1]} << 8 | of_24_bits[2];
}

flow::Masked<uint8_t> bits_in(rte_be16_t value, rte_be16_t mask) noexcept {
  const flow::Masked<uint16_t> word = number_of(value, mask);
  return {static_cast<uint8_t>(word.value >> present_shift),
          static_cast<uint8_t>(word.mask >> present_shift)};
}

// Bits of the first two bytes of GRE that no rule has: routing, version and what is reserved.
rte_be16_t other_bits(rte_be16_t mask) noexcept {
  return static_cast<rte_be16_t>(mask & ~be16{known_bits << present_shift}.raw());
}

// A frame must have a key (DPDK 22.11 drivers/net/mlx5/mlx5_flow_dv.c,
// flow_dv_translate_item_gre_key()).
FlowRefusal take_gre_key(const rte_flow_item& item, rte_be32_t value, rte_be32_t mask,
                         flow::Match& match) {
  flow::Tunnel& t = *match.tunnel;
  if ((t.present.mask & has_key) != 0 && (t.present.value & has_key) == 0)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item, "the item gre says that there is no key"};
  t.present.mask |= has_key;
  t.present.value |= has_key;
  t.id = long_number_of(value, mask);
  return {};
}

}  // namespace

FlowRefusal read_vxlan(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_vxlan usual{};
  std::memset(usual.vni, 0xff, sizeof usual.vni);
  Words<rte_flow_item_vxlan> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  flow::Tunnel& t = match.tunnel.emplace();
  t.id = {number_in(w.value.vni) & number_in(w.mask.vni), number_in(w.mask.vni)};
  std::memset(w.mask.vni, 0, sizeof w.mask.vni);
  // VXLAN behind any UDP port is behind its own (DPDK drivers/net/mlx5/mlx5_flow_dv.c,
  // flow_dv_translate_item_vxlan()).
  if (match.udp && match.udp->dst.mask == 0) match.udp->dst = flow::exactly(flow::port_vxlan);
  return all_read(item, w.mask);
}

FlowRefusal read_gre(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_gre usual{};
  usual.protocol = 0xffff;
  Words<rte_flow_item_gre> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  flow::Tunnel& t = match.tunnel.emplace();
  t.kind = flow::Tunnel::Kind::gre;
  t.protocol = number_of(w.value.protocol, w.mask.protocol);
  t.present = bits_in(w.value.c_rsvd0_ver, w.mask.c_rsvd0_ver);
  w.mask.protocol = 0;
  w.mask.c_rsvd0_ver = other_bits(w.mask.c_rsvd0_ver);
  return all_read(item, w.mask);
}

// The item is the bare number; its mask is all of it unless it says otherwise.
FlowRefusal read_gre_key(const rte_flow_item& item, flow::Match& match) {
  const rte_be32_t usual = 0xffffffff;
  Words<rte_be32_t> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  return take_gre_key(item, w.value, w.mask, match);
}

// Rules look at the key alone of what a GRE header may have.
FlowRefusal read_gre_option(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_gre_opt usual{};
  usual.key.key = 0xffffffff;
  Words<rte_flow_item_gre_opt> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  const rte_be32_t mask = w.mask.key.key;
  w.mask.key.key = 0;
  if (FlowRefusal r = all_read(item, w.mask); r.code != 0) return r;
  return take_gre_key(item, w.value.key.key, mask, match);
}

FlowRefusal read_nvgre(const rte_flow_item& item, flow::Match& match) {
  rte_flow_item_nvgre usual{};
  std::memset(usual.tni, 0xff, sizeof usual.tni);
  Words<rte_flow_item_nvgre> w;
  if (FlowRefusal r = words_of(item, usual, w); r.code != 0) return r;
  flow::Tunnel& t = match.tunnel.emplace();
  t.kind = flow::Tunnel::Kind::gre;
  t.protocol = flow::exactly(type_ether);
  t.present = {has_key, known_bits};
  const uint32_t mask = number_in(w.mask.tni) << 8 | w.mask.flow_id;
  t.id = {(number_in(w.value.tni) << 8 | w.value.flow_id) & mask, mask};
  std::memset(w.mask.tni, 0, sizeof w.mask.tni);
  w.mask.flow_id = 0;
  return all_read(item, w.mask);
}

}  // namespace kilim::net
