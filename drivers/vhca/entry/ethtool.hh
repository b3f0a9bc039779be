// SPDX-License-Identifier: BSD-3-Clause
// The statistics of a port's network interface, as ethtool(8) and DPDK's mlx5 driver ask for them
// (SIOCETHTOOL): the names that mlx5's kernel driver has, and what this process's adapter has
// carried and lost. The kernel's own interface, a TAP as a rule, has none. Any thread.
#pragma once

#include <optional>
#include <string_view>

namespace kilim::vhca::entry::ethtool {

// Nothing: another command than those of statistics, or another interface than a port's. A negative
// errno is an error.
std::optional<int> answer(std::string_view interface, void* data) noexcept;

}  // namespace kilim::vhca::entry::ethtool
