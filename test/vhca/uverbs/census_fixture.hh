// SPDX-License-Identifier: BSD-3-Clause
// For tests: how many objects of each kind an adapter has. What is left when a client's open has
// ended is a leak, of a refused command most of all, which no handle remembers. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/hca.hh"

namespace kilim::test {

struct Counted {
  std::string_view what;
  std::size_t count;
};

using Census = std::array<Counted, 25>;

inline std::size_t uar_pages(const vhca::hca::Hca& h) {
  std::size_t n = 0;
  for (uint32_t i = 1; i <= vhca::hca::UarSet::max_pages; i++) n += h.uars.at(i) != nullptr;
  return n;
}
inline std::size_t rules(const vhca::hca::Hca& h) {
  std::size_t n = 0;
  for (const vhca::ethernet::EthPort& port : h.eth.ports)
    n += port.steering.count() + port.egress.count();
  return n;
}

inline Census census(const vhca::hca::Hca& h) {
  const vhca::ethernet::SoftSteering* soft = h.eth.soft.get();
  const auto of_soft = [&](auto member) { return soft == nullptr ? 0 : (soft->*member).count(); };
  return {{
      {"protection domains", h.pds.count()},
      {"completion queues", h.cqs.count()},
      {"queue pairs", h.qps.count()},
      {"shared receive queues", h.srqs.count()},
      {"XRC domains", h.xrcds.count()},
      {"receive queues", h.rqs.count()},
      {"tables of receive queues", h.rqts.count()},
      {"TIRs", h.tirs.count()},
      {"TISes", h.tises.count()},
      {"TISes that send queues hold", h.sq_tis.size()},
      {"transport domains", h.domains.count()},
      {"address mappings", h.mappings.count()},
      {"counters of queues", h.q_counters.count()},
      {"counters of flows", h.flow_counters.count()},
      {"memory keys", h.keys.count()},
      {"signature domains", h.keys.psvs().count()},
      {"encryption keys", h.keys.deks().count()},
      {"flow tables", of_soft(&vhca::ethernet::SoftSteering::tables)},
      {"samplers", of_soft(&vhca::ethernet::SoftSteering::samplers)},
      {"reformats", of_soft(&vhca::ethernet::SoftSteering::reformats)},
      {"doorbell pages", uar_pages(h)},
      {"queues whose events wait", h.moderated.size()},
      {"sinks", h.sinks.size()},
      {"rules", rules(h)},
      {"rules of what leaves", h.eth.egress_rules},
  }};
}

// Says which kinds have become more, or fewer. Whether all are as they were.
inline bool same_census(const Census& before, const Census& after) {
  bool same = true;
  for (std::size_t i = 0; i < before.size(); i++) {
    if (before[i].count == after[i].count) continue;
    std::fprintf(stderr, "left: %.*s: %zu, before the open %zu\n",
                 static_cast<int>(before[i].what.size()), before[i].what.data(), after[i].count,
                 before[i].count);
    same = false;
  }
  return same;
}

}  // namespace kilim::test
