// SPDX-License-Identifier: BSD-3-Clause
// The adapter's ports: what they are called, the frames that come in by them, and which queues take
// those. Adapter's lock held. Errors as in hca/objects.hh.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "vhca/core/cast_counters.hh"
#include "vhca/core/port_counters.hh"
#include "vhca/hca/hca.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::hca {

// Takes at most `budget` frames from all ports, to RoCE or to the raw packet queues. How many it
// took. Never allocates.
std::size_t poll_ports(Hca&, std::size_t budget) noexcept;

// Numbered from 1; an adapter without wires has one.
uint32_t port_count(const Hca&) noexcept;
bool has_port(const Hca&, uint32_t port) noexcept;
Result<PortAttr> query_port(const Hca&, uint32_t port);
Result<Gid> query_gid(const Hca&, uint32_t port, uint32_t index);  // ENODATA: an empty entry
// The address of a neighbour that told the port's wire of this GID. Opens files.
std::optional<Mac> find_neighbour(Hca&, uint32_t port, const Gid&);
// Port 1's frames without a receive request count in `sum` too, and show in `text`
// (OdpStats::text_bytes). Both outlive the adapter.
void show_out_of_buffer(Hca&, std::atomic<uint64_t>& sum, char* text) noexcept;
// The same of what it has lost by a cause (core/port_counters.hh).
void show_losses(Hca&, std::size_t cause, std::atomic<uint64_t>& sum, char* text) noexcept;
// It shows what its queues have asked and refused (core/transport_counts.hh) likewise.
void show_transport(Hca&, std::size_t count, std::atomic<uint64_t>& sum, char* text) noexcept;
// The engine has worked, or not: losses are shown when it is time.
void tell_losses(Hca&, bool worked) noexcept;

// What a port's network interface tells of it: its frames by the kind of address, and what the port
// and its wire have carried and lost.
struct InterfaceCounters {
  CastCounters rx, tx;  // without RoCE's
  PortCounters port;
  wire::WireCounters wire;  // with RoCE's
};
// Of port 1, from count_casts() on.
void count_casts(Hca&) noexcept;
InterfaceCounters interface_counters(Hca&) noexcept;

// The MTU of a port, by which its raw packet queues get no longer frames (eth_set_mtu()); RDMA
// queues have path MTUs. 0: none, as at first.
void set_mtu(Hca&, uint32_t port, uint32_t mtu) noexcept;

// Multicast groups. A queue pair that is in one cannot be destroyed.
int join_group(Hca&, Qpn, const Gid&);
int leave_group(Hca&, Qpn, const Gid&);
void leave_groups(Hca&, Qpn);
[[nodiscard]] bool in_group(const Hca&, Qpn);

// Steering of raw packet queue pairs; a rule's number is returned.
Result<uint32_t> create_flow(Hca&, Qpn, const FlowSpec&);
Result<uint32_t> create_flow_to_tir(Hca&, uint32_t tirn, const FlowSpec&);
// To a flow table of that number, whose kind the rule's is.
Result<uint32_t> create_flow_to_table(Hca&, uint32_t number, const FlowSpec&);
Result<uint32_t> create_ending_flow(Hca&, const FlowSpec&);  // it drops, or misses
int destroy_flow(Hca&, uint32_t rule);

}  // namespace kilim::vhca::hca
