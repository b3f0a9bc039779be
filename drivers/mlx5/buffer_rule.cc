// SPDX-License-Identifier: BSD-3-Clause
// Flow rules by match buffers (mlx5dv_create_flow(3)): those that lead to a TIR, that look at what
// verbs' specs have no words for, or that change headers. Parts of Mlx5Device, which owns what is
// made. Control path only; never touches a frame.
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "kilim/prm/flow_table.hh"
#include "mlx5/flow_counter.hh"
#include "mlx5/match_buffer.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {
namespace {

Result<FlowMatcher> make_matcher(ibv_context* context, MatchBuffers& match, uint16_t priority) {
  mlx5dv_flow_matcher_attr attr{};
  attr.type = IBV_FLOW_ATTR_NORMAL;
  attr.priority = priority;
  attr.match_criteria_enable = match.criteria;
  attr.match_mask = match.mask.get();
  FlowMatcher made{mlx5dv_create_flow_matcher(context, &attr)};
  if (made == nullptr) return Error{errno, "the adapter looks at no such headers"};
  return made;
}

// What is done to matching frames, as mlx5dv_create_flow(3) takes it: counter, change of headers,
// tag and destination.
struct Actions {
  std::array<mlx5dv_flow_action_attr, 4> list{};
  std::size_t count = 0;

  mlx5dv_flow_action_attr& add(mlx5dv_flow_action_type type) noexcept {
    list[count].type = type;
    return list[count++];
  }
};

// PRM "Set Action", "Add Action": a run of bits of a header field, by its number in Linux
// include/linux/mlx5/mlx5_ifc.h (MLX5_ACTION_IN_FIELD_*).
struct Part {
  uint16_t field;
  uint8_t bytes;  // at most 4
};
// How many parts the longest header has: an IPv6 address.
constexpr std::size_t most_parts = 4;
using Parts = std::array<Part, most_parts>;

// The parts of a header in the order of the wire; those without bytes are none.
Parts parts_of(flow::Rewrite::Header header, const flow::Match& match) noexcept {
  using Header = flow::Rewrite::Header;
  switch (header) {
    case Header::eth_src:
      return {{{0x01, 4}, {0x02, 2}}};
    case Header::eth_dst:
      return {{{0x04, 4}, {0x05, 2}}};
    case Header::ipv4_src:
      return {{{0x15, 4}}};
    case Header::ipv4_dst:
      return {{{0x16, 4}}};
    case Header::ipv6_src:
      return {{{0x0d, 4}, {0x0e, 4}, {0x0f, 4}, {0x10, 4}}};
    case Header::ipv6_dst:
      return {{{0x11, 4}, {0x12, 4}, {0x13, 4}, {0x14, 4}}};
    case Header::port_src:
      return {{{match.tcp ? uint16_t{0x08} : uint16_t{0x0b}, 2}}};
    case Header::port_dst:
      return {{{match.tcp ? uint16_t{0x09} : uint16_t{0x0c}, 2}}};
    case Header::ttl:
      return {{{match.ipv6 ? uint16_t{0x47} : uint16_t{0x0a}, 1}}};
  }
  return {};
}

// The commands of a rule's changes; `in` has room for all of them. How many bytes they are.
std::size_t put_commands(std::span<const flow::Rewrite> rewrite, const flow::Match& match,
                         std::span<std::byte> in) noexcept {
  namespace s = prm::set_action;
  std::size_t used = 0;
  for (const flow::Rewrite& r : rewrite) {
    std::size_t at = 0;
    for (const Part& part : parts_of(r.header, match)) {
      if (part.bytes == 0) break;
      const auto command = in.subspan(used, s::bytes);
      uint32_t data = 0;
      for (std::size_t i = 0; i < part.bytes; i++) data = data << 8 | r.value[at++];
      prm::cap_set(command, s::action_type, r.adds ? s::add : s::set);
      prm::cap_set(command, s::field, part.field);
      prm::cap_set(command, s::length, part.bytes * 8u % 32);  // 0: 32 bits
      prm::cap_set(command, s::data, data);
      used += s::bytes;
    }
  }
  return used;
}

Result<VerbsFlowAction> make_rewrite(ibv_context* context, const device::FlowRequest& request) {
  constexpr std::size_t most = flow::longest_rewrite * most_parts;
  alignas(8) std::array<std::byte, most * prm::set_action::bytes> commands{};
  if (request.rewrite.size() > flow::longest_rewrite)
    return Error{EINVAL, "a rule changes at most 8 headers"};
  const std::size_t bytes = put_commands(request.rewrite, request.match, commands);
  std::array<uint64_t, most> words;
  std::memcpy(words.data(), commands.data(), bytes);
  VerbsFlowAction made{mlx5dv_create_flow_action_modify_header(context, bytes, words.data(),
                                                               MLX5DV_FLOW_TABLE_TYPE_NIC_RX)};
  if (made == nullptr)
    return Error{errno, "the adapter changes no such headers of what it receives"};
  return made;
}

}  // namespace

Result<device::FlowHandle> Mlx5Device::add_buffer_rule(const mlx5dv_flow_action_attr& to,
                                                       const device::FlowRequest& request) {
  if (request.mark && *request.mark >> 24 != 0)
    return Error{EINVAL, "a flow rule's mark has 24 bits"};
  MatchBuffers match(request.match);
  Flow flow;
  Result<FlowMatcher> matcher = make_matcher(context_.get(), match, request.priority);
  if (!matcher) return matcher.error();
  flow.matcher = *std::move(matcher);
  Actions actions;
  if (request.count) {
    Result<FirmwareObject> counter = make_flow_counter(context_.get());
    if (!counter) return counter.error();
    flow.counter = *std::move(counter);
    actions.add(MLX5DV_FLOW_ACTION_COUNTERS_DEVX).obj = flow.counter.object.get();
  }
  if (!request.rewrite.empty()) {
    Result<VerbsFlowAction> rewrite = make_rewrite(context_.get(), request);
    if (!rewrite) return rewrite.error();
    flow.rewrite = *std::move(rewrite);
    actions.add(MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION).action = flow.rewrite.get();
  }
  if (request.mark) actions.add(MLX5DV_FLOW_ACTION_TAG).tag_value = *request.mark;
  if (request.drop)
    actions.add(MLX5DV_FLOW_ACTION_DROP);
  else
    actions.list[actions.count++] = to;
  flow.rule.reset(mlx5dv_create_flow(flow.matcher.get(), match.value.get(), actions.count,
                                     actions.list.data()));
  if (flow.rule == nullptr) return Error{errno, "the adapter refuses the flow rule"};
  return keep(std::move(flow));
}

}  // namespace kilim::mlx5
