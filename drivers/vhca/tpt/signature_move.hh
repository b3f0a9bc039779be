// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format". Moves bytes where a key at either end is signed or encrypted: between
// its memory and the wire signatures are checked, taken away, made or copied, block by block.
// Adapter's lock held. Never allocates; touches client memory only through the guarded copy.
#pragma once

#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::tpt {

// Moves bytes for move_bytes(), which has checked both lists and brought their pages in. Wrong
// signatures do not stop it: they go to the key table's list of errors.
void move_signed(const Translator&, const SegmentList& from, const SegmentList& to, uint64_t bytes,
                 Transfer&) noexcept;

}  // namespace kilim::vhca::tpt
