// SPDX-License-Identifier: BSD-3-Clause
// Which flags a client may create a queue pair with, and what they make of it: the verbs' flags and
// those of mlx5's own part. Adapter's lock held. Pure, never allocates.
#pragma once

#include <cstdint>

#include <rdma/mlx5-abi.h>

#include "vhca/core/profile.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::uverbs {

// What the decision depends on beside the flags themselves.
struct QpWishes {
  uint32_t create_flags = 0;  // IB_UVERBS_QP_CREATE_*
  uint32_t driver_flags = 0;  // MLX5_QP_FLAG_*
  bool all_signaled = false;
  uint32_t send_cqe_bytes = 0;  // 0: no such completion queue
  uint32_t recv_cqe_bytes = 0;
};

// Sets the fields of `spec` that flags decide; its type is set already. 0, -EINVAL (mlx5's part) or
// -EOPNOTSUPP (the verbs' flags), as mlx5_ib answers.
int apply_flags(const QpWishes&, const Profile&, QpSpec& spec) noexcept;

}  // namespace kilim::vhca::uverbs
