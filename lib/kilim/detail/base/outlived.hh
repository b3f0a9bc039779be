// SPDX-License-Identifier: BSD-3-Clause
// Objects in EAL's memory must be destroyed before rte_eal_cleanup(), which unmaps that memory. The
// local objects of a main() that calls it in its last line are destroyed later, so destructors ask
// here before they touch their memory. Any thread. A system call: for destructors of objects that
// are made at set-up only.
#pragma once

#include "kilim/detail/base/cold.hh"

namespace kilim::inline v1 {

// True: there is memory at the address. Says nothing.
[[nodiscard]] bool is_mapped(const void* at) noexcept;

// True: the memory at `at`, which was EAL's, is no longer mapped; a line on stderr says that `what`
// outlived it. The caller then returns nothing to EAL, and leaks.
[[nodiscard]] KILIM_COLD bool outlived_eal(const void* at, const char* what) noexcept;

}  // namespace kilim::inline v1
