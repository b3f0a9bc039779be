// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ATTACH_TO_MCG", "DETACH_FROM_MCG". Which datagram queues hear of which multicast group.
// Adapter's lock held.
#pragma once

#include <vector>

#include "vhca/wq/qp.hh"

namespace kilim::vhca::transport {

struct GroupMember {
  Gid gid;
  wq::Qp* qp;
};

using Groups = std::vector<GroupMember>;

// How many groups there may be, and queues of one.
struct GroupLimits {
  std::size_t groups;
  std::size_t members;
};

// Joining twice counts once for each queue. ENOMEM: the group has as many members as it may, or
// there are as many memberships as there may be groups.
int join_group(Groups&, GroupLimits, wq::Qp&, const Gid&);
// EINVAL: not a member.
int leave_group(Groups&, wq::Qp&, const Gid&);

// All of them: its client is gone.
void leave_groups(Groups&, wq::Qp&);

}  // namespace kilim::vhca::transport
