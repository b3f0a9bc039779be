// SPDX-License-Identifier: BSD-3-Clause
// capture::Capture writes the packets of a port to a pcapng file while workers forward. A worker
// copies each packet into a record; a thread of the capture's own writes. Where records are short,
// packets are left out of the file and counted, and nobody waits for it.
//
// Threads: the control lcore starts and stops it; stats() any thread.
//
// Errors: EBUSY: the port has a capture; EINVAL: sizes out of range; the file's errno. stop() gives
// EIO where something is missing in the file, ETIMEDOUT where a worker is stuck in a burst.
//
// Example:
//   kilim::Status capture_all(kilim::port::Port& port, kilim::worker::Quiescence& workers) {
//     auto capture = kilim::capture::Capture::start(port, {.file = "port0.pcapng",
//                                                          .workers = &workers});
//     if (!capture) return capture.error();
//     return (*capture)->stop();  // when enough has come
//   }
#pragma once

#include "kilim/detail/capture/capture.hh"
#include "kilim/detail/capture/outlet.hh"
