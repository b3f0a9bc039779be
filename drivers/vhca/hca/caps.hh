// SPDX-License-Identifier: BSD-3-Clause
// PRM: "HCA Capabilities". The capability groups that QUERY_HCA_CAP returns, made from the profile.
// Pure values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/prm/cmd.hh"
#include "vhca/core/profile.hh"

namespace kilim::vhca::hca {

using CapGroup = std::span<std::byte, prm::cmd::hca_cap_bytes>;

// `group` is zero on entry. False: the manual has no such group. A group whose features are all
// absent stays zero.
bool fill_caps(const Profile& profile, uint16_t group_number, CapGroup group);

}  // namespace kilim::vhca::hca
