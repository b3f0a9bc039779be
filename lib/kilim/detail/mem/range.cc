// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mem/range.hh"

#include <algorithm>
#include <cerrno>

#include <rte_memory.h>

namespace kilim::inline v1::mem {
namespace {

int collect(const rte_memseg_list* list, const rte_memseg* first, size_t bytes, void* out) {
  static_cast<std::vector<Range>*>(out)->push_back(
      Range{static_cast<std::byte*>(first->addr), bytes, list->page_sz, list->socket_id});
  return 0;
}

void sort(std::vector<Range>& runs) {
  std::sort(runs.begin(), runs.end(),
            [](const Range& a, const Range& b) { return a.base < b.base; });
}

}  // namespace

std::vector<Range> eal_runs() {
  std::vector<Range> runs;
  (void)rte_memseg_contig_walk(collect, &runs);
  sort(runs);
  return runs;
}

std::vector<Range> eal_runs_locked() {
  std::vector<Range> runs;
  (void)rte_memseg_contig_walk_thread_unsafe(collect, &runs);
  sort(runs);
  return runs;
}

std::vector<Range> runs_in_locked(std::span<std::byte> memory) {
  std::vector<Range> out;
  std::byte* const end = memory.data() + memory.size();
  for (const Range& run : eal_runs_locked()) {
    std::byte* const from = std::max(run.base, memory.data());
    std::byte* const to = std::min(run.base + run.bytes, end);
    if (from < to)
      out.push_back({from, static_cast<uint64_t>(to - from), run.page_bytes, run.socket});
  }
  return out;
}

Result<std::vector<Range>> runs_of(std::span<std::byte> memory) {
  std::vector<Range> out;
  std::byte* at = memory.data();
  std::byte* const end = at + memory.size();
  for (const Range& run : eal_runs()) {
    std::byte* const run_end = run.base + run.bytes;
    if (at >= end || run_end <= at) continue;
    if (run.base > at) break;
    std::byte* const stop = std::min(end, run_end);
    const Range piece{at, static_cast<uint64_t>(stop - at), run.page_bytes, run.socket};
    const bool goes_on = !out.empty() && out.back().page_bytes == piece.page_bytes;
    if (goes_on) {
      out.back().bytes += piece.bytes;
    } else {
      out.push_back(piece);
    }
    at = stop;
  }
  if (at < end) return Error{ENOENT, "the memory is not all EAL's"};
  return out;
}

}  // namespace kilim::inline v1::mem
