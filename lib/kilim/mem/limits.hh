// SPDX-License-Identifier: BSD-3-Clause
// Why the machine gave no memory, in a sentence with the limit's name, its value, and how to raise
// it: locked memory, huge pages. Set-up only, any thread.
#pragma once

#include <cstdint>
#include <span>

namespace kilim::mem {

// `bytes` could not be pinned. Cut where `out` ends; always a whole string.
void explain_lock_limit(uint64_t bytes, std::span<char> out) noexcept;
// The same for a queue, whose rings are pinned too: ENOMEM and EPERM; `otherwise` for the rest.
const char* explain_queue(int code, const char* otherwise) noexcept;

// How many huge pages of a size the machine has, from its sysfs.
struct HugePages {
  bool known = false;  // the kernel offers the size
  uint64_t total = 0;
  uint64_t free = 0;  // and promised to nobody
};
HugePages huge_pages(uint64_t page_bytes) noexcept;

// No pages of `page_bytes` were there for `bytes`.
void explain_huge_pages(uint64_t page_bytes, uint64_t bytes, std::span<char> out) noexcept;

}  // namespace kilim::mem
