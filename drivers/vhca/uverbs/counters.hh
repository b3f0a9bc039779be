// SPDX-License-Identifier: BSD-3-Clause
// Counters of steering rules (ibv_counters). Adapter's lock held.
#pragma once

#include "vhca/uverbs/client_buffer.hh"
#include "vhca/uverbs/objects.hh"

namespace kilim::vhca::uverbs {

// A rule uses them: the driver's part of its request says which value stands where. 0 or a negative
// errno.
int bind_counters(CountersObject&, const InBuffer& driver_in);

}  // namespace kilim::vhca::uverbs
