// SPDX-License-Identifier: BSD-3-Clause
// Where the engine hands over to the raw packet path and back: send WQEs of raw packet queues go to
// eth_exec_send, frames come in by eth_handle_frame. Adapter's lock held. Never allocates in the
// two data calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/prm/syndrome.hh"
#include "vhca/core/port_counters.hh"
#include "vhca/core/spec.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::ethernet {

struct EthState;  // ethernet/state.hh

// Executes a SEND of a raw packet queue except its completion, which is the engine's.
Verdict eth_exec_send(EthState&, wq::Qp&, const wq::SendWqe&) noexcept;
// The same of an enhanced multi-packet WQE: each data segment is a frame. Where the wire has no
// room in the middle, SendRing::packets_out says where the next try goes on.
Verdict eth_exec_packets(EthState&, wq::Qp&, const wq::SendWqe&) noexcept;
// The same of a WQE whose packet is cut into segments (TSO).
Verdict eth_exec_large_send(EthState&, wq::Qp&, const wq::SendWqe&) noexcept;

// Steers and delivers the frame that the wire of port `number` shows, and takes it from the wire.
// False: it waits there for a receive WQE.
bool eth_handle_frame(EthState&, uint32_t number, std::span<const std::byte> frame) noexcept;

// Frames of the wire that go the straight way (plain_rx.cc), `budget` at most: how many it took.
std::size_t eth_receive_plain(EthState&, uint32_t number, std::size_t budget) noexcept;

// Gives a frame that leaves by a queue to queues of the same port, as its rules say: those of other
// clients, and of the same one where they want their own. Whether one took it.
bool eth_loop_back(EthState&, const wq::Qp& from, std::span<const std::byte> frame) noexcept;

// What the adapter may wait for: descriptors of the wires are appended, `deadline_ns`
// (CLOCK_MONOTONIC) is lowered where a frame waits for a receive WQE, which no doorbell announces.
void eth_wait_set(const EthState&, std::vector<int>& fds, uint64_t& deadline_ns);

// Control path.
void eth_open(EthState&,
              std::span<wire::Wire* const> wires);  // by port; null: nothing is plugged in
Result<uint32_t> eth_create_flow(EthState&, wq::Qp*, const FlowSpec&);  // null: it drops
int eth_destroy_flow(EthState&, uint32_t rule);
// From now on frames of the port's wire that are longer than this MTU allows, with two tags, come
// to no queue: they are dropped and counted. 0: what the wire carries comes in, as at first.
void eth_set_mtu(EthState&, uint32_t port, uint32_t mtu) noexcept;
// There are flow tables beyond the ports': room for what they make of frames.
void eth_use_soft(EthState&);
// The queue goes away: EBUSY while rules name it.
int eth_detach_qp(EthState&, wq::Qp&);
// A queue that frames came to goes away, before its completion queue does.
void eth_give_back(EthState&, const wq::Qp&) noexcept;
// All zeros: a port that is not there has carried nothing.
PortCounters eth_port_counters(EthState&, uint32_t port) noexcept;
// Shows what the ports have lost (port_losses.hh), and says when it is to be called next.
void eth_show_losses(EthState&) noexcept;

}  // namespace kilim::vhca::ethernet
