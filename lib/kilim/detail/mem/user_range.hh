// SPDX-License-Identifier: BSD-3-Clause
// Page sizes of memory that EAL does not know, as the kernel reports them. Set-up only; any thread.
// Reads /proc/self/smaps (proc(5)).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/mem/range.hh"

namespace kilim::inline v1::mem {

// Cuts `memory` where its page size changes; the ranges together are exactly `memory`, in the order
// of addresses. EFAULT: not all of it is mapped, or it is empty; or the errno of opening the file.
[[nodiscard]] Result<std::vector<Range>> user_runs(std::span<std::byte> memory);

}  // namespace kilim::inline v1::mem
