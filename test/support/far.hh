// SPDX-License-Identifier: BSD-3-Clause
// Where a test maps what it takes pages out of: far from where the kernel, the allocator and the
// sanitizers put mappings of their own accord, so that nobody else comes to lie in the hole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kilim::test {

// A hint for mmap(), another one each time. Between the program and the libraries in the address
// space of x86-64; AddressSanitizer and ThreadSanitizer count it as the program's.
inline void* far_from_all(std::size_t bytes) {
  static std::atomic<std::uintptr_t> next{0x5660'0000'0000};
  constexpr std::uintptr_t gap = 2u << 20;
  return reinterpret_cast<void*>(next.fetch_add((bytes + 2 * gap - 1) / gap * gap));
}

}  // namespace kilim::test
