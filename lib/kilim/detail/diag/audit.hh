// SPDX-License-Identifier: BSD-3-Clause
// Statistics of a pool's mkeys since it was made, by key and by the lcore of the last binder:
// binds, handles returned, invalidations, faults. Called while no worker uses the keys; allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "kilim/detail/mkey/mkey_pool.hh"
#include "kilim/prm/text.hh"

namespace kilim::inline v1::diag {

// Counts of one key, or of all keys of an lcore.
struct MkeyAudit {
  Lkey key;  // without meaning in a sum
  uint32_t lcore = 0;
  uint32_t keys = 1;
  uint64_t binds = 0;
  uint64_t uses = 0;  // handles that bindings returned
  uint64_t invalidations = 0;
  uint64_t faults = 0;  // WQEs about the key that failed or were flushed
};

// The counts of one key.
MkeyAudit audit(const mkey::Mkey& key) noexcept;
// A row for each key that was ever bound.
std::vector<MkeyAudit> audit(mkey::MkeyPool& pool);
// Their sums by lcore.
std::vector<MkeyAudit> audit_by_lcore(mkey::MkeyPool& pool);
// Writes a sum as a line for people.
void put_audit(prm::Text& text, const MkeyAudit& sum) noexcept;

}  // namespace kilim::inline v1::diag
