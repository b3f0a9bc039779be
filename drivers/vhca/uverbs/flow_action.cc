// SPDX-License-Identifier: BSD-3-Clause
// What mlx5's own steering rules (matcher.cc) do to the headers of a frame: a packet reformat puts
// headers in front of one that leaves, a modify header changes those that are there. Linux
// drivers/infiniband/hw/mlx5/fs.c (flow_action_create_packet_reformat, create_modify_header).
// Adapter's lock held.
#include <array>
#include <cerrno>
#include <memory>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "kilim/prm/flow_table.hh"
#include "vhca/core/refusal.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr std::size_t ether_bytes = 14;  // of an Ethernet header

// fs.c, mlx5_ib_create_packet_reformat: of its kinds, the one that puts an Ethernet frame's worth
// of headers in front, for what leaves.
int create_reformat(Context& context, Bundle& b) {
  if (!context.hca.config.profile.egress_rules) return refusal::lacks("a rule of what leaves");
  if (b.value(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE) !=
          MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL ||
      b.value(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE) != MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX)
    return refusal::clash("reformat_type", b.value(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE),
                          b.value(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE), EOPNOTSUPP);
  const InBuffer data = b.in(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF);
  auto made = std::make_unique<FlowActionObject>();
  FlowActionObject& action = *made;
  if (data.bytes() < ether_bytes || data.bytes() > Prepend::most)
    return refusal::range("data_sz", data.bytes(), ether_bytes, Prepend::most);
  action.prepend.count = static_cast<uint32_t>(data.bytes());
  if (int err = data.read(action.prepend.bytes.data(), data.bytes()); err != 0) return err;
  context.add(std::move(made), {});
  return context.keep_unless(b.give(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE, action.handle),
                             action);
}

// fs.c, mlx5_ib_create_modify_header(), mlx5_ib_ft_type_to_namespace(): for what is received, and
// for what leaves.
int create_modify_header(Context& context, Bundle& b) {
  namespace s = prm::set_action;
  constexpr std::size_t most = 32;
  const uint64_t table = b.value(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE);
  const bool egress = table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX;
  const Profile& profile = context.hca.config.profile;
  if (!profile.raw_packet || (egress && !profile.egress_rules) ||
      (!egress && table != MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX))
    return refusal::clash("ft_type", table, egress, EOPNOTSUPP);
  const InBuffer data = b.in(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM);
  const std::size_t count = data.bytes() / s::bytes;
  if (count * s::bytes != data.bytes() || count > most)
    return refusal::most("actions_sz", data.bytes(), most * s::bytes);
  std::array<std::byte, most * s::bytes> bytes;
  if (int err = data.read(bytes.data(), data.bytes()); err != 0) return err;
  auto made = std::make_unique<FlowActionObject>();
  FlowActionObject& action = *made;
  action.egress = egress;
  for (std::size_t i = 0; i < count; i++) {
    const auto one = ethernet::read_prm_action(std::span(bytes).subspan(i * s::bytes, s::bytes));
    if (!one)
      return refusal::absent(
          "the modify header action of a kind or field not matched here, at place", i);
    action.rewrite.actions.push_back(*one);
  }
  context.add(std::move(made), {});
  return context.keep_unless(b.give(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE, action.handle),
                             action);
}

int destroy_action(Context& context, Bundle& b) {
  return destroy_by(context, b, UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE);
}

constexpr AttrRule create_reformat_rules[] = {
    {MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE, AttrKind::in, true, 4, 8},
    {MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE, AttrKind::in, true, 4, 8},
    {MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF, AttrKind::in, false, 1},
};
constexpr AttrRule create_modify_header_rules[] = {
    {MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM, AttrKind::in, true, 8},
    {MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE, AttrKind::in, true, 1, 8},
};
constexpr AttrRule destroy_action_rules[] = {
    {UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE, AttrKind::object, true, 0, 0, Kind::flow_action},
};
constexpr Method flow_action_table[] = {
    {UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT,
     WhenDead::refused, create_reformat, create_reformat_rules},  // ALLOC_PACKET_REFORMAT_CONTEXT
    {UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER, WhenDead::refused,
     create_modify_header, create_modify_header_rules},  // ALLOC_MODIFY_HEADER_CONTEXT
    {UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, WhenDead::runs, destroy_action,
     destroy_action_rules},
};

}  // namespace

std::span<const Method> flow_action_methods() {
  return flow_action_table;
}

}  // namespace kilim::vhca::uverbs
