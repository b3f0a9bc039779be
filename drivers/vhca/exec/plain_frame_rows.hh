// SPDX-License-Identifier: BSD-3-Clause
// Rows of frames that leave by the straight way (plain_frames.hh), of one length and key, four at a
// time: what must be equal is compared, and looked at once for all. Adapter's lock held. Never
// allocates; WQEs are untrusted.
#pragma once

#include <cstdint>

#include "vhca/ethernet/eth_ask.hh"
#include "vhca/exec/plain_sending.hh"

namespace kilim::vhca::exec {

// WQEs from that index on, of which `most` are there: SENDs of one pointer that ask for no
// checksum, a multiple of four, of which the last alone may complete. How many have left; `said` by
// the last of them. Less than could be: those behind them are not alike, or the ring is full, and
// go one by one.
uint32_t put_send_rows(Sending&, uint16_t index, uint32_t most, Said& said) noexcept;

// Pointers of a WQE of many packets in [at, end): how many have left, a multiple of four.
uint32_t put_segment_rows(Sending&, uint64_t at, uint64_t end, ethernet::EthAsk ask) noexcept;

}  // namespace kilim::vhca::exec
