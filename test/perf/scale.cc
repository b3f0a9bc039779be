// SPDX-License-Identifier: BSD-3-Clause
// scale: what the device costs beside more and more objects, and what a frame over a wire costs,
// each in turns with its counterpart. Prints an object of JSON a line: `ns` and `peer` are
// nanoseconds, `bytes` what one object takes of the process's memory. KILIM_CHECK=long: a million
// keys as well. Usage: scale [SAMPLES]    of about 2 ms a side, 9 to 1,000; default 9
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "cli/json.hh"
#include "eal.hh"
#include "perf/compare/measure.hh"
#include "perf/device/lines.hh"
#include "perf/device/memory.hh"

namespace kilim::perf {
namespace {

constexpr Case queues[] = {{"1", 1},       {"16", 16},     {"256", 256},
                           {"1024", 1024}, {"4096", 4096}, {"8192", 8192}};
constexpr Case cqs[] = {{"1", 1}, {"256", 256}, {"4096", 4096}, {"16384", 16384}};
constexpr Case keys[] = {{"10", 10}, {"1000", 1000}, {"10000", 10000}, {"100000", 100000}};
constexpr Case most_keys[] = {{"1000000", 1'000'000}};
// The small one comes last and stays: each region registered reads all mappings.
constexpr Case sizes[] = {{"1073741824", 1u << 30}, {"65536", 1u << 16}};
constexpr Case depths[] = {{"1", 1}, {"2", 2}, {"4", 4}};
constexpr Case entries[] = {{"52", 52}, {"256", 256}, {"4096", 4096}, {"65532", 65532}};
constexpr Case one[] = {{"1", 1}};
constexpr Case frames[] = {{"8", 8}, {"1", 1}};

struct Row {
  const Line& line;
  std::span<const Case> cases;
};
// A million keys take a GiB: with KILIM_CHECK=long, at the end.
const Row long_rows[] = {{scale_key_line, most_keys}, {scale_make_line, most_keys}};
const Row rows[] = {
    {scale_write_line, queues}, {scale_arm_line, cqs},    {scale_key_line, keys},
    {scale_make_line, keys},    {scale_size_line, sizes}, {scale_depth_line, depths},
    {scale_turn_line, one},     {scale_idle_line, one},   {scale_list_line, entries},
    {scale_copy_line, entries}, {scale_send_line, one},   {scale_atomic_line, one},
    {wire_unix_line, frames},   {wire_udp_line, frames},  {wire_shm_line, frames}};

void print(const char* metric, const char* count, const LineResult& l) {
  cli::JsonObject()
      .text("test", metric)
      .text("count", count)
      .real("ns", l.kilim_ns, 2)
      .real("peer", l.peer_ns, 2)
      .real("ratio", l.ratio(), 4)
      .print();
}

// False: an object was refused, which was said.
bool print_memory(const MemoryRow& row) {
  const auto bytes = measure_memory(row);
  if (!bytes) {
    std::fprintf(stderr, "scale: %s: one was refused\n", row.what);
    return false;
  }
  cli::JsonObject()
      .text("test", row.what)
      .text("count", std::to_string(count_of(row)).c_str())
      .real("bytes", *bytes, 1)
      .real("goal", row.most_bytes, 0)
      .flag("met", *bytes <= row.most_bytes)
      .print();
  return true;
}

// False: a request failed, which was said.
bool print_rows(Rig& rig, uint32_t samples, std::span<const Row> of) {
  for (const Row& row : of) {
    for (const Case& c : row.cases) {
      Line own = row.line;
      own.cases = {&c, 1};
      const auto result = measure_line(rig, own, samples);
      if (!result) {
        std::fprintf(stderr, "scale: %s, %s: a request failed\n", own.metric, c.name);
        return false;
      }
      print(own.metric, c.name, *result);
    }
  }
  return true;
}

int main(int argc, char** argv) {
  const uint32_t samples =
      argc > 1 ? static_cast<uint32_t>(std::clamp(std::atoi(argv[1]), 9, 1000)) : 9;
  if (!test::start_eal()) return 1;
  auto rig = std::make_unique<Rig>();
  if (const std::string why = rig->open("vhca0"); !why.empty()) {
    std::fprintf(stderr, "scale: %s\n", why.c_str());
    return 1;
  }
  if (!print_rows(*rig, samples, rows) || (long_check() && !print_rows(*rig, samples, long_rows)))
    return 1;
  for (const MemoryRow& row : memory_rows())
    if (!print_memory(row)) return 1;
  return 0;
}

}  // namespace
}  // namespace kilim::perf

int main(int argc, char** argv) {
  return kilim::perf::main(argc, argv);
}
