// SPDX-License-Identifier: BSD-3-Clause
// Verbs objects that destroy themselves. Owner: whoever holds them; move-only. Errors of destroying
// are dropped; callers that report them call the verb first and release() the object. Control path.
#pragma once

#include <memory>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

namespace kilim::mlx5 {

// An overload for each object, as some of verbs' destroyers are inline functions or macros.
struct Destroy {
  void operator()(ibv_context* o) const noexcept { (void)ibv_close_device(o); }
  void operator()(ibv_pd* o) const noexcept { (void)ibv_dealloc_pd(o); }
  void operator()(ibv_comp_channel* o) const noexcept { (void)ibv_destroy_comp_channel(o); }
  void operator()(ibv_cq* o) const noexcept { (void)ibv_destroy_cq(o); }
  void operator()(ibv_srq* o) const noexcept { (void)ibv_destroy_srq(o); }
  void operator()(ibv_qp* o) const noexcept { (void)ibv_destroy_qp(o); }
  void operator()(ibv_flow* o) const noexcept { (void)ibv_destroy_flow(o); }
  void operator()(ibv_flow_action* o) const noexcept { (void)ibv_destroy_flow_action(o); }
  void operator()(ibv_counters* o) const noexcept { (void)ibv_destroy_counters(o); }
  void operator()(ibv_wq* o) const noexcept { (void)ibv_destroy_wq(o); }
  void operator()(ibv_rwq_ind_table* o) const noexcept { (void)ibv_destroy_rwq_ind_table(o); }
  void operator()(ibv_mr* o) const noexcept { (void)ibv_dereg_mr(o); }
  void operator()(ibv_mw* o) const noexcept { (void)ibv_dealloc_mw(o); }
  void operator()(mlx5dv_flow_matcher* o) const noexcept { (void)mlx5dv_destroy_flow_matcher(o); }
  void operator()(mlx5dv_devx_obj* o) const noexcept { (void)mlx5dv_devx_obj_destroy(o); }
};

using Context = std::unique_ptr<ibv_context, Destroy>;
using Pd = std::unique_ptr<ibv_pd, Destroy>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroy>;
using VerbsCq = std::unique_ptr<ibv_cq, Destroy>;
using VerbsSrq = std::unique_ptr<ibv_srq, Destroy>;
using VerbsQp = std::unique_ptr<ibv_qp, Destroy>;
using VerbsFlow = std::unique_ptr<ibv_flow, Destroy>;
using VerbsFlowAction = std::unique_ptr<ibv_flow_action, Destroy>;
using FlowMatcher = std::unique_ptr<mlx5dv_flow_matcher, Destroy>;
using VerbsCounters = std::unique_ptr<ibv_counters, Destroy>;
using VerbsRwq = std::unique_ptr<ibv_wq, Destroy>;
using VerbsRwqTable = std::unique_ptr<ibv_rwq_ind_table, Destroy>;
using VerbsMr = std::unique_ptr<ibv_mr, Destroy>;
using VerbsMw = std::unique_ptr<ibv_mw, Destroy>;
using DevxObject = std::unique_ptr<mlx5dv_devx_obj, Destroy>;

}  // namespace kilim::mlx5
