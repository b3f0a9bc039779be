// SPDX-License-Identifier: BSD-3-Clause
// What objects take of a process's memory, rings, tables of libmlx5 and the adapter's records
// together. Plain values; one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "perf/device/crowd.hh"

namespace kilim::perf {

struct MemoryRow {
  const char* what;
  Crowd::Idle kind;
  std::size_t count, long_count;  // objects; with KILIM_CHECK=long
  double most_bytes;              // of one: the goal
};
std::span<const MemoryRow> memory_rows() noexcept;
// KILIM_CHECK=long is in the environment.
bool long_check() noexcept;
// Objects of a row that are made.
std::size_t count_of(const MemoryRow&) noexcept;
// Bytes that one takes, by an adapter of its own; nothing: one was refused.
std::optional<double> measure_memory(const MemoryRow&);

}  // namespace kilim::perf
