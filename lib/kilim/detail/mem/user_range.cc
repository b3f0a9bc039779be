// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mem/user_range.hh"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "kilim/detail/mem/block.hh"

namespace kilim::inline v1::mem {
namespace {

struct Close {
  void operator()(std::FILE* f) const noexcept { (void)std::fclose(f); }
};

// Gets the mappings in the order of addresses and keeps the parts that lie in [at, end). A gap
// stops `at`, so that it does not reach `end`.
struct Collector {
  uint64_t at, end;
  uint64_t from = 0, to = 0;  // the mapping that is being read
  std::vector<Range> runs;

  void mapping(uint64_t start, uint64_t stop) noexcept { from = start, to = stop; }
  void page_size(uint64_t bytes) {
    if (at >= end || from > at || to <= at) return;
    const uint64_t stop = std::min(end, to);
    if (!runs.empty() && runs.back().page_bytes == bytes) {
      runs.back().bytes += stop - at;
    } else {
      auto* base = reinterpret_cast<std::byte*>(at);
      runs.push_back({base, stop - at, bytes, node_of(base)});
    }
    at = stop;
  }
};

}  // namespace

Result<std::vector<Range>> user_runs(std::span<std::byte> memory) {
  const std::unique_ptr<std::FILE, Close> maps{std::fopen("/proc/self/smaps", "re")};
  if (maps == nullptr) return Error{errno, "the kernel does not tell this process's mappings"};
  const auto start = reinterpret_cast<uint64_t>(memory.data());
  Collector c{.at = start, .end = start + memory.size(), .runs = {}};
  char line[512];
  while (c.at < c.end && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    uint64_t a = 0;
    uint64_t b = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &a, &b) == 2) {
      c.mapping(a, b);
    } else if (std::sscanf(line, "KernelPageSize: %" SCNu64 " kB", &a) == 1) {
      c.page_size(a * 1024);
    }
  }
  if (c.at < c.end || memory.empty()) return Error{EFAULT, "the memory is not mapped throughout"};
  return std::move(c.runs);
}

}  // namespace kilim::inline v1::mem
