// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/flow/filter.hh"

#include <algorithm>
#include <cerrno>

namespace kilim::inline v1::flow {
namespace {

constexpr uint16_t last_vlan = 4095;
constexpr MacAddress everyone{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr MacAddress nobody{};
constexpr MacAddress group_bit{1, 0, 0, 0, 0, 0};

}  // namespace

RuleError check(const Filter& f) noexcept {
  if (f.macs.size() > max_filter_macs)
    return {ENOSPC, Field::filter_macs, "a port takes 128 more addresses at most"};
  if (std::find(f.macs.begin(), f.macs.end(), nobody) != f.macs.end())
    return {EINVAL, Field::filter_macs, "00:00:00:00:00:00 is nobody's address"};
  if (f.vlans.size() > max_filter_vlans)
    return {ENOSPC, Field::filter_vlans, "a port filters by 128 VLANs at most"};
  if (std::any_of(f.vlans.begin(), f.vlans.end(), [](uint16_t v) { return v > last_vlan; }))
    return {EINVAL, Field::filter_vlans, "a VLAN has a number of 0 to 4095"};
  return {};
}

std::vector<Match> matches_of(const Filter& f, const MacAddress& own) {
  if (f.promiscuous) return {Match{}};
  std::vector<Masked<MacAddress>> destinations{exactly(own)};
  auto add = [&destinations](const Masked<MacAddress>& d) {
    if (std::find(destinations.begin(), destinations.end(), d) == destinations.end())
      destinations.push_back(d);
  };
  if (f.all_multicast)
    add({group_bit, group_bit});  // broadcast too
  else
    add(exactly(everyone));
  for (const MacAddress& mac : f.macs)
    if (!f.all_multicast || (mac[0] & 1) == 0) add(exactly(mac));
  std::vector<Match> matches;
  for (const Masked<MacAddress>& d : destinations) {
    Match m;
    m.eth = Eth{.dst = d, .src = {}, .type = {}};
    if (f.vlans.empty()) matches.push_back(m);
    for (const uint16_t v : f.vlans) {
      m.vlan = Vlan{.tci = {v, last_vlan}};
      matches.push_back(m);
    }
  }
  return matches;
}

}  // namespace kilim::inline v1::flow
