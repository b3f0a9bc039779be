// SPDX-License-Identifier: BSD-3-Clause
// Questions to an adapter's firmware: general commands through DevX (mlx5dv_devx_general_cmd(3)).
// Any thread; control path only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <infiniband/verbs.h>

#include "kilim/prm/cmd.hh"

namespace kilim::mlx5 {

using HcaCap = std::array<std::byte, prm::cmd::hca_cap_bytes>;

// Reads a capability group (prm::cmd::cap_*), current values (QUERY_HCA_CAP). False: the adapter
// does not answer DevX commands, and `group` is as it was.
bool query_hca_cap(ibv_context* context, uint16_t number, HcaCap& group);

// What send WQEs of the first port must have of a frame (QUERY_NIC_VPORT_CONTEXT,
// min_wqe_inline_mode); empty: it is not told.
std::optional<uint32_t> query_inline_mode(ibv_context* context);

}  // namespace kilim::mlx5
