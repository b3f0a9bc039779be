// SPDX-License-Identifier: BSD-3-Clause
// From the C handle of rte_pmd_kilim.h to Kilim's C++ port. Any thread.
#pragma once

#include "kilim/detail/port/port.hh"
#include "kilim/rte_pmd_kilim.h"

namespace kilim::net {

// `p` is not NULL and comes from a function of rte_pmd_kilim.h.
inline port::Port& native(kilim_port* p) noexcept {
  return *reinterpret_cast<port::Port*>(p);
}

}  // namespace kilim::net
