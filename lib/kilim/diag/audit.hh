// SPDX-License-Identifier: BSD-3-Clause
// What became of the keys of a pool since it was made: bound, handed out, invalidated, failed, by
// key and by the lcore whose loom had them last. Looms count as they go; here it is read and summed
// up. While no worker works with the keys; allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "kilim/prm/text.hh"
#include "kilim/umr/key_pool.hh"

namespace kilim::diag {

struct KeyAudit {
  Lkey key;  // of a sum: of no meaning
  uint32_t lcore = 0;
  uint32_t keys = 1;
  uint64_t binds = 0;
  uint64_t uses = 0;  // times that a binding gave its handle out
  uint64_t invalidations = 0;
  uint64_t faults = 0;  // WQEs about the key that failed or were flushed
};

KeyAudit audit(const umr::IndirectKey& key) noexcept;
// Keys that were ever bound, each by itself.
std::vector<KeyAudit> audit(umr::KeyPool& pool);
// Their sums, by lcore.
std::vector<KeyAudit> audit_by_lcore(umr::KeyPool& pool);
// A sum as a line for people.
void put_audit(prm::Text& text, const KeyAudit& sum) noexcept;

}  // namespace kilim::diag
