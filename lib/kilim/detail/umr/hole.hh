// SPDX-License-Identifier: BSD-3-Clause
// A hole in a list of pieces: bytes that read as zeros and keep nothing of what is written. Pure
// values, any thread; owns nothing, and never looks at the key.
#pragma once

#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/umr/view.hh"

namespace kilim::inline v1::umr {

// `null_key` is the null region's (ibv_alloc_null_mr(3)), of any open of the adapter: its address
// says nothing. Lengths as of any piece: 1 to 2 GiB, in a list and in an SGE alike.
[[nodiscard]] constexpr Piece hole(Lkey null_key, uint32_t bytes) noexcept {
  return {0, bytes, null_key};
}

}  // namespace kilim::inline v1::umr
