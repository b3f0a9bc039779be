// SPDX-License-Identifier: BSD-3-Clause
// The mkey pools and binders of this process, for telemetry and for reports. Any thread, also while
// workers bind keys; locks, so never in a burst. What is shown stays for the call alone; one that
// is being destroyed waits.
#pragma once

#include "kilim/detail/base/roster.hh"

namespace kilim::inline v1::mkey {

class MkeyBinder;
class MkeyPool;

// For size(), limit() and available().
void walk_mkey_pools(Visit<const MkeyPool> see);
// For counters().
void walk_binders(Visit<const MkeyBinder> see);

}  // namespace kilim::inline v1::mkey
