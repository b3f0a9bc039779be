// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ATTACH_TO_MCG", "DETACH_FROM_MCG". Which datagram queues hear of which multicast group.
// Adapter's lock held.
#pragma once

#include "vhca/hca/state.hh"

namespace kilim::vhca {

// Joining twice counts once for each queue.
int join_group(HcaState&, Qp&, const Gid&);
// EINVAL: not a member.
int leave_group(HcaState&, Qp&, const Gid&);

// All of them: its client is gone.
void leave_groups(HcaState&, Qp&);

}  // namespace kilim::vhca
