// SPDX-License-Identifier: BSD-3-Clause
// An indirect key and the state in which its owner knows it to be. All that is kept of a key beside
// its WQE; a loom (umr/loom.hh) moves it through its states.
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
    /* poisoned */  {false, true,  false, true,  false},  // the way back is a new tag
};
// clang-format on

constexpr bool may_become(KeyState from, KeyState to) noexcept {
  return key_transition[static_cast<uint32_t>(from)][static_cast<uint32_t>(to)];
}

struct IndirectKey {
  static constexpr uint32_t none = ~0u;
  // A tag has 8 bits: the 256th after it is the same one.
  static constexpr uint32_t tags = 256;

  // Marks of its loom.
  static constexpr uint8_t bound = 1;       // a Binding holds it
  static constexpr uint8_t ending = 2;      // shall be invalidated
  static constexpr uint8_t listed = 4;      // in the list of keys to invalidate
  static constexpr uint8_t swapping = 8;    // its new handle is nobody's before the swap completes
  static constexpr uint8_t used_here = 16;  // `used` is set
  static constexpr uint8_t waiting = 32;    // parked
  static constexpr uint8_t passed = 64;     // nobody can use a handle any more
  static constexpr uint8_t resized = 128;   // log_entity has changed since the key was made

  Lkey lkey;  // with its present tag
  uint32_t max_entries = 0;
  uint32_t next = none;  // in one list of its loom: a number in the pool
  uint32_t end = 0;      // position behind the last WQE that changes it
  // Position of the last WQE of the same queue that names it. Of a key that is swapped: its handle
  // of before, or its predecessor's.
  uint32_t used = 0;
  uint32_t window = 0;  // epoch in which tags_now was begun
  // Counts since the pool was made, for audits.
  uint32_t binds = 0;
  uint32_t uses = 0;  // times that a binding gave a handle out
  uint32_t invalidations = 0;
  uint32_t faults = 0;      // WQEs about it that failed or were flushed
  uint16_t lcore = 0;       // of its loom
  uint8_t tags_before = 0;  // tags given out in the window before
  uint8_t tags_now = 0;     // and in this one
  KeyState state = KeyState::free;
  uint8_t marks = 0;
  uint8_t log_entity = 0;  // of entries of fixed size; 0: each has its length; or unknown_entity
  uint8_t depth = 0;       // levels(), and above them those that a swap will give it

  static constexpr uint8_t unknown_entity = 0xff;  // a change of it failed
  static constexpr uint32_t most_levels = 15;
  static constexpr uint8_t of_a_bind =
      0xff & ~resized;  // marks that end when the key is given back
  // Keys from this one to memory, itself included; 0: it has shown nothing yet. Other workers of
  // the pool may ask, for keys of theirs that lie over this one.
  [[nodiscard]] uint32_t levels() const noexcept {
    return __atomic_load_n(&depth, __ATOMIC_RELAXED) & most_levels;
  }
  void set_levels(uint32_t levels, uint32_t soon = 0) noexcept {
    __atomic_store_n(&depth, static_cast<uint8_t>(levels | soon << 4), __ATOMIC_RELAXED);
  }
  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey.value()}; }
  [[nodiscard]] bool has(uint8_t mark) const noexcept { return (marks & mark) != 0; }
  void set(uint8_t mark) noexcept { marks = static_cast<uint8_t>(marks | mark); }
  void clear(uint8_t mark) noexcept { marks = static_cast<uint8_t>(marks & ~mark); }
  void become(KeyState to) noexcept {
    KILIM_ASSERT(may_become(state, to));
    state = to;
  }
};

}  // namespace kilim::umr
