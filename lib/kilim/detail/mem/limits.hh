// SPDX-License-Identifier: BSD-3-Clause
// Sentences that say why the machine gave no memory: the limit's name, its value, and how to raise
// it. For locked memory and huge pages. Set-up only; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace kilim::inline v1::mem {

// Writes to `out` why `bytes` more could not be pinned (RLIMIT_MEMLOCK, getrlimit(2)); cut where
// `out` ends and terminated by 0.
void explain_lock_limit(uint64_t bytes, std::span<char> out) noexcept;
// A sentence for the errno `code` of making a queue, whose rings are pinned too: about locked
// memory for ENOMEM and EPERM, else `otherwise`. Static storage.
const char* explain_queue(int code, const char* otherwise) noexcept;

// Counts of huge pages of one size (/sys/kernel/mm/hugepages).
struct HugePages {
  bool known = false;  // the kernel offers the size
  uint64_t total = 0;
  uint64_t free = 0;  // not in use, and not reserved for a mapping (resv_hugepages)
};
HugePages huge_pages(uint64_t page_bytes) noexcept;

// Writes to `out` why `bytes` got no huge pages of `page_bytes`; cut where `out` ends and
// terminated by 0.
void explain_huge_pages(uint64_t page_bytes, uint64_t bytes, std::span<char> out) noexcept;

}  // namespace kilim::inline v1::mem
