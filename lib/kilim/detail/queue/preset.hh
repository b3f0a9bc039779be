// SPDX-License-Identifier: BSD-3-Clause
// Presets the CQEs of a new completion queue. libmlx5 presets the opcode "invalid" with owner bit
// 0, which is also the bit of the first pass, so a poll has to check the opcode too. With owner bit
// 1 the bit alone tells that the CQE is not written. Control path, before the first queue pair that
// completes there is made.
#pragma once

#include <cstddef>

#include "kilim/detail/queue/geometry.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::queue {

// Writes the last byte of every CQE of the ring.
inline void preset(const CqGeometry& cq) noexcept {
  const std::size_t size = cq.cqe_bytes;
  std::byte* op_own = cq.buf + (size - sizeof(prm::Cqe)) + offsetof(prm::Cqe, op_own);
  for (std::size_t i = 0; i < cq.cqe_count; i++)
    op_own[i * size] = std::byte{prm::cqe::invalid_op_own | prm::cqe::owner_bit};
}

}  // namespace kilim::inline v1::queue
