// SPDX-License-Identifier: BSD-3-Clause
// PRM: "RDMA Receive Flow Table", "RDMA Transmit Flow Table". The adapter's flow tables beyond its
// ports', and rules of the frames of RDMA queues: control path, what comes in by a wire, what goes
// out by one. Between queues of one adapter exec/rdma_filter.hh asks the same rules. Adapter's lock
// held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "vhca/ethernet/table_type.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::ethernet {
class SoftSteering;
}  // namespace kilim::vhca::ethernet

namespace kilim::vhca::hca {

// All tables, made when the first is asked for. Control path.
ethernet::SoftSteering& flow_tables(Hca&);
// A rule to a table of its kind; none: it drops. Errors as in hca/objects.hh.
Result<uint32_t> create_rdma_flow(Hca&, ethernet::TableType, std::optional<uint32_t> table,
                                  const FlowSpec&);

// False: the frame that came by this port is for an RDMA queue, and a rule drops it. There are flow
// tables. Never allocates; the frame is untrusted.
bool rdma_receives(Hca&, uint32_t port, std::span<const std::byte> frame) noexcept;

}  // namespace kilim::vhca::hca
