// SPDX-License-Identifier: BSD-3-Clause
// What an on-demand region must be able to do for queue pairs of given types, in the words of the
// device's ODP capabilities (ibv_query_device_ex(3), odp_caps). Pure functions: any thread.
#pragma once

#include <cstdint>
#include <vector>

#include <infiniband/verbs.h>

#include "kilim/detail/mr/odp_caps.hh"

namespace kilim::compat {

// The operations on a region of a queue pair of this type. `shared`: it receives from a shared
// receive queue.
mr::OdpUse odp_use_of(ibv_qp_type type, bool shared);

// One use for each type of the set: bits 1 << ibv_qp_type.
std::vector<mr::OdpUse> odp_uses_of(uint32_t types);

// True: the set is not empty and names known types only.
bool known_qp_types(uint32_t types) noexcept;

}  // namespace kilim::compat
