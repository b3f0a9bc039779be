// SPDX-License-Identifier: BSD-3-Clause
// The packets of a request whose peer is a queue of the same adapter, as they would stand on the
// wire: between such queues there are none, but flow rules look at headers. Adapter's lock held.
// Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/prm/av_seg.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

// Headers of the first one, without its data, valid until the next frame is put together; how many
// there are, and the bytes of all with their data. None: there is no way to that address.
struct LoopPackets {
  std::span<const std::byte> first;
  uint64_t count = 0, bytes = 0;
};
LoopPackets loop_packets(RoceLink&, const wq::Qp&, const RequestRow&, const RequestData&) noexcept;
// The packets of a datagram with so much data.
LoopPackets loop_packets(RoceLink&, const wq::Qp&, const wq::SendWqe&, const prm::AvSeg& to,
                         uint64_t bytes) noexcept;

// The way that an address names, for a queue's packets.
RocePath path_to(const RoceLink&, const prm::AvSeg&, uint32_t from_qpn) noexcept;

}  // namespace kilim::vhca::transport
