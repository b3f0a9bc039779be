// SPDX-License-Identifier: BSD-3-Clause
// Memory from EAL without hugepages, and beside EAL.
#include <array>
#include <cerrno>
#include <cstdint>

#include <rte_eal.h>
#include <rte_malloc.h>
#include <unistd.h>

#include "kilim/mem/block.hh"
#include "kilim/mem/range.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::mem;

constexpr std::size_t mib = 1u << 20;

bool zeroed_and_writable(std::span<std::byte> memory) {
  for (std::size_t i = 0; i < memory.size(); i += 509) {
    if (memory[i] != std::byte{0}) return false;
    memory[i] = std::byte{0x5a};
  }
  return true;
}

void from_eal() {
  for (int round = 0; round < 2; round++) {  // the second gets used memory again
    Result<Block> block = Block::reserve("mem_ut", 3 * mib, mib, -1);
    CU_ASSERT_TRUE_FATAL(block.ok());
    CU_ASSERT_EQUAL(block->range().bytes, 3 * mib);
    CU_ASSERT_EQUAL(reinterpret_cast<uintptr_t>(block->range().base) % mib, 0);
    CU_ASSERT_EQUAL(block->range().page_bytes, static_cast<uint64_t>(getpagesize()));
    CU_ASSERT_TRUE(zeroed_and_writable(block->span()));
    CU_ASSERT_EQUAL(Block::reserve("mem_ut", mib, 64, -1).error().code, EEXIST);
  }
  CU_ASSERT_EQUAL(Block::reserve("mem_ut", std::size_t{1} << 40, 64, -1).error().code, ENOMEM);
}

void beside_eal() {
  Result<Block> block = Block::map(5000, -1);
  CU_ASSERT_TRUE_FATAL(block.ok());
  CU_ASSERT_EQUAL(block->range().bytes, 8192);
  CU_ASSERT_EQUAL(block->range().page_bytes, 4096);
  CU_ASSERT_TRUE(zeroed_and_writable(block->span()));
  Block moved = std::move(*block);
  CU_ASSERT_PTR_NULL(block->range().base);
  CU_ASSERT_EQUAL(moved.range().bytes, 8192);
  Result<Block> large = Block::map(5 * mib, 0);
  CU_ASSERT_TRUE_FATAL(large.ok());
  CU_ASSERT_TRUE(large->range().bytes >= 5 * mib);
  CU_ASSERT_EQUAL(large->range().bytes % large->range().page_bytes, 0);
  CU_ASSERT_TRUE(zeroed_and_writable(large->span()));
  CU_ASSERT_EQUAL(Block::map(0, -1).error().code, EINVAL);
  CU_ASSERT_EQUAL(Block::map(~std::size_t{0}, -1).error().code, ENOMEM);
}

void runs() {
  void* p = rte_malloc(nullptr, 4 * mib, 4096);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  const std::span<std::byte> memory{static_cast<std::byte*>(p), 4 * mib};
  Result<std::vector<Range>> runs = runs_of(memory);
  CU_ASSERT_TRUE_FATAL(runs.ok());
  uint64_t sum = 0;
  for (const Range& r : *runs) {
    CU_ASSERT_EQUAL(r.base, memory.data() + sum);
    CU_ASSERT_TRUE(r.page_bytes >= 4096);
    sum += r.bytes;
  }
  CU_ASSERT_EQUAL(sum, 4 * mib);
  bool inside = false;
  for (const Range& r : eal_runs())
    inside |= r.base <= memory.data() && memory.data() + memory.size() <= r.base + r.bytes;
  CU_ASSERT_TRUE(inside);
  rte_free(p);
  std::array<std::byte, 100> mine{};
  CU_ASSERT_EQUAL(runs_of(mine).error().code, ENOENT);
}

const kilim::test::Case cases[] = {
    {"a block of EAL is aligned, zeroed and given back", from_eal},
    {"a block beside EAL takes whole pages", beside_eal},
    {"memory falls into runs of one page size", runs},
};

}  // namespace

int main(int argc, char** argv) {
  char name[] = "mem_ut";
  char no_huge[] = "--no-huge";
  char no_shconf[] = "--no-shconf";
  char no_pci[] = "--no-pci";
  char memory[] = "-m64";
  char quiet[] = "--log-level=error";
  char lcore[] = "-l0";
  char* eal[] = {name, no_huge, no_shconf, no_pci, memory, quiet, lcore};
  if (rte_eal_init(static_cast<int>(std::size(eal)), eal) < 0) return 2;
  const int rc = kilim::test::run_cases("mem", cases, argc, argv);
  rte_eal_cleanup();
  return rc;
}
