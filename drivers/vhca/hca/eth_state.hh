// SPDX-License-Identifier: BSD-3-Clause
// What the raw packet path of an adapter keeps: ports with their wires, rules and counters, and one
// place where a frame is put together. Owner: HcaState; adapter's lock held.
#pragma once

#include <cstddef>
#include <vector>

#include "vhca/flow/steering.hh"
#include "vhca/hca/eth.hh"
#include "vhca/hca/port_counters.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca {

struct EthPort {
  Wire* wire = nullptr;  // null: nothing is plugged in
  Steering steering;
  PortCounters counters;
  bool paused = false;  // the next frame waits for a receive WQE
};

struct EthState {
  std::vector<EthPort> ports;
  std::vector<std::byte> frame;  // of the send WQE under execution: the longest that a port takes
  RecvWqe recv;                  // the receive WQE in hand
};

// The port of a queue; its number comes from the client.
EthPort& eth_port(EthState&, uint32_t port) noexcept;

}  // namespace kilim::vhca
