// SPDX-License-Identifier: BSD-3-Clause
// Where the engine hands over to the raw packet path and back: send WQEs of raw packet queues go to
// eth_exec_send, frames come in by eth_poll_ports. Adapter's lock held. Never allocates in the two
// data calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/prm/syndrome.hh"
#include "vhca/hca/spec.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca {

struct HcaState;

// Executes a send WQE of a raw packet queue except its completion: `none` and the engine writes the
// completion if the WQE asks for one; a syndrome and the engine fails the queue with it. `retry`:
// the wire is full; the engine tries the same WQE again.
struct EthSend {
  prm::Syndrome syndrome = prm::Syndrome::none;
  bool retry = false;
};
EthSend eth_exec_send(HcaState&, Qp&, const SendWqe&) noexcept;

// Takes at most `budget` frames from all ports, steers and delivers them. How many it took.
std::size_t eth_poll_ports(HcaState&, std::size_t budget) noexcept;

// Gives a frame that leaves by a queue to queues of the same port, as its rules say: those of other
// clients, and of the same one where they want their own. Whether one took it.
bool eth_loop_back(HcaState&, const Qp& from, std::span<const std::byte> frame) noexcept;

// What run() may wait for: descriptors of the wires are appended, `deadline_ns` (CLOCK_MONOTONIC)
// is lowered where a frame waits for a receive WQE, which no doorbell announces.
void eth_wait_set(const HcaState&, std::vector<int>& fds, uint64_t& deadline_ns);

// Control path.
int eth_open(HcaState&);  // makes HcaState::eth; 0 or a negative errno
Result<uint32_t> eth_create_flow(HcaState&, Qp&, const FlowSpec&);
int eth_destroy_flow(HcaState&, uint32_t rule);
// The queue goes away: EBUSY while rules name it.
int eth_detach_qp(HcaState&, Qp&);

}  // namespace kilim::vhca
