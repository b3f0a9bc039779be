// SPDX-License-Identifier: BSD-3-Clause
// A command on its way: where the client's bytes are, and how much room its answer has. As in the
// kernel's ucma.c a command is read whole whatever length its header says. All locks held.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "vhca/core/refusal.hh"
#include "vhca/memory/dma.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

struct Call {
  State& s;
  File& file;
  uint64_t in = 0;  // behind the header
  uint16_t in_bytes = 0, out_bytes = 0;

  template <typename T>
  int read(T& to, std::size_t bytes = sizeof(T)) const noexcept {
    return memory::dma::copy_in(&to, Va{in}, bytes) ? 0 : refusal::fault(in);
  }
  // Writes as much of the answer as there is room for.
  template <typename T>
  int answer(uint64_t to, const T& from) const noexcept {
    const std::size_t n = std::min<std::size_t>(out_bytes, sizeof(from));
    return memory::dma::copy_out(Va{to}, &from, n) ? 0 : refusal::fault(to);
  }
};

using Command = int (*)(Call&);
// Behind JOIN_MCAST Linux 6.17 has RESOLVE_IB_SERVICE, which asks a subnet's administration, and
// this one; the rdma_user_cm.h of older rdma-cores names neither.
inline constexpr uint32_t write_event_number = RDMA_USER_CM_CMD_JOIN_MCAST + 2;
inline constexpr uint32_t command_count = write_event_number + 1;
// By number; null: there is none, or it is MIGRATE_ID.
Command command_of(uint32_t number) noexcept;
// ucma_migrate_id(): the id and its unread events go from that file to the call's.
int migrate(Call&, File& from);
// ucma_write_cm_event(), in events.cc: an event that the client posts to an id of its own.
int write_event(Call&);

}  // namespace kilim::vhca::rdmacm
