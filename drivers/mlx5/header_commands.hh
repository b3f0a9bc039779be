// SPDX-License-Identifier: BSD-3-Clause
// HeaderCommands: changes of a frame's headers as mlx5dv_create_flow_action_modify_header(3) takes
// them. A value that mlx5/buffer_rule.cc fills for one rule; control path, never touches a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/detail/flow/match.hh"
#include "kilim/detail/flow/rewrite.hh"

namespace kilim::mlx5 {

class HeaderCommands {
 public:
  // At most flow::longest_rewrite times. `match` says which IP version and protocol a header is of.
  void add(const flow::Rewrite& change, const flow::Match& match) noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return used_ * sizeof(uint64_t); }
  uint64_t* words() noexcept { return words_.data(); }

 private:
  // The longest header, an IPv6 address, has four.
  static constexpr std::size_t most = flow::longest_rewrite * 4;
  std::array<uint64_t, most> words_{};
  std::size_t used_ = 0;
};

}  // namespace kilim::mlx5
