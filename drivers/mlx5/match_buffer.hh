// SPDX-License-Identifier: BSD-3-Clause
// MatchBuffers: what a flow rule looks at, as mlx5dv_create_flow_matcher(3) and
// mlx5dv_create_flow(3) take it: value and mask in the device's format. Values; one thread, control
// path only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <infiniband/mlx5dv.h>

#include "kilim/detail/flow/match.hh"
#include "kilim/prm/match_param.hh"

namespace kilim::mlx5 {

// A mlx5dv_flow_match_parameters of a fixed size.
struct MatchBuffer {
  std::size_t size = prm::match_param::bytes;  // up to the last set that is looked at
  alignas(8) std::array<std::byte, prm::match_param::bytes_misc3> headers{};

  mlx5dv_flow_match_parameters* get() noexcept {
    return reinterpret_cast<mlx5dv_flow_match_parameters*>(this);
  }
};
static_assert(sizeof(MatchBuffer) ==
                  sizeof(mlx5dv_flow_match_parameters) + prm::match_param::bytes_misc3 &&
              offsetof(MatchBuffer, headers) == offsetof(mlx5dv_flow_match_parameters, match_buf));

// Whether a match asks for what verbs' specs (mlx5/flow_specs.hh) have no words for: the lack of a
// tag, or one of whatever number; times to live, fragments, flags of TCP, ICMP's and ESP's headers,
// protocol and bits of GRE, and Ethernet headers inside a tunnel.
bool needs_buffers(const flow::Match& match) noexcept;

struct MatchBuffers {
  explicit MatchBuffers(const flow::Match& match) noexcept;

  MatchBuffer value, mask;
  uint8_t criteria = 0;  // match_criteria_enable: which sets of headers the mask looks at
};

}  // namespace kilim::mlx5
