// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_FLOW_COUNTER", "QUERY_FLOW_COUNTER". The counter of a rule that leads to a TIR, which
// takes none of verbs' (rdma-core providers/mlx5/verbs.c, _mlx5dv_create_flow()). Control path
// only.
#pragma once

#include "kilim/detail/flow/rule.hh"
#include "mlx5/firmware.hh"

namespace kilim::mlx5 {

Result<FirmwareObject> create_flow_counter(ibv_context* context);
Result<flow::Count> read_flow_counter(const FirmwareObject& counter);

}  // namespace kilim::mlx5
