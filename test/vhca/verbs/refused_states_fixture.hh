// SPDX-License-Identifier: BSD-3-Clause
// Changes of queues' states that the kernel refuses for lack of memory (ibv_modify_qp(3) and
// ibv_modify_wq(3) return ENOMEM): those to RESET, as many as a test asks for. The test's own
// program only, of one thread; everything else goes to libibverbs as it came.
#pragma once

#include <cstdint>

namespace kilim::test {

struct RefusedStates {
  uint32_t left = 0;   // further changes to RESET that fail
  uint32_t asked = 0;  // changes to RESET so far
};

extern RefusedStates refused_states;

}  // namespace kilim::test
