// SPDX-License-Identifier: BSD-3-Clause
// Address space that is kept back for the moment when the process has no memory left: a call of the
// device or of the library's set-up that is under way then ends as it began, and the next one that
// would make something is answered ENOMEM (doc/decisions/0087-memory-for-the-call-under-way.md,
// 0113). Owner: the process. Any thread. Never touches its pages; of the client's own allocations
// it knows nothing.
#pragma once

#include <cerrno>

#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::memory_reserve {

// Every allocation by `new` that comes here is the device's: its library has a C++ runtime of its
// own (the launcher's has). Otherwise only those within a Scope are.
void serve_everybody() noexcept;

// Makes the reserve whole, and has the C++ runtime ask for it. Before a call that makes something,
// without need for a lock. False: the process has no memory, so nothing should be made.
bool fill() noexcept;
// What the last fill() answered; false too if some was used since.
[[nodiscard]] bool whole() noexcept;
// Nothing is left: the next allocation that fails ends the process.
[[nodiscard]] bool exhausted() noexcept;
// Whether so much could be had at once; and what the set-up of an adapter takes, its thread's stack
// and a heap of the C library among it, with room to spare.
inline constexpr unsigned long adapter_bytes = 16 << 20;
bool has_room(unsigned long bytes) noexcept;

// While one lives, the thread's allocations are the device's.
class Scope {
 public:
  Scope() noexcept { depth++; }
  ~Scope() { depth--; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  [[nodiscard]] static bool here() noexcept { return depth != 0; }

 private:
  static thread_local unsigned depth;
};

// A call that makes something, from here to the end of its block. False: the process has no memory,
// and nothing is made. Such calls call each other.
class Making {
 public:
  Making() noexcept : ok_(Scope::here() || fill()) {}
  explicit operator bool() const noexcept { return ok_; }
  static Error error() noexcept { return {ENOMEM, "the process has no memory left for this"}; }

 private:
  bool ok_;
  Scope scope_;
};

}  // namespace kilim::inline v1::memory_reserve
