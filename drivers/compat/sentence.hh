// SPDX-License-Identifier: BSD-3-Clause
// Errors of the C interface: errno, and a sentence that is valid until the thread's next call. Any
// thread.
#pragma once

namespace kilim::compat {

// Called at the start of each function: clears the sentence.
void begin() noexcept;

// Sets errno and the sentence, which has static storage; returns `code`.
int fail(int code, const char* sentence) noexcept;

// Sets errno and the sentence for a call that failed with `code` for this memory; if the memory
// belongs to another device, the error is EOPNOTSUPP.
int fail_over(const void* memory, int code, const char* sentence) noexcept;

}  // namespace kilim::compat
