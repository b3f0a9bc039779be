// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Unreliable Datagram". Executes one send WQE of a datagram queue pair: to a queue of the
// same adapter or of a neighbour, or to all that joined a multicast group. Takes what comes from
// the wire. Adapter's lock held. Never allocates. Packets are untrusted.
#pragma once

#include <cstdint>

#include "kilim/prm/av_seg.hh"
#include "vhca/core/verdict.hh"
#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

// Asked of a datagram that queues of this adapter are to get; false: they do not.
struct LocalFilter {
  bool (*passes)(void* engine, const wq::Qp& from, const wq::SendWqe&, const prm::AvSeg& to,
                 uint64_t bytes) noexcept;
  void* engine;
};

// What nobody takes is lost without a word: the sender's completion says that it was sent. Without
// a filter all get it.
Verdict exec_datagram(RoceLink&, wq::Qp&, const wq::SendWqe&,
                      const LocalFilter* = nullptr) noexcept;

// A datagram from the wire of a port; false: no queue has that number, or nobody is in that group.
bool handle_datagram(RoceLink&, uint32_t port, const RocePacket&) noexcept;

}  // namespace kilim::vhca::transport
