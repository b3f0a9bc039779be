// SPDX-License-Identifier: BSD-3-Clause
// What the files of this test share: cases about relaxed regions, and about
// paging and rights, are in files of their own; contexts
// whose polls run the adapter, as under the launcher. Test code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <sys/mman.h>

#include "../vhca/verbs/fabric_fixture.hh"
#include "case_tables.hh"
#include "far.hh"
#include "kilim/ibv_compat.h"
#include "vhca/entry/poll_hook.hh"

namespace kilim::test {

// Of the program's other sources.
std::span<const Case> relaxed_cases();
std::span<const Case> relaxed_life_cases();
std::span<const Case> unreliable_cases();
std::span<const Case> relaxed_memory_cases();
std::span<const Case> paging_cases();

inline ibv_context* open_hooked(const char* name) {
  return vhca::entry::hook_polls(open_device(name));
}
inline ibv_context* client() {
  static ibv_context* c = vhca::entry::hook_polls(context());
  return c;
}

inline constexpr std::size_t page = 4096;

// Untouched memory, far from all that the process has.
struct Pages {
  explicit Pages(std::size_t n)
      : bytes(n * page),
        at(static_cast<uint8_t*>(::mmap(far_from_all(bytes), bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { ::munmap(at, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::size_t bytes;
  uint8_t* at;
};

// Whether the sentence about the last error has these words.
inline bool says(const char* words) {
  return std::string_view{kilim_compat_error()}.find(words) != std::string_view::npos;
}

// Memory with something in it.
struct Filled : Pages {
  explicit Filled(std::size_t n) : Pages(n) { fill(at, bytes, 5); }
};

inline bool refused_with(ibv_mr* mr, int code, const char* words) {
  if (mr != nullptr) return false;
  const int got = errno;
  const std::string_view sentence = kilim_compat_error();
  return got == code && sentence.find(words) != std::string_view::npos;
}

}  // namespace kilim::test
