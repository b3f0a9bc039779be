// SPDX-License-Identifier: BSD-3-Clause
// What clients have stored into doorbell pages, turned into queues with work and armed completion
// queues (doc/decisions/0039-doorbells-by-name.md). Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>

#include "vhca/hca/hca.hh"

namespace kilim::vhca::hca {

// One look at every page with queues: the queues that doorbells name, and others of their pages as
// far as a turn should go. True: records of some page are left to be looked at.
bool check_doorbells(Hca&) noexcept;
// Before a command that follows on what the client has asked for: no record is left.
void check_all_doorbells(Hca&) noexcept;

}  // namespace kilim::vhca::hca
