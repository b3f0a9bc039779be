// SPDX-License-Identifier: BSD-3-Clause
// Moves queue pairs through their states by ibv_modify_qp(). Control path only.
#pragma once

#include <infiniband/verbs.h>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/objects.hh"

namespace kilim::mlx5 {

// The attributes of a connection, kept to set it up again after an error.
struct Path {
  uint32_t access = 0;
  int wanted_gid = -1;  // -1: the first RoCE v2 entry
  ibv_mtu mtu = IBV_MTU_1024;
  device::Route route;
};

// Takes a connection's queue pair through RESET, INIT and RTR to RTS.
Status to_rts(ibv_qp* qp, const Path& path, device::Transport transport);
// Takes a raw packet queue pair on this port to RTS.
Status raw_to_rts(ibv_qp* qp, uint8_t port);
// Changes the state and no other attribute. The error of ibv_modify_qp(3).
Status to_state(ibv_qp* qp, ibv_qp_state state);

}  // namespace kilim::mlx5
