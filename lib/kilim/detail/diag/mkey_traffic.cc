// SPDX-License-Identifier: BSD-3-Clause
// Applies the rules of the virtual device's linter to what a process can know: uses of local
// memory. What peers do with a key is not seen here.
#include "kilim/detail/diag/mkey_traffic.hh"

namespace kilim::inline v1::diag {

using prm::lint::Rule;

void MkeyTraffic::change(uint32_t key, bool frees, Place at, prm::lint::Findings& f) {
  const std::lock_guard guard{mutex_};
  const uint32_t index = key >> 8;
  for (auto u = uses_.lower_bound({index, 0}); u != uses_.end() && u->first.first == index; ++u) {
    if (u->first.second == at.qpn) continue;
    f.add(Rule::key_in_flight, key, u->second, u->first.second);
    break;
  }
  changes_[index] = {at, key, frees};
}

void MkeyTraffic::use(uint32_t key, Place at, prm::lint::Findings& f) {
  const std::lock_guard guard{mutex_};
  const uint32_t index = key >> 8;
  if (const auto c = changes_.find(index); c != changes_.end()) {
    const Change& change = c->second;
    // A WQE that names the key by its old tag need not wait: it gets the old memory, or an error.
    if (change.at.qpn != at.qpn && change.key == key && !change.frees)
      f.add(Rule::early_key, key, change.at.wqe, change.at.qpn);
  }
  uses_[{index, at.qpn}] = at.wqe;
}

void MkeyTraffic::ended(uint32_t qpn, uint16_t until) {
  const std::lock_guard guard{mutex_};
  std::erase_if(changes_, [=](const auto& c) {
    return c.second.at.qpn == qpn && lies_before(c.second.at.wqe, until);
  });
  std::erase_if(
      uses_, [=](const auto& u) { return u.first.second == qpn && lies_before(u.second, until); });
}

void MkeyTraffic::forget(uint32_t qpn) {
  const std::lock_guard guard{mutex_};
  std::erase_if(changes_, [=](const auto& c) { return c.second.at.qpn == qpn; });
  std::erase_if(uses_, [=](const auto& u) { return u.first.second == qpn; });
}

}  // namespace kilim::inline v1::diag
