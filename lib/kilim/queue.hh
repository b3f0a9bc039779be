// SPDX-License-Identifier: BSD-3-Clause
// Work queues by hand. queue::WqeCursor appends requests to a send queue (Sq) by rdma_write(),
// rdma_read(), send(), atomic() and their lists; commit() rings the doorbell once for all of them.
// Rq and Srq take receives; Cq decodes completions and retires what they complete. Who wants
// packets takes port.hh, and who wants keys mkey.hh: both have their queues made.
//
// Threads: a queue and its completion queue belong to one worker; debug builds assert it.
//
// Errors: a request is appended or refused with an Outcome (no_room: later; others: never), and a
// refused one has changed nothing. What the device refuses comes as a completion: Completion::ok().
//
// Example:
//   bool write_one(kilim::queue::Sq& sq, kilim::queue::Remote to, kilim::queue::Sge from) {
//     kilim::queue::WqeCursor c{sq};
//     if (!kilim::queue::rdma_write(c, to, from, {.id = 7})) return false;
//     c.commit();
//     return true;
//   }
#pragma once

#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/device_clock.hh"
#include "kilim/detail/queue/error_log.hh"
#include "kilim/detail/queue/eth_packet.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/queue/preset.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/queue/srq.hh"
#include "kilim/detail/queue/watch.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
