// SPDX-License-Identifier: BSD-3-Clause
// What a pool that watches its buffers finds, and how it says so (PoolConfig::debug). Plain values.
// Who is told may be any thread that allocates or frees; it does not call the pool.
#pragma once

#include <cstdint>

namespace kilim::inline v1::pool {

// A misuse of a buffer.
struct PoolFault {
  enum class Kind : uint8_t {
    double_free,        // freed while nobody held it
    foreign_free,       // freed into a pool that it is none of
    written_when_free,  // changed between its free and the next allocation
    leak,               // held when the pool was destroyed
  };
  Kind kind;
  uint32_t index;        // of the buffer; of a leak, the lowest of those with the same holder
  uint32_t buffers;      // of a leak: how many have that holder; else 1
  const char* sentence;  // names pool, buffer, lcores and functions; valid during the call
};

// Faults are told one by one, up to 32 and all leaks; the rest is counted (Pool::faults).
struct PoolDebug {
  bool on = false;
  void (*report)(void* context,
                 const PoolFault& fault) = nullptr;  // nullptr: to stderr, a line each
  void* context = nullptr;
};

}  // namespace kilim::inline v1::pool
