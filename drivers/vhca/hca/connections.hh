// SPDX-License-Identifier: BSD-3-Clause
// The connection managers of the adapter's ports, and queue pair 1 of each. Owner: the adapter,
// which makes it at the first call of connection_agent(). Adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "vhca/cm/agent.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::hca {

// The agent of a port, numbered from 1, made at the first call; it lives as long as the adapter.
// ENODEV: no such port. EOPNOTSUPP: an InfiniBand port, whose addresses are others.
// The engine's turn runs it (hca/scheduler.hh): its timers, and the datagrams of queue pair 1.
Result<cm::Agent*> connection_agent(Hca&, uint32_t port);

// The wire on which the processes meet that are one adapter with this one (Addresses::member);
// null: it is this process's alone. Adapter's lock held.
wire::Wire* wire_of_members(Hca&) noexcept;

class Connections {
 public:
  explicit Connections(Hca&);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  cm::Agent& agent(uint32_t port);  // of a port that exists
  // Of all agents. The time is the engine's. A dead adapter's stand still.
  std::size_t tick() noexcept;
  [[nodiscard]] uint64_t deadline() const noexcept;

 private:
  class PortAgent;
  Hca& hca_;
  std::vector<std::unique_ptr<PortAgent>> ports_;
};

}  // namespace kilim::vhca::hca
