// SPDX-License-Identifier: BSD-3-Clause
// Memory from EAL without hugepages, and beside EAL.
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <rte_eal.h>
#include <rte_malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "far.hh"
#include "kilim/detail/mem/block.hh"
#include "kilim/detail/mem/limits.hh"
#include "kilim/detail/mem/range.hh"
#include "kilim/detail/mem/user_range.hh"
#include "ut.hh"

namespace mem_ut {
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
    EQUAL(block->range().bytes, 3 * mib);
    EQUAL(reinterpret_cast<uintptr_t>(block->range().base) % mib, 0);
    EQUAL(block->range().page_bytes, static_cast<uint64_t>(getpagesize()));
    CU_ASSERT_TRUE(zeroed_and_writable(block->span()));
    EQUAL(Block::reserve("mem_ut", mib, 64, -1).error().code, EEXIST);
  }
  EQUAL(Block::reserve("mem_ut", std::size_t{1} << 40, 64, -1).error().code, ENOMEM);
}

void beside_eal() {
  Result<Block> block = Block::map(5000, -1);
  CU_ASSERT_TRUE_FATAL(block.ok());
  EQUAL(block->range().bytes, 8192);
  EQUAL(block->range().page_bytes, 4096);
  CU_ASSERT_TRUE(zeroed_and_writable(block->span()));
  Block moved = std::move(*block);
  CU_ASSERT_PTR_NULL(block->range().base);
  EQUAL(moved.range().bytes, 8192);
  Result<Block> large = Block::map(5 * mib, 0);
  CU_ASSERT_TRUE_FATAL(large.ok());
  CU_ASSERT_TRUE(large->range().bytes >= 5 * mib);
  EQUAL(large->range().bytes % large->range().page_bytes, 0);
  CU_ASSERT_TRUE(zeroed_and_writable(large->span()));
  EQUAL(Block::map(0, -1).error().code, EINVAL);
  EQUAL(Block::map(~std::size_t{0}, -1).error().code, ENOMEM);
}

void runs() {
  void* p = rte_malloc(nullptr, 4 * mib, 4096);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  const std::span<std::byte> memory{static_cast<std::byte*>(p), 4 * mib};
  Result<std::vector<Range>> runs = runs_of(memory);
  CU_ASSERT_TRUE_FATAL(runs.ok());
  uint64_t sum = 0;
  for (const Range& r : *runs) {
    EQUAL(r.base, memory.data() + sum);
    CU_ASSERT_TRUE(r.page_bytes >= 4096);
    sum += r.bytes;
  }
  EQUAL(sum, 4 * mib);
  bool inside = false;
  for (const Range& r : eal_runs())
    inside |= r.base <= memory.data() && memory.data() + memory.size() <= r.base + r.bytes;
  CU_ASSERT_TRUE(inside);
  rte_free(p);
  std::array<std::byte, 100> mine{};
  EQUAL(runs_of(mine).error().code, ENOENT);
}

// Reserves all huge pages of 2 MiB that are free, touches none.
class NoHugePagesLeft {
 public:
  NoHugePagesLeft() {
    for (std::size_t n = huge_pages(2 * mib).free; n != 0; n = (n + 1) / 2) {
      void* p =
          ::mmap(nullptr, n * 2 * mib, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
      if (p != MAP_FAILED) held_.push_back({static_cast<std::byte*>(p), n * 2 * mib});
      if (p == MAP_FAILED && n == 1) break;
    }
  }
  ~NoHugePagesLeft() {
    for (const auto& m : held_) ::munmap(m.data(), m.size());
  }
  NoHugePagesLeft(const NoHugePagesLeft&) = delete;
  NoHugePagesLeft& operator=(const NoHugePagesLeft&) = delete;

 private:
  std::vector<std::span<std::byte>> held_;
};

// "2 pages ... are needed, FREE of TOTAL are free; reserve more: echo REMEDY > FILE".
struct Explained {
  unsigned long long free = 0, total = 0, remedy = 0;
  std::array<char, 64> file{};

  bool read(const char* text) {
    return std::sscanf(text,
                       "2 pages of 2048 KiB are needed, %llu of %llu are free; reserve more: echo "
                       "%llu > %63s",
                       &free, &total, &remedy, file.data()) == 4;
  }
};

void missing_huge_pages_are_explained() {
  std::array<char, 256> why{};
  Explained said;
  bool found = false;
  for (int tries = 0; tries < 100 && !found; tries++) {  // others may give pages back meanwhile
    const NoHugePagesLeft none;
    Result<Block> block = Block::map(3 * mib, 0, why);
    CU_ASSERT_TRUE_FATAL(block.ok());
    if (!huge_pages(2 * mib).known) break;
    found = block->range().page_bytes == 4096 && said.read(why.data()) && said.free < 2;
  }
  EQUAL(found, huge_pages(2 * mib).known);
  if (found) {
    CU_ASSERT(said.free <= said.total);
    EQUAL(said.remedy, said.total - said.free + 2);
    EQUAL(said.file.data(), "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  }
  Result<Block> small = Block::map(4096, 0, why);
  CU_ASSERT_TRUE(small.ok());
  EQUAL(why[0], '\0');
  explain_huge_pages(3 * mib, 1, why);
  EQUAL(why.data(), "this kernel has no pages of 3072 KiB");
}

// In a child: what a process lowers it cannot raise.
void lock_limit_is_explained() {
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{256 * 1024, 256 * 1024};
    std::array<char, 384> text{};
    bool ok = ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
    explain_lock_limit(mib, text);
    ok = ok && std::strstr(text.data(), "1024 KiB more cannot be pinned") != nullptr;
    ok = ok && std::strstr(text.data(), "(RLIMIT_MEMLOCK) is 256 KiB") != nullptr;
    ok = ok && std::strstr(text.data(), "ulimit -l unlimited") != nullptr;
    limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
      explain_lock_limit(mib, text);
      ok = ok && std::strstr(text.data(), "unlimited here") != nullptr;
    }
    ::_exit(ok ? 0 : 1);
  }
  int status = -1;
  CU_ASSERT(::waitpid(child, &status, 0) == child && status == 0);
}

void plain_memory_falls_into_mappings() {
  constexpr std::size_t page = 4096;
  void* p = ::mmap(kilim::test::far_from_all(8 * page), 8 * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CU_ASSERT_FATAL(p != MAP_FAILED);
  auto* base = static_cast<std::byte*>(p);
  ::mprotect(base + 2 * page, page, PROT_READ);  // three mappings, one page size
  Result<std::vector<Range>> runs = user_runs({base + 100, 6 * page});
  CU_ASSERT_TRUE_FATAL(runs.ok());
  EQUAL_FATAL(runs->size(), 1);
  EQUAL(runs->front().base, base + 100);
  EQUAL(runs->front().bytes, 6 * page);
  EQUAL(runs->front().page_bytes, page);
  EQUAL(runs->front().socket, node_of(base));
  ::munmap(base + 4 * page, page);
  EQUAL(user_runs({base, 6 * page}).error().code, EFAULT);
  EQUAL(user_runs({base + 3 * page, page + 1}).error().code, EFAULT);
  CU_ASSERT_TRUE(user_runs({base + 3 * page, page}).ok());
  EQUAL(user_runs({base, 0}).error().code, EFAULT);
  ::munmap(base, 8 * page);
}

// Where the machine has a huge page left; beside it lie ordinary ones.
void huge_pages_are_recognised() {
  void* p = ::mmap(nullptr, 2 * mib, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (p == MAP_FAILED) {
    std::array<char, 256> why{};
    explain_huge_pages(2 * mib, 2 * mib, why);
    CU_ASSERT(why[0] != '\0');
    return;
  }
  auto* base = static_cast<std::byte*>(p);
  Result<std::vector<Range>> runs = user_runs({base + 5, 2 * mib - 5});
  CU_ASSERT_TRUE_FATAL(runs.ok());
  EQUAL_FATAL(runs->size(), 1);
  EQUAL(runs->front().page_bytes, 2 * mib);
  ::munmap(base, 2 * mib);
}

const kilim::test::Case cases[] = {
    {"missing huge pages are explained with how many there are and how to get more",
     missing_huge_pages_are_explained},
    {"a limit on locked memory is explained with its value and how to raise it",
     lock_limit_is_explained},
    {"plain memory falls into mappings of one page size", plain_memory_falls_into_mappings},
    {"huge pages of a plain mapping are recognised", huge_pages_are_recognised},
    {"a block of EAL is aligned, zeroed and given back", from_eal},
    {"a block beside EAL takes whole pages", beside_eal},
    {"memory falls into runs of one page size", runs},
};

}  // namespace
}  // namespace mem_ut

KILIM_TEST_MAIN(mem) {
  char name[] = "mem_ut";
  char no_huge[] = "--no-huge";
  char no_shconf[] = "--no-shconf";
  char no_pci[] = "--no-pci";
  char memory[] = "-m64";
  char quiet[] = "--log-level=error";
  char lcore[] = "-l0";
  char* eal[] = {name, no_huge, no_shconf, no_pci, memory, quiet, lcore};
  if (rte_eal_init(static_cast<int>(std::size(eal)), eal) < 0) return 2;
  const int rc = kilim::test::run_cases("mem", mem_ut::cases, argc, argv);
  rte_eal_cleanup();
  return rc;
}
