// SPDX-License-Identifier: BSD-3-Clause
// Receives of compressed blocks as mbufs: a title and arrays of minis, of which four make four
// mbufs (kilim/detail/burst/rx_compressed.hh does it for handles). Owner: the queue's lcore. A
// burst never locks, logs or calls the system.
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "kilim/prm/cqe.hh"
#include "net/kilim/mbuf_rx.hh"

namespace kilim::net {

// Takes up to `want` packets of the block whose title is at the front, from the first on that was
// not received yet; returns how many. What the minis do not say its title says of all.
uint16_t take_block(MbufRx& q, const prm::Cqe& title, rte_mbuf** out, uint32_t want) noexcept;

}  // namespace kilim::net
