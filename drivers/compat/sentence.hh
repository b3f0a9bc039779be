// SPDX-License-Identifier: BSD-3-Clause
// What a C function of this room answers when it fails: errno, and a sentence that stands until the
// thread's next call. Any thread.
#pragma once

namespace kilim::compat {

// At the start of each call: no sentence of an earlier one stands.
void begin() noexcept;

// Sets both and returns `code`.
int fail(int code, const char* sentence) noexcept;

// The same for a call of the system or the adapter that failed with `code` over this memory; memory
// that belongs to another device becomes EOPNOTSUPP.
int fail_over(const void* memory, int code, const char* sentence) noexcept;

}  // namespace kilim::compat
