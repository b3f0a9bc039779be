// SPDX-License-Identifier: BSD-3-Clause
// Groups: cma.c, cma_iboe_join_multicast(), cma_iboe_set_mgid(); ucma.c, ucma_process_join(). There
// is no membership to ask anybody for: the library attaches its queue pair when it hears of it. All
// locks held.
#include <algorithm>
#include <cerrno>

#include "vhca/core/refusal.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

constexpr uint16_t roce_mlid = 0xc000;  // cma_iboe_join_multicast(): no switch looks at it
constexpr uint32_t all_of_a_group = 0xffffff;
constexpr uint32_t most_groups = 0x10000;
constexpr int not_supported = 524;  // ENOTSUPP of the kernel, include/linux/errno.h

Event event_of(Id& id, Multicast& group) {
  Event event;
  event.id = &id;
  event.multicast = &group;
  event.resp.uid = group.uid;
  event.resp.id = group.number;
  event.resp.event = static_cast<uint32_t>(EventType::multicast_join);
  rdma_ucm_ud_param& ud = event.resp.param.ud;
  cm::Route route = route_of(id);
  route.dgid = gid_of(group.address);
  ud.ah_attr = ah_of(id, route, gid_index_of(id.adapter->hca, id.sgid));
  ud.ah_attr.dlid = roce_mlid;
  ud.qp_num = all_of_a_group;
  ud.qkey = udp_qkey;
  return event;
}

}  // namespace

int join(State& s, Id& id, const sockaddr_storage& address, uint64_t uid, uint32_t& number) {
  if (id.stage != Stage::addr_bound && id.stage != Stage::addr_resolved)
    return refusal::text(
        EINVAL, "the id is not bound: rdma_bind_addr() or rdma_resolve_addr() comes first");
  if (!id.is_datagram() || is_zero(address))
    return refusal::text(EINVAL,
                         "only ids of RDMA_PS_UDP join groups, of an address that is not 0");
  // RoCE v2 has groups of IPv4 alone: cma_iboe_join_multicast().
  if (address.ss_family != AF_INET)
    return refusal::text(not_supported, "only groups of IPv4 are joined on RoCE v2");
  number = 0;
  for (const auto& group : s.groups) {
    if (group.first != number) break;
    number++;
  }
  if (number == most_groups) return refusal::full("the group");
  Multicast& group = id.groups.emplace_back();
  group.number = number;
  group.id = &id;
  group.uid = uid;
  group.address = address;
  s.groups.emplace(number, &group);
  if (id.uid != 0) post(event_of(id, group));
  return 0;
}

int leave(State& s, File& file, uint32_t number, uint32_t& events_reported) {
  const auto at = s.groups.find(number);
  if (at == s.groups.end()) return refusal::absent("the membership", number, ENOENT);
  Multicast& group = *at->second;
  Id& id = *group.id;
  if (id.file != &file) return refusal::absent("the membership", number);
  events_reported = group.events_reported;
  std::erase_if(file.events, [&](const Event& e) { return e.multicast == &group; });
  s.groups.erase(at);
  id.groups.remove_if([&](const Multicast& m) { return &m == &group; });
  return 0;
}

}  // namespace kilim::vhca::rdmacm
