// SPDX-License-Identifier: BSD-3-Clause
// What the prompt says of forwarding, in testpmd's words and layout (DPDK 22.11,
// app/test-pmd/config.c and testpmd.c). Main thread; prints to stdout.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "forwarder.hh"

namespace kilim::testpmd {

class Session;

std::string text_of(const Mac& mac);

// Who forwards what to whom; pkt_fwd_config_display().
void print_forward_config(Forwarder& f);
// Mode, burst and queues; rxtx_config_display().
void print_rxtx_config(Forwarder& f);
void print_forwarding_lcores(Forwarder& f);
// Since forwarding began or `clear fwd stats`; fwd_stats_display().
void print_forward_stats(Session& s);

// A line where every port waits for packets that nobody will send.
void warn_of_silence(Forwarder& f, uint32_t tx_first, std::FILE* to);

}  // namespace kilim::testpmd
