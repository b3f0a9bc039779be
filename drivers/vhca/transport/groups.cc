// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ATTACH_TO_MCG", "DETACH_FROM_MCG". Adapter's lock held.
#include "vhca/transport/groups.hh"

#include <algorithm>
#include <cerrno>

#include "vhca/core/address.hh"

namespace kilim::vhca::transport {

namespace {

auto place_of(Groups& groups, const wq::Qp& qp, const Gid& gid) {
  return std::find_if(groups.begin(), groups.end(),
                      [&](const GroupMember& m) { return m.qp == &qp && m.gid == gid; });
}

}  // namespace

int join_group(Groups& groups, GroupLimits most, wq::Qp& qp, const Gid& gid) {
  if (qp.type != QpType::ud || !is_group_gid(gid)) return -EINVAL;
  if (place_of(groups, qp, gid) != groups.end()) return 0;
  const auto members = static_cast<std::size_t>(std::count_if(
      groups.begin(), groups.end(), [&](const GroupMember& m) { return m.gid == gid; }));
  if (members >= most.members || groups.size() >= most.groups) return -ENOMEM;
  groups.push_back({gid, &qp});
  qp.groups++;
  return 0;
}

int leave_group(Groups& groups, wq::Qp& qp, const Gid& gid) {
  auto at = place_of(groups, qp, gid);
  if (at == groups.end()) return -EINVAL;
  groups.erase(at);
  qp.groups--;
  return 0;
}

void leave_groups(Groups& groups, wq::Qp& qp) {
  std::erase_if(groups, [&](const GroupMember& m) { return m.qp == &qp; });
  qp.groups = 0;
}

}  // namespace kilim::vhca::transport
