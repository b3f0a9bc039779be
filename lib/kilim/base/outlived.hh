// SPDX-License-Identifier: BSD-3-Clause
// Objects that live in EAL's memory are destroyed before rte_eal_cleanup(), which unmaps it. Locals
// of a main() that cleans up in its last line are not: their destructors ask here first. Any
// thread; a system call, so for destructors of set-up only.
#pragma once

namespace kilim {

// Whether the memory at `at`, EAL's once, has gone; then says on stderr what outlived it. Whoever
// gets true gives nothing back: there is nobody to take it.
[[nodiscard]] bool outlived_eal(const void* at, const char* what) noexcept
    __asm__("kilim_cold_outlived_eal");

}  // namespace kilim
