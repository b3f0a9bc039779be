// SPDX-License-Identifier: BSD-3-Clause
// Ports among the processes that are one adapter: a kernel has one table of them for all
// (cma_pernet()), here each member leaves a note of its own in the members' folder, one a port.
// What others wrote is untrusted. All locks held.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sys/socket.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/rdmacm/state.hh"

namespace kilim::vhca::rdmacm {

// Who has a port, and what cma_check_port() asks of it.
struct PortHolder {
  Gid address{};
  sa_family_t family = 0;
  bool any = false, af_only = false, reuse = false;
};
PortHolder holder_of(const Id&) noexcept;

// Other members' ports stay as they are as long as it lives. Nothing where there are none.
class MembersHeld {
 public:
  MembersHeld();

 private:
  Fd held_;
};

// The holders of a port in other members, those of the dead not among them.
std::vector<PortHolder> holders_elsewhere(rdma_ucm_port_space, uint16_t port);
// Tells them who holds it here; again whenever that changes.
void tell_members(rdma_ucm_port_space, uint16_t port, std::span<const PortHolder> ours);

}  // namespace kilim::vhca::rdmacm
