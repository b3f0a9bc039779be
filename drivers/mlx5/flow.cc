// SPDX-License-Identifier: BSD-3-Clause
// Flow rules by any headers, with their counters. Control path only.
#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "mlx5/flow_counter.hh"
#include "mlx5/flow_specs.hh"
#include "mlx5/match_buffer.hh"
#include "mlx5/mlx5_device.hh"

namespace kilim::mlx5 {
namespace {

// What read_counters answers, in the order in which make_counters() attached it.
enum : uint32_t { packets_at, bytes_at, counts };

Result<VerbsCounters> make_counters(ibv_context* context) {
  ibv_counters_init_attr init{};
  VerbsCounters made{ibv_create_counters(context, &init)};
  if (made == nullptr) return Error{errno, "the adapter has no counters for flow rules"};
  constexpr ibv_counter_description wanted[counts] = {IBV_COUNTER_PACKETS, IBV_COUNTER_BYTES};
  for (uint32_t i = 0; i < counts; i++) {
    ibv_counter_attach_attr attr{};
    attr.counter_desc = wanted[i];
    attr.index = i;
    if (const int rc = ibv_attach_counters_point_flow(made.get(), &attr, nullptr); rc != 0)
      return Error{rc, "the adapter does not count packets and bytes of a flow rule"};
  }
  return made;
}

}  // namespace

device::FlowHandle Mlx5Device::keep(Flow flow) {
  const device::FlowHandle made{next_handle_++};
  flows_.emplace(made.value(), std::move(flow));
  return made;
}

Result<device::FlowHandle> Mlx5Device::add_rule(const device::FlowRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  mlx5dv_flow_action_attr to{};
  if (request.egress) return add_buffer_rule(to, request);
  if (const auto tir = tirs_.find(request.qp.value()); tir != tirs_.end()) {
    to.type = MLX5DV_FLOW_ACTION_DEST_DEVX;
    to.obj = tir->second.object.get();
    return add_buffer_rule(to, request);
  }
  Qp* qp = find(request.qp);
  if (qp == nullptr || !is_raw(*qp)) return Error{EINVAL, "no such queue pair"};
  if (needs_buffers(request.match) || !request.rewrite.empty()) {
    to.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP;
    to.qp = qp->verbs.get();
    return add_buffer_rule(to, request);
  }
  Flow flow;
  if (request.count) {
    Result<VerbsCounters> counters = make_counters(context_.get());
    if (!counters) return counters.error();
    flow.counters = *std::move(counters);
  }
  FlowSpecs specs{request, qp->path.route.port, flow.counters.get()};
  flow.rule.reset(ibv_create_flow(qp->verbs.get(), specs.attr()));
  if (flow.rule == nullptr) return Error{errno, "the adapter refuses the flow rule"};
  return keep(std::move(flow));
}

Result<flow::Count> Mlx5Device::query_flow(device::FlowHandle flow) {
  const auto at = flows_.find(flow.value());
  if (at != flows_.end() && at->second.counter.object) return read_flow_counter(at->second.counter);
  if (at == flows_.end() || at->second.counters == nullptr)
    return Error{EINVAL, "no flow rule that counts has this handle"};
  uint64_t values[counts] = {};
  if (const int rc = ibv_read_counters(at->second.counters.get(), values, counts, 0); rc != 0)
    return Error{rc, "the adapter does not tell the rule's counters"};
  return flow::Count{values[packets_at], values[bytes_at]};
}

Status Mlx5Device::remove_flow(device::FlowHandle flow) {
  if (flows_.erase(flow.value()) == 0) return Error{EINVAL, "no such flow rule"};
  return Done{};
}

}  // namespace kilim::mlx5
