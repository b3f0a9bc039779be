// SPDX-License-Identifier: BSD-3-Clause
// Packets. A pool::Handle is eight bytes that name a buffer of an arena and where its data lie; a
// packet is one handle, or several of which all but the last say `more`. pool::SideRecord is what
// the device found in a packet (types, checksums, hash, mark, time) and what it is to do to one
// that is sent. prepend(), append(), adjust() and trim() move a packet's ends, chain(), linearize()
// and copy_packet() its pieces; ExternalMbufs and MbufPool turn packets into DPDK's mbufs and back
// without a copy.
//
// Threads: whoever holds a handle; one at a time. A burst hands handles over
// (doc/buffer-custody.md).
//
// Errors: functions that may not fit return nullptr, false or a count; nothing else fails.
//
// Example:
//   uint32_t bytes_of(std::span<const kilim::pool::Handle> burst) {
//     uint32_t sum = 0;
//     for (std::size_t at = 0; at < burst.size();) {
//       const uint32_t pieces = kilim::burst::chain_length(burst.subspan(at));
//       if (pieces == 0) break;  // the last packet goes on behind the burst
//       sum += kilim::pool::packet_length(burst.subspan(at, pieces));
//       at += pieces;
//     }
//     return sum;
//   }
#pragma once

#include "kilim/detail/burst/tx_packet.hh"
#include "kilim/detail/pool/chain.hh"
#include "kilim/detail/pool/each_data.hh"
#include "kilim/detail/pool/edit.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/pool/mbuf.hh"
