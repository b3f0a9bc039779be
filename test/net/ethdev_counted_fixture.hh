// SPDX-License-Identifier: BSD-3-Clause
// Counts how often librte_ethdev calls each operation of a port, so that one which no case reaches
// shows. Test only; the test's main thread.
#pragma once

#include <cstdint>

namespace kilim::test {

// The operations of this port are counted from now on.
void count_operations(uint16_t port_id);
// Prints the operations of the driver's table that were never called, or cannot be counted; returns
// how many.
int tell_uncalled();

}  // namespace kilim::test
