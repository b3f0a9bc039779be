// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/diag/audit.hh"

#include <algorithm>

namespace kilim::inline v1::diag {

MkeyAudit audit(const mkey::Mkey& k) noexcept {
  return {.key = k.lkey,
          .lcore = k.lcore,
          .binds = k.binds,
          .uses = k.uses,
          .invalidations = k.invalidations,
          .faults = k.faults};
}

std::vector<MkeyAudit> audit(mkey::MkeyPool& pool) {
  std::vector<MkeyAudit> all;
  for (uint32_t i = 0; i < pool.size(); i++)
    if (const mkey::Mkey& k = pool.at(i); k.binds != 0) all.push_back(audit(k));
  return all;
}

std::vector<MkeyAudit> audit_by_lcore(mkey::MkeyPool& pool) {
  std::vector<MkeyAudit> sums;
  for (const MkeyAudit& k : audit(pool)) {
    const auto at = std::find_if(sums.begin(), sums.end(),
                                 [&k](const MkeyAudit& s) { return s.lcore == k.lcore; });
    if (at == sums.end()) {
      sums.push_back(k);
      continue;
    }
    at->keys++;
    at->binds += k.binds;
    at->uses += k.uses;
    at->invalidations += k.invalidations;
    at->faults += k.faults;
  }
  return sums;
}

void put_audit(prm::Text& t, const MkeyAudit& s) noexcept {
  t.put("lcore ").dec(s.lcore).put(": ").dec(s.keys).put(" keys, ").dec(s.binds).put(" binds, ");
  t.dec(s.uses).put(" uses, ").dec(s.invalidations).put(" invalidations, ");
  t.dec(s.faults).put(" faults");
}

}  // namespace kilim::inline v1::diag
