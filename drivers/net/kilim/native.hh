// SPDX-License-Identifier: BSD-3-Clause
// The C++ side of rte_pmd_kilim.h. Any thread.
#pragma once

#include "kilim/port/port.hh"
#include "net/kilim/rte_pmd_kilim.h"

namespace kilim::net {

inline port::Port& native(kilim_port* p) noexcept {
  return *reinterpret_cast<port::Port*>(p);
}

}  // namespace kilim::net
