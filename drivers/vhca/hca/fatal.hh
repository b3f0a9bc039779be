// SPDX-License-Identifier: BSD-3-Clause
// An adapter that dies: as a card whose firmware is gone, under a driver in its internal error
// state. Adapter's lock held.
#pragma once

#include <cstdint>

namespace kilim::vhca::hca {

struct Hca;

// Every queue to error, and the event to everybody; nothing is executed any more.
void die(Hca&);
// Whether mlx5_core answers a firmware command as if a dead card had carried it out: of those that
// this device knows, the ones that Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c,
// mlx5_internal_err_ret_value() lists above MLX5_CMD_STAT_OK. They undo something.
bool done_by_the_dead(uint16_t opcode) noexcept;

}  // namespace kilim::vhca::hca
