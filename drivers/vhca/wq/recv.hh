// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Receive Work Queue", "Shared Receive Queue". Takes receive WQEs off a ring and scatters
// payload into them. Adapter's lock held. Never allocates; the ring is read through the guarded
// copy.
#pragma once

#include <cstdint>

#include "vhca/core/verdict.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/recv_wqe.hh"

namespace kilim::vhca::wq {

// refused: by the linter, or because it cannot be read; it is failed (fail_refused_recv).
enum class RecvTake : uint8_t { ok, empty, fault, refused };

// Reads the next receive WQE and leaves it on the ring; `fault`: ring or record memory is gone (the
// caller raises QP_FATAL and takes the queue to error).
RecvTake peek_recv(EngineContext&, const Qp&, RecvWqe&) noexcept;
// Does so without a word to the journal: whoever asks may let the WQE be.
RecvTake look_at_recv(EngineContext&, const Qp&, RecvWqe&) noexcept;
// The peeked WQE is used up.
void consume_recv(EngineContext&, Qp&) noexcept;
// One that has left its ring, as it still lies there. False: it cannot be read.
bool read_recv(const Qp&, uint16_t index, RecvWqe&) noexcept;
// Receive WQEs waiting on the ring of its own; 0 as well where the record is gone.
uint32_t recv_waiting(const Qp&) noexcept;
// The event of a shared queue that runs low, if it is wanted and due.
void check_limit(EngineContext&, Srq&) noexcept;

// The rights a receive WQE's segments need.
tpt::Access recv_access(const Qp&) noexcept;

// Puts a frame (the adapter's memory) into the WQE. local_length: it does not fit; local_prot: a
// segment is not allowed; nothing is written then.
Verdict scatter_to_recv(EngineContext&, const Qp&, const RecvWqe&, const std::byte* payload,
                        uint64_t bytes) noexcept;

}  // namespace kilim::vhca::wq
