// SPDX-License-Identifier: BSD-3-Clause
// The ways of a queue pair through its states, by ibv_modify_qp. Control path only.
#pragma once

#include <infiniband/verbs.h>

#include "kilim/base/result.hh"
#include "kilim/device/objects.hh"

namespace kilim::mlx5 {

// What a connection is set up with; kept to set it up again after an error.
struct Path {
  uint32_t access = 0;
  uint8_t port = 1;
  int wanted_gid = -1;  // -1: the first one of RoCE v2
  uint8_t gid_index = 0;
  uint32_t psn = 0;  // ours
  ibv_mtu mtu = IBV_MTU_1024;
  device::Endpoint peer;
};

// RESET, INIT, RTR, RTS of a connection.
Status to_rts(ibv_qp* qp, const Path& path, device::Transport transport);
Status raw_to_rts(ibv_qp* qp, uint8_t port);
Status to_state(ibv_qp* qp, ibv_qp_state state);

}  // namespace kilim::mlx5
