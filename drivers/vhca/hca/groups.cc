// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ATTACH_TO_MCG", "DETACH_FROM_MCG". Adapter's lock held.
#include "vhca/hca/groups.hh"

#include <algorithm>
#include <cerrno>

namespace kilim::vhca {

namespace {

auto place_of(HcaState& h, const Qp& qp, const Gid& gid) {
  return std::find_if(h.groups.begin(), h.groups.end(),
                      [&](const GroupMember& m) { return m.qp == &qp && m.gid == gid; });
}

}  // namespace

int join_group(HcaState& h, Qp& qp, const Gid& gid) {
  constexpr uint8_t multicast = 0xff;
  if (qp.type != QpType::ud || gid[0] != multicast) return -EINVAL;
  if (place_of(h, qp, gid) != h.groups.end()) return 0;
  if (h.groups.size() >= h.config.profile.max_group_members) return -ENOMEM;
  h.groups.push_back({gid, &qp});
  qp.groups++;
  return 0;
}

int leave_group(HcaState& h, Qp& qp, const Gid& gid) {
  auto at = place_of(h, qp, gid);
  if (at == h.groups.end()) return -EINVAL;
  h.groups.erase(at);
  qp.groups--;
  return 0;
}

void leave_groups(HcaState& h, Qp& qp) {
  std::erase_if(h.groups, [&](const GroupMember& m) { return m.qp == &qp; });
  qp.groups = 0;
}

}  // namespace kilim::vhca
