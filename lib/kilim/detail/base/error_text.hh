// SPDX-License-Identifier: BSD-3-Clause
// An Error whose sentence holds numbers: error_with(EINVAL, "rxq is %u, it must be 1 to 64", rxq).
// Error::what points to storage that lasts as long as the process, so errors stay trivially
// copyable; a text that was said before is not stored again. Owner: the process. Control paths of
// any thread: takes a mutex and formats. Never allocates, never used by a burst (base/outcome.hh).
#pragma once

#include "kilim/detail/base/result.hh"

namespace kilim::inline v1 {

constexpr uint32_t max_error_texts = 256;
constexpr uint32_t max_error_bytes = 192;  // the terminating zero included; a longer text is cut

// What a text is once the process has said max_error_texts different ones.
extern const char* const error_texts_full;

[[nodiscard, gnu::cold, gnu::format(printf, 2, 3)]] Error error_with(int code, const char* format,
                                                                     ...) noexcept;

}  // namespace kilim::inline v1
