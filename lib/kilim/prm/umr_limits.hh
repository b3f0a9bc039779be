// SPDX-License-Identifier: BSD-3-Clause
// PRM: "HCA Capabilities". The capabilities that concern UMR as one value. The defaults are those
// of a device that reports nothing: no UMR, and the strongest fence. Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm {

struct UmrLimits {
  bool indirect_keys = false;   // UMRs may change indirect mkeys (not umr_indirect_mkey_disabled)
  bool pointer_lists = false;   // a list may lie in registered memory (umr_ptr_rlkey)
  bool repeated_block = false;  // strided lists (not repeated_block_disabled)
  // A UMR may change the size of fixed entries (not umr_modify_entity_size_disabled), and the right
  // to atomics (not umr_modify_atomic_disabled).
  bool change_entity = false;
  bool change_atomic = false;
  bool extended_offset = false;       // translation offsets beyond 16 bits
  UmrFence fence = UmrFence::strong;  // umr_fence
  uint32_t max_indirection = 0;       // indirect mkeys from a key to memory, itself included
  uint32_t max_key_entries = 0;       // entries of one mkey; 0: no indirect mkey can be made
  uint32_t max_inline_klms = 0;       // entries of an inline list in one WQE
};

}  // namespace kilim::inline v1::prm
