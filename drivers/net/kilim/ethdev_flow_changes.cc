// SPDX-License-Identifier: BSD-3-Clause
// From rte_flow's actions that change a header to a rule's: set_, inc_, dec_ and modify_field. On
// the caller's thread; pure functions, which never touch a device.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "kilim/detail/base/be.hh"
#include "net/kilim/ethdev_flow_actions.hh"

namespace kilim::net {
namespace {

using Header = flow::Rewrite::Header;

// The header that a rule's pattern must name, so that every frame has it.
enum class Needs : uint8_t { nothing, vlan, ipv4, ipv6, tcp, udp, ip, ports };

bool names(const flow::Match& m, Needs needs) noexcept {
  switch (needs) {
    case Needs::nothing:
      return true;
    case Needs::vlan:
      return m.vlan.has_value();
    case Needs::ipv4:
      return m.ipv4.has_value();
    case Needs::ipv6:
      return m.ipv6.has_value();
    case Needs::tcp:
      return m.tcp.has_value();
    case Needs::udp:
      return m.udp.has_value();
    case Needs::ip:
      return m.ipv4 || m.ipv6;
    case Needs::ports:
      return m.tcp || m.udp;
  }
  return false;
}

// How the number that an action carries changes the field of a header.
enum class Deed : uint8_t { set, add, subtract, take_one };

struct Change {
  rte_flow_action_type type;
  Header header;
  Needs needs;
  Deed deed = Deed::set;
};
constexpr Change changes[] = {
    {RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, Header::eth_src, Needs::nothing},
    {RTE_FLOW_ACTION_TYPE_SET_MAC_DST, Header::eth_dst, Needs::nothing},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC, Header::ipv4_src, Needs::ipv4},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_DST, Header::ipv4_dst, Needs::ipv4},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC, Header::ipv6_src, Needs::ipv6},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_DST, Header::ipv6_dst, Needs::ipv6},
    {RTE_FLOW_ACTION_TYPE_SET_TP_SRC, Header::port_src, Needs::ports},
    {RTE_FLOW_ACTION_TYPE_SET_TP_DST, Header::port_dst, Needs::ports},
    {RTE_FLOW_ACTION_TYPE_SET_TTL, Header::ttl, Needs::ip},
    {RTE_FLOW_ACTION_TYPE_DEC_TTL, Header::ttl, Needs::ip, Deed::take_one},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP, Header::dscp, Needs::ipv4},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_DSCP, Header::dscp, Needs::ipv6},
    {RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID, Header::vlan_id, Needs::vlan},
    {RTE_FLOW_ACTION_TYPE_INC_TCP_SEQ, Header::tcp_seq, Needs::tcp, Deed::add},
    {RTE_FLOW_ACTION_TYPE_DEC_TCP_SEQ, Header::tcp_seq, Needs::tcp, Deed::subtract},
    {RTE_FLOW_ACTION_TYPE_INC_TCP_ACK, Header::tcp_ack, Needs::tcp, Deed::add},
    {RTE_FLOW_ACTION_TYPE_DEC_TCP_ACK, Header::tcp_ack, Needs::tcp, Deed::subtract},
};

// Fields of modify_field.
struct Field {
  rte_flow_field_id id;
  Header header;
  Needs needs;
};
constexpr Field fields[] = {
    {RTE_FLOW_FIELD_MAC_DST, Header::eth_dst, Needs::nothing},
    {RTE_FLOW_FIELD_MAC_SRC, Header::eth_src, Needs::nothing},
    {RTE_FLOW_FIELD_VLAN_ID, Header::vlan_id, Needs::vlan},
    {RTE_FLOW_FIELD_MAC_TYPE, Header::eth_type, Needs::nothing},
    {RTE_FLOW_FIELD_IPV4_DSCP, Header::dscp, Needs::ipv4},
    {RTE_FLOW_FIELD_IPV4_TTL, Header::ttl, Needs::ipv4},
    {RTE_FLOW_FIELD_IPV4_SRC, Header::ipv4_src, Needs::ipv4},
    {RTE_FLOW_FIELD_IPV4_DST, Header::ipv4_dst, Needs::ipv4},
    {RTE_FLOW_FIELD_IPV6_DSCP, Header::dscp, Needs::ipv6},
    {RTE_FLOW_FIELD_IPV6_HOPLIMIT, Header::ttl, Needs::ipv6},
    {RTE_FLOW_FIELD_IPV6_SRC, Header::ipv6_src, Needs::ipv6},
    {RTE_FLOW_FIELD_IPV6_DST, Header::ipv6_dst, Needs::ipv6},
    {RTE_FLOW_FIELD_TCP_PORT_SRC, Header::port_src, Needs::tcp},
    {RTE_FLOW_FIELD_TCP_PORT_DST, Header::port_dst, Needs::tcp},
    {RTE_FLOW_FIELD_TCP_SEQ_NUM, Header::tcp_seq, Needs::tcp},
    {RTE_FLOW_FIELD_TCP_ACK_NUM, Header::tcp_ack, Needs::tcp},
    {RTE_FLOW_FIELD_TCP_FLAGS, Header::tcp_flags, Needs::tcp},
    {RTE_FLOW_FIELD_UDP_PORT_SRC, Header::port_src, Needs::udp},
    {RTE_FLOW_FIELD_UDP_PORT_DST, Header::port_dst, Needs::udp},
};

const Change* change_of(rte_flow_action_type type) noexcept {
  const Change* const at = std::find_if(std::begin(changes), std::end(changes),
                                        [type](const Change& c) { return c.type == type; });
  return at != std::end(changes) ? at : nullptr;
}

std::size_t bytes_of(Header header) noexcept {
  return (flow::width_of(header) + 7u) / 8;
}

constexpr const char* unnamed = "the rule names no layer with the header that is changed";

// A device only adds: one less is 255 more in 8 bits, and N less in 32 bits 2^32 - N more (DPDK
// 22.11 drivers/net/mlx5/mlx5_flow_dv.c, flow_dv_convert_action_modify_tcp_seq()).
void fill_value(const Change& c, const void* conf, flow::Rewrite& r) noexcept {
  constexpr uint8_t one_less = 0xff;
  if (c.deed == Deed::take_one) {
    r.value[0] = one_less;
    return;
  }
  std::memcpy(r.value.data(), conf, bytes_of(c.header));
  if (c.deed != Deed::subtract) return;
  be32 less;
  std::memcpy(&less, r.value.data(), sizeof less);
  const be32 more{0 - less.host()};
  std::memcpy(r.value.data(), &more, sizeof more);
}

FlowRefusal read_simple(const Change& c, const rte_flow_action& a, const flow::Match& match,
                        flow::Action& action) {
  constexpr uint16_t last_vlan = 0xffe;
  if (a.conf == nullptr && c.deed != Deed::take_one)
    return refuse_conf(a, EINVAL, "no configuration");
  if (!names(match, c.needs)) return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &a, unnamed};
  flow::Rewrite r{.header = c.header};
  fill_value(c, a.conf, r);
  r.adds = c.deed != Deed::set;
  if (c.header == Header::vlan_id && (r.value[0] << 8 | r.value[1]) > last_vlan)
    return refuse_conf(a, EINVAL, "a VLAN's number is at most 4094");
  action.rewrite.push_back(r);
  return {};
}

// DPDK 22.11 drivers/net/mlx5/mlx5_flow_dv.c, flow_dv_validate_action_modify_field().
FlowRefusal check_modify(const rte_flow_action& a, const rte_flow_action_modify_field& conf) {
  const bool value = conf.src.field == RTE_FLOW_FIELD_VALUE,
             pointer = conf.src.field == RTE_FLOW_FIELD_POINTER;
  if (!value && !pointer)
    return refuse_conf(a, ENOTSUP, "a field takes a value or what a pointer shows, no other field");
  if (pointer && conf.src.pvalue == nullptr) return refuse_conf(a, EINVAL, "no value to take");
  if (conf.operation != RTE_FLOW_MODIFY_SET && conf.operation != RTE_FLOW_MODIFY_ADD)
    return refuse_conf(a, ENOTSUP, "a field is set or added to");
  if (conf.dst.level != 0)
    return refuse_conf(a, ENOTSUP, "outermost headers are changed, of level 0");
  return {};
}

// Offsets count from a field's highest bit, and the value's bits stand where those of the field do
// (the same file, mlx5_flow_field_id_to_modify_info()).
FlowRefusal read_modify(const rte_flow_action& a, const flow::Match& match, flow::Action& action) {
  if (a.conf == nullptr) return refuse_conf(a, EINVAL, "no configuration");
  const auto& conf = *static_cast<const rte_flow_action_modify_field*>(a.conf);
  if (FlowRefusal r = check_modify(a, conf); r.code != 0) return r;
  const Field* const field =
      std::find_if(std::begin(fields), std::end(fields),
                   [&conf](const Field& f) { return f.id == conf.dst.field; });
  if (field == std::end(fields))
    return refuse_conf(a, ENOTSUP,
                       "fields are mac_, ipv4_, ipv6_, tcp_ and udp_ ones, vlan_id and mac_type");
  if (!names(match, field->needs)) return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &a, unnamed};
  const uint32_t width = flow::width_of(field->header);
  if (conf.width == 0 || conf.width > width || conf.dst.offset > width - conf.width)
    return refuse_conf(a, EINVAL, "the field has fewer bits than are to change, or none are");
  flow::Rewrite& r = action.rewrite.emplace_back();
  r.header = field->header;
  r.adds = conf.operation == RTE_FLOW_MODIFY_ADD;
  r.skipped = static_cast<uint8_t>(conf.dst.offset);
  r.bits = static_cast<uint8_t>(conf.width);
  const void* const from =
      conf.src.field == RTE_FLOW_FIELD_POINTER ? conf.src.pvalue : conf.src.value;
  std::memcpy(r.value.data(), from, bytes_of(field->header));
  return {};
}

}  // namespace

bool changes_headers(rte_flow_action_type type) noexcept {
  return type == RTE_FLOW_ACTION_TYPE_MODIFY_FIELD || change_of(type) != nullptr;
}

FlowRefusal read_change(const rte_flow_action& a, const flow::Match& match, flow::Action& action) {
  const Change* const change = change_of(a.type);
  return change != nullptr ? read_simple(*change, a, match, action) : read_modify(a, match, action);
}

}  // namespace kilim::net
