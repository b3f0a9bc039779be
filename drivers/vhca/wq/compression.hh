// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQE Compression". Completions of received frames that are alike share entries where the
// client made the queue so: a block is a title and arrays of minis (prm::MiniCqe). It is open for
// one turn of the engine at most, so clients never wait for the next frame. Adapter's lock held.
// Never allocates.
#pragma once

#include <cstdint>

#include "kilim/prm/cqe.hh"
#include "vhca/wq/cq.hh"
#include "vhca/wq/engine_context.hh"

namespace kilim::vhca::wq {

// Whether completions carry the packet's sum.
inline bool says_checksum(const Cq& cq) noexcept {
  return cq.spec.mini > MiniFormat::hash;
}

// As write_cqe() of a resp_send, into a queue that has a block; `next` is the wqe_counter of the
// frame behind, where it comes into the same queue. What is unlike the block, in place or kind,
// closes it and opens the next one.
bool write_or_hold(EngineContext&, Cq&, prm::Cqe& cqe, uint16_t next) noexcept;

// Writes what is held: one completion as it is, several as a block. False: the CQ is in error.
bool close_block(EngineContext&, Cq&) noexcept;
// The same of every queue, at the end of the engine's turn.
void close_blocks(EngineContext&) noexcept;

}  // namespace kilim::vhca::wq
