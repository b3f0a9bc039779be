// SPDX-License-Identifier: BSD-3-Clause
// Counts what the allocator has given out: rings lie on the heap here (crowd.hh).
#include "perf/device/memory.hh"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <malloc.h>

namespace kilim::perf {
namespace {

constexpr MemoryRow rows[] = {
    // libibverbs reads the process's mappings for each: test `doorbells` has 100,000.
    {"memory of a region", Crowd::Idle::region, 500, 5'000, 344},
    {"memory of a queue pair of depth 16", Crowd::Idle::queue_pair, 10'000, 100'000, 8'200},
    {"memory of a completion queue of 64", Crowd::Idle::completion_queue, 10'000, 100'000, 5'600},
};

std::size_t in_use() noexcept {
  const struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
}

}  // namespace

std::span<const MemoryRow> memory_rows() noexcept {
  return rows;
}

bool long_check() noexcept {
  const char* mode = std::getenv("KILIM_CHECK");
  return mode != nullptr && std::strcmp(mode, "long") == 0;
}

std::size_t count_of(const MemoryRow& row) noexcept {
  return long_check() ? row.long_count : row.count;
}

std::optional<double> measure_memory(const MemoryRow& row) {
  const auto crowd = std::make_unique<Crowd>();
  const std::string name = "memory" + std::to_string(static_cast<int>(row.kind));
  if (!crowd->open(name).empty()) return std::nullopt;
  // The first ones bring tables.
  const std::size_t count = count_of(row);
  crowd->expect_idle(row.kind, 64 + count);
  if (!crowd->add_idle(row.kind, 64)) return std::nullopt;
  const std::size_t before = in_use();
  if (!crowd->add_idle(row.kind, count)) return std::nullopt;
  return static_cast<double>(in_use() - before) / static_cast<double>(count);
}

}  // namespace kilim::perf
