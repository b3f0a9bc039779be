// SPDX-License-Identifier: BSD-3-Clause
// What the prompt says of ports, in testpmd's words and layout (DPDK 22.11,
// app/test-pmd/config.c). Main thread; prints to stdout.
#pragma once

#include <cstdint>

namespace kilim::testpmd {

class Session;

void print_nic_stats(Session& s, uint32_t port);
void print_nic_xstats(Session& s, uint32_t port);
void print_port_info(Session& s, uint32_t port);
void print_summary_head(Session& s);
void print_summary(Session& s, uint32_t port);

}  // namespace kilim::testpmd
