// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ATTACH_TO_MCG", "DETACH_FROM_MCG". Which datagram queues hear of which multicast group.
// Adapter's lock held.
#pragma once

#include <vector>

#include "vhca/wq/qp.hh"

namespace kilim::vhca {

struct GroupMember {
  Gid gid;
  Qp* qp;
};

using Groups = std::vector<GroupMember>;

// Joining twice counts once for each queue. ENOMEM: there are `most` members.
int join_group(Groups&, std::size_t most, Qp&, const Gid&);
// EINVAL: not a member.
int leave_group(Groups&, Qp&, const Gid&);

// All of them: its client is gone.
void leave_groups(Groups&, Qp&);

}  // namespace kilim::vhca
