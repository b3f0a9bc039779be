// SPDX-License-Identifier: BSD-3-Clause
// What a C function of this room answers when it fails: errno, and a sentence that stands until the
// thread's next one. Any thread.
#pragma once

namespace kilim::compat {

// Sets both and returns `code`.
int fail(int code, const char* sentence) noexcept;

// The same for a call of the system or the adapter that failed with `code` over this memory; memory
// that belongs to another device becomes EOPNOTSUPP.
int fail_over(const void* memory, int code, const char* sentence) noexcept;

// Whether a line of /proc/self/maps is a mapping of another device's memory: a dma-buf, or a device
// file (PeerDirect). Ordinary files, shared memory and hugepages are not.
bool is_device_mapping(const char* line) noexcept;

}  // namespace kilim::compat
