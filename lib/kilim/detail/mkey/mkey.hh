// SPDX-License-Identifier: BSD-3-Clause
// What the library keeps of one indirect mkey: its handle, its state and what its next change has
// to wait for. A binder (mkey/mkey_binder.hh) moves it through the states. Owner: one worker at a
// time, by way of its MkeyCache. Never allocates, blocks or logs.
#pragma once

#include <cstdint>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/ident.hh"

namespace kilim::inline v1::mkey {

// What the device's mkey translates to, as far as the binder knows.
enum class MkeyState : uint8_t {
  free,          // translates nothing; a UMR may be posted
  posted,        // a UMR is posted; only later WQEs of the same queue may use the key
  valid,         // the UMR has completed; any queue and any peer may use the key
  invalidating,  // an invalidation is posted
  poisoned,      // a WQE that changes it failed or was flushed: its translation is unknown
};
inline constexpr uint32_t mkey_states = 5;

// The allowed transitions. Row: from, column: to, both in the order of MkeyState.
// clang-format off
inline constexpr bool mkey_transition[mkey_states][mkey_states] = {
    //               free   posted valid  inval. poisoned
    /* free */      {false, true,  false, false, false},
    /* posted */    {false, true,  true,  true,  true},   // changed or invalidated before the UMR completes
    /* valid */     {false, true,  false, true,  true},   // bound again without an invalidation in between
    /* inval. */    {true,  true,  false, false, true},   // bound again behind the invalidation, same queue
    /* poisoned */  {false, true,  false, true,  false},  // a UMR or invalidation sets a new tag
};
// clang-format on

// True: the table allows the transition.
constexpr bool may_become(MkeyState from, MkeyState to) noexcept {
  return mkey_transition[static_cast<uint32_t>(from)][static_cast<uint32_t>(to)];
}

// One record of an MkeyPool.
struct Mkey {
  static constexpr uint32_t none = ~0u;  // no key, in links by number
  // The low byte of a handle is its tag (PRM: "Memory Key"), so handles repeat after 256 binds.
  static constexpr uint32_t tags = 256;

  // Bits of `marks`, set and cleared by the binder.
  static constexpr uint8_t bound = 1;          // a Binding holds the key
  static constexpr uint8_t to_invalidate = 2;  // the next doorbell posts an invalidation
  static constexpr uint8_t listed = 4;         // in the binder's list of keys to invalidate
  static constexpr uint8_t swapping = 8;       // in a swap that has not completed
  static constexpr uint8_t used_here = 16;     // `used` is set
  static constexpr uint8_t deferred = 32;      // in the binder's DeferQueue
  static constexpr uint8_t passed = 64;        // the DeferQueue let it go: nobody can use a handle
  static constexpr uint8_t resized = 128;      // log_entity has changed since the key was made

  Lkey lkey;  // with its present tag
  uint32_t max_entries = 0;
  uint32_t next = none;  // the next key in one of the binder's lists: a number in the pool
  uint32_t end = 0;      // send queue position behind the last WQE that changes the key
  union {
    // With mark used_here: position of the last WQE of the binder's queue that names the key.
    uint32_t used = 0;
    // With mark swapping: the handle that the binding had before the swap.
    uint32_t swapped_from;
  };
  uint32_t window = 0;  // the epoch in which tags_now began
  // Counts since the pool was made, read by kilim/detail/diag/audit.hh.
  uint32_t binds = 0;
  uint32_t uses = 0;  // handles that bindings returned
  uint32_t invalidations = 0;
  uint32_t faults = 0;      // WQEs about it that failed or were flushed
  uint16_t lcore = 0;       // of its binder
  uint8_t tags_before = 0;  // handles made in the window before
  uint8_t tags_now = 0;     // handles made in this window
  MkeyState state = MkeyState::free;
  uint8_t marks = 0;
  uint8_t log_entity = 0;  // log2 of bytes of a fixed-size entry; 0: KLM entries; unknown_entity
  uint8_t depth = 0;       // bits 3..0: levels(); 7..4: levels after a swap that is being checked

  static constexpr uint8_t unknown_entity = 0xff;  // a WQE that changes the size failed
  static constexpr uint32_t max_levels = 15;
  static constexpr uint8_t of_a_bind =
      0xff & ~resized;  // marks that end when the key is given back
  // Indirect keys on the way from this key to memory, itself included; 0: never bound. Any worker
  // of the pool may call it, hence the atomic: its keys may have entries under this one.
  [[nodiscard]] uint32_t levels() const noexcept {
    return __atomic_load_n(&depth, __ATOMIC_RELAXED) & max_levels;
  }
  // `soon`: the levels after a swap that is being checked.
  void set_levels(uint32_t levels, uint32_t soon = 0) noexcept {
    __atomic_store_n(&depth, static_cast<uint8_t>(levels | soon << 4), __ATOMIC_RELAXED);
  }
  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey.value()}; }
  [[nodiscard]] bool has(uint8_t mark) const noexcept { return (marks & mark) != 0; }
  void set(uint8_t mark) noexcept { marks = static_cast<uint8_t>(marks | mark); }
  void clear(uint8_t mark) noexcept { marks = static_cast<uint8_t>(marks & ~mark); }
  // Changes the state; asserts that the table allows it.
  void become(MkeyState to) noexcept {
    KILIM_ASSERT(may_become(state, to));
    state = to;
  }
};

}  // namespace kilim::inline v1::mkey
