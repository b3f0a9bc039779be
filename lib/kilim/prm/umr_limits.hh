// SPDX-License-Identifier: BSD-3-Clause
// PRM: "HCA Capabilities". What an adapter's capabilities say about UMR, as one value. Without any
// word from the adapter nothing but plain lists of one level is assumed.
// Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::prm {

struct UmrLimits {
  bool indirect_keys = false;    // a send queue may change them (umr_indirect_mkey_disabled)
  bool pointer_lists = false;    // a list may lie in registered memory (umr_ptr_rlkey)
  bool repeated_block = false;   // strided lists (repeated_block_disabled)
  bool change_entity = false;    // the size of fixed entries (umr_modify_entity_size_disabled)
  bool change_atomic = false;    // the right to atomics (umr_modify_atomic_disabled)
  bool extended_offset = false;  // translation offsets beyond 16 bits
  UmrFence fence = UmrFence::strong;
  uint32_t max_indirection = 0;  // keys on the way from a key to memory
  uint32_t max_key_entries = 0;  // of one key; 0: none can be made
  uint32_t max_inline_klms = 0;  // in one WQE
};

}  // namespace kilim::prm
