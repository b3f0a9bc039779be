// SPDX-License-Identifier: BSD-3-Clause
// Whether a range of this process is mapped and may be read, or written: what pinning tells the
// kernel. Any thread. Changes nothing but that pages become present.
#pragma once

#include <cstdint>

#include "kilim/detail/base/ident.hh"

namespace kilim::vhca::memory {

// 0; -EFAULT: not mapped or not allowed; -EINVAL: wraps around the end of the address space.
int probe_range(Va start, uint64_t bytes, bool write) noexcept;

}  // namespace kilim::vhca::memory
