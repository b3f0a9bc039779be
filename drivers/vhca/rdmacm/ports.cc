// SPDX-License-Identifier: BSD-3-Clause
// Port numbers: cma.c, cma_get_port() and below. They are this process's alone, as its adapters'
// addresses are, or those of all that are one adapter with it (shared_ports.hh).
#include <algorithm>
#include <cerrno>

#include <endian.h>
#include <unistd.h>

#include "vhca/core/refusal.hh"
#include "vhca/rdmacm/shared_ports.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

constexpr uint16_t first_port = 32768, last_port = 60999;  // ip_local_port_range of the kernel
constexpr uint16_t first_unprivileged = 1024;              // PROT_SOCK

// cma_check_port(): whether both may have the same port.
int conflict(const PortHolder& id, const PortHolder& other) noexcept {
  if (id.reuse && other.reuse) return 0;
  if (id.af_only && other.af_only && id.family != other.family) return 0;
  constexpr const char* taken =
      "another id has this port already (RDMA_OPTION_ID_REUSEADDR on both shares it)";
  if (id.any || other.any) return refusal::text(EADDRNOTAVAIL, taken);
  return id.family == other.family && id.address == other.address ? refusal::text(EADDRINUSE, taken)
                                                                  : 0;
}

bool has_port(const Id& id, rdma_ucm_port_space space, uint16_t port) noexcept {
  return id.has_port && id.space == space && port_of(id.source) == port;
}

int check_port(State& s, const Id& id, uint16_t port, bool reuse) {
  PortHolder own = holder_of(id);
  own.reuse = reuse;
  for (const auto& [number, other] : s.ids) {
    if (other.get() == &id || !has_port(*other, id.space, port)) continue;
    if (int error = conflict(own, holder_of(*other)); error != 0) return error;
  }
  for (const PortHolder& other : holders_elsewhere(id.space, port)) {
    if (int error = conflict(own, other); error != 0) return error;
  }
  return 0;
}

int take_any(State& s, Id& id) {
  constexpr uint32_t count = last_port - first_port + 1;
  const uint32_t begin = random_number(s) % count;
  for (uint32_t i = 0; i < count; i++) {
    const auto port = static_cast<uint16_t>(first_port + (begin + i) % count);
    if (check_port(s, id, port, false) != 0) continue;
    set_port(id.source, port);
    return 0;
  }
  return refusal::full("the range of ports", EADDRNOTAVAIL);
}

// cma_use_port(): CAP_NET_BIND_SERVICE is who is root's.
int take_named(State& s, Id& id, uint16_t port) {
  if (port < first_unprivileged && ::geteuid() != 0)
    return refusal::least("port, of who is not root,", port, first_unprivileged, EACCES);
  return check_port(s, id, port, id.reuse);
}

// cma_select_ib_ps(): which port space an AF_IB address names.
bool select_space(Id& id) noexcept {
  constexpr uint64_t mask_of_spaces = 0xffffffffffff0000;
  auto& ib = reinterpret_cast<SockaddrIb&>(id.source);
  const uint64_t mask = be64toh(ib.sid_mask) & mask_of_spaces, sid = be64toh(ib.sid) & mask;
  struct Row {
    rdma_ucm_port_space space;
    bool allowed;
  };
  const Row rows[] = {{RDMA_PS_IB, id.space == RDMA_PS_IB},
                      {RDMA_PS_TCP, id.space == RDMA_PS_IB || id.space == RDMA_PS_TCP},
                      {RDMA_PS_UDP, id.space == RDMA_PS_IB || id.space == RDMA_PS_UDP}};
  for (const Row& row : rows) {
    const uint64_t space = uint64_t{row.space} << 16;
    if (!row.allowed || sid != (space & mask)) continue;
    ib.sid = htobe64(space | port_of(id.source));
    ib.sid_mask = htobe64(mask_of_spaces | be64toh(ib.sid_mask));
    return true;
  }
  return false;
}

}  // namespace

int take_port(State& s, Id& id) {
  if (id.source.ss_family == af_ib && !select_space(id))
    return refusal::absent("the address's service id: port space", id.space, EPROTONOSUPPORT);
  const uint16_t port = port_of(id.source);
  const MembersHeld held;
  const int error = port == 0 ? take_any(s, id) : take_named(s, id, port);
  if (error != 0) return error;
  id.has_port = true;
  tell_port(s, id);
  return 0;
}

void tell_port(const State& s, const Id& id) {
  if (!id.has_port) return;
  const uint16_t port = port_of(id.source);
  std::vector<PortHolder> ours;
  for (const auto& [number, other] : s.ids) {
    if (has_port(*other, id.space, port)) ours.push_back(holder_of(*other));
  }
  tell_members(id.space, port, ours);
}

void give_port(const State& s, Id& id) {
  if (!id.has_port) return;
  Id gone;
  gone.space = id.space;
  gone.source = id.source;
  gone.has_port = true;
  id.has_port = false;
  tell_port(s, gone);
}

// rdma_listen(): who shares a port by SO_REUSEADDR does not listen on it.
int check_listener(State& s, Id& id) {
  const MembersHeld held;
  if (int error = check_port(s, id, port_of(id.source), false); error != 0) return error;
  id.reuse = false;
  tell_port(s, id);
  return 0;
}

}  // namespace kilim::vhca::rdmacm
