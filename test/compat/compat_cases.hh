// SPDX-License-Identifier: BSD-3-Clause
// What the files of this test share: cases about relaxed regions, and about
// paging and rights, are in files of their own; contexts
// whose polls run the adapter, as under the launcher. Test code.
#pragma once

#include <span>

#include "../vhca/verbs/fabric_fixture.hh"
#include "ut.hh"
#include "vhca/entry/poll_hook.hh"

namespace kilim::test {

std::span<const Case> relaxed_cases();
std::span<const Case> relaxed_memory_cases();
std::span<const Case> paging_cases();

inline ibv_context* open_hooked(const char* name) {
  return vhca::hook_polls(open_device(name));
}
inline ibv_context* client() {
  static ibv_context* c = vhca::hook_polls(context());
  return c;
}

}  // namespace kilim::test
