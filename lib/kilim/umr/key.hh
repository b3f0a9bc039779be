// SPDX-License-Identifier: BSD-3-Clause
// An indirect key and the state in which its owner knows it to be.
// Owner: one worker at a time, through its stash. Never allocates, blocks or logs.
#pragma once

#include <cstdint>

#include "kilim/base/assert.hh"
#include "kilim/base/ident.hh"

namespace kilim::umr {

enum class KeyState : uint8_t {
  free,          // shows nothing; a UMR may be posted
  posted,        // a UMR is on its way; usable behind it on the same queue only
  valid,         // the UMR has completed; usable anywhere
  invalidating,  // an invalidation is on its way
  poisoned,      // a WQE about it failed: what it shows is not known
};
inline constexpr uint32_t key_states = 5;

// Row: from, column: to, in the order of KeyState.
// clang-format off
inline constexpr bool key_transition[key_states][key_states] = {
    //               free   posted valid  inval. poisoned
    /* free */      {false, true,  false, false, false},
    /* posted */    {false, true,  true,  true,  true},   // changed, used or dropped before its completion
    /* valid */     {false, true,  false, true,  true},   // rewoven without an invalidation between
    /* inval. */    {true,  true,  false, false, true},   // rewoven behind it on the same queue
    /* poisoned */  {false, false, false, true,  false},  // the way back is an invalidation
};
// clang-format on

constexpr bool may_become(KeyState from, KeyState to) noexcept {
  return key_transition[static_cast<uint32_t>(from)][static_cast<uint32_t>(to)];
}

struct IndirectKey {
  Lkey lkey;  // with its present tag
  uint32_t max_entries = 0;
  KeyState state = KeyState::free;

  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey.value()}; }
  void become(KeyState next) noexcept {
    KILIM_ASSERT(may_become(state, next));
    state = next;
  }
};

}  // namespace kilim::umr
