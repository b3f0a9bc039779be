// SPDX-License-Identifier: BSD-3-Clause
// The straight way of plain requests: RDMA WRITE and READ, SEND and atomics of one data segment
// between two queues of this adapter, by keys of pinned memory (WRITE and READ: or lists of them),
// with an ordinary completion; and UMRs.
// Nearly all traffic is that.
// It asks everything that the general way (send_queue.cc) asks and does the same; what is not
// plain, and whatever goes wrong, it leaves as it is for the general way. Adapter's lock held.
// Never allocates.
#pragma once

#include <cstddef>

#include "vhca/exec/engine.hh"

namespace kilim::vhca::exec {

// At most `budget` WQEs of the queue; how many it executed. 0: the next one is for the general way.
std::size_t run_plain(Engine&, wq::Qp&, std::size_t budget) noexcept;

// The straight ways of opcodes, rows of the table in opcodes.cc: what the WQE at sq.ci begins.
std::size_t run_plain_writes(Engine&, wq::Qp&, std::size_t budget) noexcept;
std::size_t run_plain_reads(Engine&, wq::Qp&, std::size_t budget) noexcept;
std::size_t run_plain_sends(Engine&, wq::Qp&, std::size_t budget) noexcept;
std::size_t run_plain_swaps(Engine&, wq::Qp&, std::size_t budget) noexcept;
std::size_t run_plain_adds(Engine&, wq::Qp&, std::size_t budget) noexcept;
std::size_t run_plain_umr(Engine&, wq::Qp&, std::size_t budget) noexcept;
std::size_t run_plain_local_inval(Engine&, wq::Qp&, std::size_t budget) noexcept;

}  // namespace kilim::vhca::exec
