// SPDX-License-Identifier: BSD-3-Clause
// Port numbers: cma.c, cma_get_port() and below. They are this process's alone, as its adapters'
// addresses are.
#include <algorithm>
#include <cerrno>

#include <endian.h>
#include <unistd.h>

#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

constexpr uint16_t first_port = 32768, last_port = 60999;  // ip_local_port_range of the kernel
constexpr uint16_t first_unprivileged = 1024;              // PROT_SOCK

// cma_check_port(): whether both may have the same port.
int conflict(const Id& id, const Id& other, bool reuse) noexcept {
  if (reuse && other.reuse) return 0;
  if (id.af_only && other.af_only && id.source.ss_family != other.source.ss_family) return 0;
  if (id.has_any_source() || other.has_any_source()) return -EADDRNOTAVAIL;
  return same_address(id.source, other.source) ? -EADDRINUSE : 0;
}

int check_port(State& s, const Id& id, uint16_t port, bool reuse) noexcept {
  for (const auto& [number, other] : s.ids) {
    if (other.get() == &id || !other->has_port || other->space != id.space) continue;
    if (port_of(other->source) != port) continue;
    const bool listens = other->stage == Stage::listen;
    if (int error = conflict(id, *other, reuse && !listens); error != 0) return error;
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
    id.has_port = true;
    return 0;
  }
  return -EADDRNOTAVAIL;
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
  if (id.source.ss_family == af_ib && !select_space(id)) return -EPROTONOSUPPORT;
  const uint16_t port = port_of(id.source);
  if (port == 0) return take_any(s, id);
  // cma_use_port(): CAP_NET_BIND_SERVICE is who is root's.
  if (port < first_unprivileged && ::geteuid() != 0) return -EACCES;
  if (int error = check_port(s, id, port, id.reuse); error != 0) return error;
  id.has_port = true;
  return 0;
}

// cma_bind_listen(): who shares a port by SO_REUSEADDR does not listen on it.
int check_listener(State& s, const Id& id) noexcept {
  return check_port(s, id, port_of(id.source), false);
}

}  // namespace kilim::vhca::rdmacm
