// SPDX-License-Identifier: BSD-3-Clause
// Memory that EAL does not know: how a range of this process's address space falls into mappings of
// one page size, as the kernel tells it. Set-up only, any thread; reads /proc.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/mem/range.hh"

namespace kilim::mem {

// In order of address; the pieces together are exactly `memory`. EFAULT: not mapped throughout.
[[nodiscard]] Result<std::vector<Range>> user_runs(std::span<std::byte> memory);

}  // namespace kilim::mem
