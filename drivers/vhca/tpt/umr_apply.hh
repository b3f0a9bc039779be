// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Work Request Operation". Changes a key as a UMR WQE says: exactly the fields of its
// mask, exactly the granules of its list. Adapter's lock held. Never allocates; a refused WQE
// changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/core/profile.hh"
#include "vhca/core/verdict.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::tpt {

struct UmrRequest {
  uint32_t key = 0;                 // of the control segment
  std::span<const std::byte> body;  // the WQE behind its control segment
  Pdn pd;                           // of the queue
  uint32_t qpn = 0;
};

// The key afterwards, for the journal.
struct UmrChange {
  uint32_t new_key = 0;    // index << 8 | tag
  uint32_t octowords = 0;  // of the list, written
  uint64_t mask = 0;       // mkey_mask
  uint64_t bytes = 0;      // length of the key
  bool freed = false;
};

Verdict umr_apply(const KeyTable&, const Translator&, const Profile&, const UmrRequest&,
                  UmrChange&) noexcept;

// The key becomes free, by LOCAL_INV as an opcode of its own (memory window bind error where not)
// or by a peer's SEND with invalidate (local access error).
enum class Invalidator : uint8_t { owner, peer };
Verdict invalidate_key(const KeyTable&, uint32_t key, Pdn pd, uint32_t qpn, Invalidator) noexcept;

}  // namespace kilim::vhca::tpt
