// SPDX-License-Identifier: BSD-3-Clause
// Buffers for packets. pool::ArenaMemory is hugepage memory cut into buffers; pool::Pool says which
// of them are free; a pool::BufferCache is one lcore's share, from which bursts take and to which
// they give back without a lock.
//
// Threads: the control lcore makes arena and pool; a BufferCache is its lcore's alone; statistics
// any thread.
//
// Errors: ENOMEM: not enough hugepages, and the sentence says how many there are; EINVAL: sizes out
// of range. A cache that finds no buffer returns fewer.
//
// Example:
//   #include <optional>
//   kilim::Status make(std::optional<kilim::pool::ArenaMemory>& memory,
//                      std::optional<kilim::pool::Pool>& pool) {
//     auto arena = kilim::pool::ArenaMemory::create({.buffers = 4096});
//     if (!arena) return arena.error();
//     memory.emplace(*std::move(arena));
//     auto made = kilim::pool::Pool::create(memory->arena(), {.count = 4096});
//     if (!made) return made.error();
//     pool.emplace(*std::move(made));
//     return kilim::Done{};
//   }
#pragma once

#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/config.hh"
#include "kilim/detail/pool/debug.hh"
#include "kilim/detail/pool/mbuf.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/pool/pools.hh"
