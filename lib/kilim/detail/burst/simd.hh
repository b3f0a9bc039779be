// SPDX-License-Identifier: BSD-3-Clause
// Which vector instructions the bursts of a queue use. Pure values, any thread; widest_simd() is
// for set-up.
#pragma once

#include "kilim/detail/base/simd.hh"

namespace kilim::inline v1::burst {

using kilim::Simd;

// The widest that this processor has and EAL allows (--force-max-simd-bitwidth).
Simd widest_simd() noexcept;

}  // namespace kilim::inline v1::burst
