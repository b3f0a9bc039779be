// SPDX-License-Identifier: BSD-3-Clause
// Flow rules by match buffers (mlx5dv_create_flow(3)): those that lead to a TIR, that look at what
// verbs' specs have no words for, that change headers, or that are for frames that leave. Parts of
// Mlx5Device, which owns what is made. Control path only; never touches a frame.
#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "mlx5/flow_counter.hh"
#include "mlx5/header_commands.hh"
#include "mlx5/match_buffer.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {
namespace {

Result<FlowMatcher> make_matcher(ibv_context* context, MatchBuffers& match,
                                 const device::FlowRequest& request) {
  mlx5dv_flow_matcher_attr attr{};
  attr.type = IBV_FLOW_ATTR_NORMAL;
  attr.flags = request.egress ? IBV_FLOW_ATTR_FLAGS_EGRESS : 0;
  attr.priority = request.priority;
  attr.match_criteria_enable = match.criteria;
  attr.match_mask = match.mask.get();
  FlowMatcher made{mlx5dv_create_flow_matcher(context, &attr)};
  if (made == nullptr) return Error{errno, "the adapter looks at no such headers"};
  return made;
}

// What is done to matching frames, as mlx5dv_create_flow(3) takes it: counter, change of headers,
// headers in front, tag and destination.
struct Actions {
  std::array<mlx5dv_flow_action_attr, 5> list{};
  std::size_t count = 0;

  mlx5dv_flow_action_attr& add(mlx5dv_flow_action_type type) noexcept {
    list[count].type = type;
    return list[count++];
  }
};

Result<VerbsFlowAction> make_rewrite(ibv_context* context, const device::FlowRequest& request) {
  HeaderCommands commands;
  if (request.rewrite.size() > flow::longest_rewrite)
    return Error{EINVAL, "a rule changes at most 8 headers"};
  for (const flow::Rewrite& r : request.rewrite) commands.add(r, request.match);
  const auto table = request.egress ? MLX5DV_FLOW_TABLE_TYPE_NIC_TX : MLX5DV_FLOW_TABLE_TYPE_NIC_RX;
  VerbsFlowAction made{
      mlx5dv_create_flow_action_modify_header(context, commands.bytes(), commands.words(), table)};
  if (made == nullptr) return Error{errno, "the adapter changes no such headers of the frames"};
  return made;
}

Result<VerbsFlowAction> make_prepend(ibv_context* context, std::span<const std::byte> headers) {
  std::array<std::byte, flow::longest_prepend> copy;
  if (headers.size() > copy.size())
    return Error{EINVAL, "headers in front of a frame are at most 128 bytes"};
  std::copy(headers.begin(), headers.end(), copy.begin());
  VerbsFlowAction made{mlx5dv_create_flow_action_packet_reformat(
      context, headers.size(), copy.data(), MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL,
      MLX5DV_FLOW_TABLE_TYPE_NIC_TX)};
  if (made == nullptr) return Error{errno, "the adapter puts no such headers in front of a frame"};
  return made;
}

// Changes of headers, and headers in front: the rule's owner keeps what is made.
Status add_changes(ibv_context* context, const device::FlowRequest& request,
                   VerbsFlowAction (&made)[2], Actions& actions) {
  if (!request.rewrite.empty()) {
    Result<VerbsFlowAction> rewrite = make_rewrite(context, request);
    if (!rewrite) return rewrite.error();
    made[0] = *std::move(rewrite);
  }
  if (!request.prepend.empty()) {
    Result<VerbsFlowAction> prepend = make_prepend(context, request.prepend);
    if (!prepend) return prepend.error();
    made[1] = *std::move(prepend);
  }
  for (const VerbsFlowAction& a : made)
    if (a != nullptr) actions.add(MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION).action = a.get();
  return Done{};
}

}  // namespace

Result<device::FlowHandle> Mlx5Device::add_buffer_rule(const mlx5dv_flow_action_attr& to,
                                                       const device::FlowRequest& request) {
  if (request.mark && *request.mark >> 24 != 0)
    return Error{EINVAL, "a flow rule's mark has 24 bits"};
  MatchBuffers match(request.match);
  Flow flow;
  Result<FlowMatcher> matcher = make_matcher(context_.get(), match, request);
  if (!matcher) return matcher.error();
  flow.matcher = *std::move(matcher);
  Actions actions;
  if (request.count) {
    Result<FirmwareObject> counter = create_flow_counter(context_.get());
    if (!counter) return counter.error();
    flow.counter = *std::move(counter);
    actions.add(MLX5DV_FLOW_ACTION_COUNTERS_DEVX).obj = flow.counter.object.get();
  }
  if (Status s = add_changes(context_.get(), request, flow.changes, actions); !s) return s.error();
  if (request.mark) actions.add(MLX5DV_FLOW_ACTION_TAG).tag_value = *request.mark;
  if (request.drop)
    actions.add(MLX5DV_FLOW_ACTION_DROP);
  else if (!request.egress)
    actions.list[actions.count++] = to;
  flow.rule.reset(mlx5dv_create_flow(flow.matcher.get(), match.value.get(), actions.count,
                                     actions.list.data()));
  if (flow.rule == nullptr) return Error{errno, "the adapter refuses the flow rule"};
  return keep(std::move(flow));
}

}  // namespace kilim::mlx5
