// SPDX-License-Identifier: BSD-3-Clause
// The connection manager without an adapter: its messages, its transitions, whole connections over
// a bad network, and what hostile peers send.
#include "case_tables.hh"
#include "cm_cases.hh"

KILIM_TEST_MAIN(cm) {
  using namespace kilim::vhca::test;
  return kilim::test::run_tables("cm",
                                 {message_cases(), transition_cases(), timing_cases(),
                                  handshake_cases(), hostile_cases(), kernel_cases()},
                                 argc, argv);
}
