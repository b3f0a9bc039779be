// SPDX-License-Identifier: BSD-3-Clause
// Numbers of events as firmware has them: PRM "Event Queue Entry", Linux
// include/linux/mlx5/device.h (enum mlx5_event). Pure values.
#pragma once

#include <cstdint>

namespace kilim::vhca::uverbs::devx_event {

inline constexpr uint8_t completion = 0x00, cq_error = 0x04;

// Of an IB_EVENT_* number (verbs enum ibv_event_type); 0: it has none.
constexpr uint8_t of(uint32_t ib_event) noexcept {
  struct Row {
    uint8_t ib, number;
  };
  constexpr Row rows[] = {
      {0, cq_error}, {1, 0x05},  // QP_FATAL: local work queue catastrophic error
      {2, 0x10},                 // QP_REQ_ERR: invalid request local work queue error
      {3, 0x11},                 // QP_ACCESS_ERR: local access violation
      {4, 0x01},                 // COMM_EST
      {5, 0x03},                 // SQ_DRAINED
      {14, 0x12},                // SRQ_ERR
      {15, 0x14},                // SRQ_LIMIT_REACHED
      {16, 0x13},                // QP_LAST_WQE_REACHED
  };
  for (const Row& row : rows) {
    if (row.ib == ib_event) return row.number;
  }
  return 0;
}

}  // namespace kilim::vhca::uverbs::devx_event
