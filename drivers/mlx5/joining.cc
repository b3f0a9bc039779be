// SPDX-License-Identifier: BSD-3-Clause
// Hash targets of a device that join TCP segments (LRO): TIRs of the firmware instead of verbs'
// hash queue pairs, and the rules that lead to them. Control path only.
#include <array>
#include <cerrno>

#include "mlx5/flow_counter.hh"
#include "mlx5/match_buffer.hh"
#include "mlx5/mlx5_device.hh"
#include "mlx5/tir.hh"

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

// What is done to matching frames, as mlx5dv_create_flow(3) takes it.
struct Actions {
  std::array<mlx5dv_flow_action_attr, 3> list{};
  std::size_t count = 0;

  void add(mlx5dv_flow_action_type type, mlx5dv_devx_obj* object) noexcept {
    list[count].type = type;
    list[count++].obj = object;
  }
  void add_tag(uint32_t tag) noexcept {
    list[count].type = MLX5DV_FLOW_ACTION_TAG;
    list[count++].tag_value = tag;
  }
};

}  // namespace

Result<device::QpInfo> Mlx5Device::create_joining_tir(const device::HashQpRequest& request,
                                                      uint8_t port, uint32_t table) {
  if (!caps_.lro.supported) return Error{EOPNOTSUPP, "the adapter joins no TCP segments (LRO)"};
  if (port != 1)
    return Error{EOPNOTSUPP, "TCP segments (LRO) are joined on an adapter's first port only"};
  if (caps_.lro.units(request.lro->max_bytes) == 0)
    return Error{EINVAL, "joined TCP segments (LRO) need more room in a receive"};
  if (!domain_.object) {
    Result<FirmwareObject> domain = make_transport_domain(context_.get());
    if (!domain) return domain.error();
    domain_ = *std::move(domain);
  }
  Result<FirmwareObject> tir =
      make_tir(context_.get(), request, {.table = table, .domain = domain_.number}, caps_.lro);
  if (!tir) return tir.error();
  device::QpInfo info;
  info.handle = device::QpHandle{next_handle_++};
  tirs_.emplace(info.handle.value(), *std::move(tir));
  return info;
}

Status Mlx5Device::destroy_tir(std::unordered_map<uint32_t, FirmwareObject>::iterator tir) {
  if (const int rc = mlx5dv_devx_obj_destroy(tir->second.object.get()); rc != 0)
    return Error{rc < 0 ? errno : rc, "the TIR is still in use"};
  (void)tir->second.object.release();
  tirs_.erase(tir);
  return Done{};
}

Result<device::FlowHandle> Mlx5Device::add_rule_to(mlx5dv_devx_obj* tir,
                                                   const device::FlowRequest& request) {
  constexpr Error refused{EINVAL, "a flow rule's mark has 24 bits"};
  if (request.mark && *request.mark >> 24 != 0) return refused;
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
    actions.add(MLX5DV_FLOW_ACTION_COUNTERS_DEVX, flow.counter.object.get());
  }
  if (request.mark) actions.add_tag(*request.mark);
  actions.add(request.drop ? MLX5DV_FLOW_ACTION_DROP : MLX5DV_FLOW_ACTION_DEST_DEVX, tir);
  flow.rule.reset(mlx5dv_create_flow(flow.matcher.get(), match.value.get(), actions.count,
                                     actions.list.data()));
  if (flow.rule == nullptr) return Error{errno, "the adapter refuses the flow rule"};
  return keep(std::move(flow));
}

}  // namespace kilim::mlx5
