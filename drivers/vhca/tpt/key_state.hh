// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Memory Key Context", `free`; IBTA 10.6.7.2, "Memory Windows". In which state a key or a
// window allows what: one table (key_state.cc). Windows are keys as all others: a window that is
// not bound, or was invalidated, is a free key. Adapter's lock held. Never allocates.
#pragma once

#include <cstdint>

#include "vhca/core/verdict.hh"
#include "vhca/tpt/mkey.hh"

namespace kilim::vhca::tpt {

// What a key was made for.
enum class KeyKind : uint8_t {
  fixed,        // a region, or a list without umr_en: no work request changes it
  window_1,     // bound anew by each ibv_bind_mw(), never invalidated
  window_2,     // bound when it is free (type 2B: to one queue), then invalidated
  mkey,         // umr_en
  mkey_remote,  // umr_en and en_rinval
};
KeyKind kind_of(const Mkey&) noexcept;

enum class KeyOp : uint8_t {
  access,        // a work request, or a peer's, names it
  umr,           // a UMR of whatever state the key is in: a bind of type 1
  umr_if_free,   // prm::umr::check_not_free: a bind of type 2, the kernel's registration
  umr_if_valid,  // prm::umr::check_free
  local_inval,   // LOCAL_INV as an opcode of its own
  remote_inval,  // a peer's SEND with invalidate
  destroy,       // by command: DEREG_MR, DEALLOC_MW, DESTROY_MKEY
};

// A row of the table: what the key answers in each of its two states.
struct KeyRule {
  KeyOp op;
  uint8_t kinds;  // a bit for each KeyKind
  Verdict if_free, if_valid;
  bool frees = false;  // it is free behind an operation that was allowed
};
const KeyRule& key_rule(KeyKind, KeyOp) noexcept;

// Whether the key's state allows it.
Verdict check_state(const Mkey&, KeyOp) noexcept;

}  // namespace kilim::vhca::tpt
