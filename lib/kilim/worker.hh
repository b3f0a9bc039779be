// SPDX-License-Identifier: BSD-3-Clause
// worker::Worker is the poll loop of one lcore. It runs its pollers in turn, collects messages,
// keeps time, reports quiescence, and yields or sleeps while nothing comes. Ports, virtual devices
// and the program's own work are pollers.
//
// Threads: the control lcore makes, changes and stops a worker, also while it runs; run() is called
// on the worker's lcore. post(), wake() and stop() any thread, signal handlers included.
//
// Errors: create() gives EINVAL; add() EEXIST; remove() ENOENT; EDEADLK: called inside run(). A
// poller cannot fail: it returns how much work it did.
//
// Example:
//   uint32_t count(void* context, uint32_t) noexcept {
//     ++*static_cast<uint64_t*>(context);
//     return 0;  // nothing to do: the worker may rest
//   }
//   int main() {
//     uint64_t rounds = 0;
//     auto worker = kilim::worker::Worker::create({.lcore = 0});
//     if (!worker || !(*worker)->add({.fn = count, .context = &rounds})) return 1;
//     (*worker)->round();
//     return rounds == 1 ? 0 : 1;
//   }
#pragma once

#include "kilim/detail/worker/poller.hh"
#include "kilim/detail/worker/quiescence.hh"
#include "kilim/detail/worker/worker.hh"
