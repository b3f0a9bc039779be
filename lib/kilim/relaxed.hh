// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions: memory registered by a work request instead of a system call. A region is a key
// over a part of an arena that is registered already; deregistering only marks it, and flush()
// invalidates what is marked.
//
// Threads: made by the control thread, used by the worker of the binder's queue. Within an arena
// nothing allocates, blocks, logs or calls the system.
//
// Errors: register_memory() answers whether the region is registered, all keys are in use (flush
// and try again) or no arena covers the memory; create() gives EINVAL, ENOMEM.
//
// Example:
//   #include <utility>
//   void end(kilim::relaxed::Relaxed& relaxed, kilim::relaxed::Region&& region) {
//     relaxed.deregister(std::move(region));
//     while (!relaxed.flush()) relaxed.poll();  // until nobody can reach the memory any more
//   }
#pragma once

#include "kilim/detail/relaxed/relaxed.hh"
