// SPDX-License-Identifier: BSD-3-Clause
// Memory that the library allocates for a region: contiguous, in the largest pages that the machine
// gives, which are stood for here where it has none.
#include <cerrno>
#include <vector>

#include <linux/mman.h>
#include <sys/mman.h>

#include "kilim/detail/mem/limits.hh"
#include "kilim/detail/mem/user_range.hh"
#include "kilim/detail/mr/allocated.hh"
#include "region_fixture.hh"
#include "ut.hh"

namespace {

constexpr std::size_t gib = std::size_t{1} << 30;

// Of the library's calls for memory in huge pages: the sizes, as powers of two, in their order; and
// which of them are answered with memory that stands for such pages. A GiB is never to be had.
struct HugePages {
  std::vector<unsigned> asked;
  unsigned given = 0;  // 21: of 2 MiB
  bool watched = false;
};
HugePages huge;

}  // namespace

// As --wrap=mmap64 names them.
extern "C" void* __real_mmap64(void* at, std::size_t n, int prot, int flags, int fd, off_t offset);
extern "C" void* __wrap_mmap64(void* at, std::size_t n, int prot, int flags, int fd, off_t offset) {
  if (!huge.watched || ((flags & MAP_HUGETLB) == 0 && n < gib))
    return __real_mmap64(at, n, prot, flags, fd, offset);
  errno = ENOMEM;
  if ((flags & MAP_HUGETLB) == 0) return MAP_FAILED;
  const unsigned log = static_cast<unsigned>(flags) >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
  huge.asked.push_back(log);
  if (huge.given != log) return MAP_FAILED;
  const std::size_t size = std::size_t{1} << log;
  auto* more = static_cast<std::byte*>(
      __real_mmap64(at, n + size, prot, MAP_PRIVATE | MAP_ANONYMOUS, fd, offset));
  return more + (size - reinterpret_cast<uintptr_t>(more) % size) % size;
}

namespace {

using namespace kilim;
using mr::Access;
using mr::Region;
using test::page;

mr::Registrar& registrar() {
  static auto* v = new test::VirtualDevice(test::config("alloc0"));
  return v->device->registrar();
}

void the_kernel_says_so_too(std::size_t large) {
  const bool has_some = mem::huge_pages(large).free > 0;
  const auto r = mr::AllocatedRegion::create(registrar(), {.bytes = large, .access = Access::all});
  CU_ASSERT_FATAL(r.ok());
  const auto runs = mem::user_runs(r->memory());
  CU_ASSERT_FATAL(runs.ok());
  EQUAL_FATAL(runs->size(), 1);
  EQUAL(runs->front().page_bytes, has_some ? large : page);
}

// The answer is one range of addresses. Where the machine has such a page the kernel says so too.
void library_memory_is_contiguous() {
  constexpr std::size_t large = std::size_t{2} << 20;
  const auto allocate = [](std::size_t n) {
    return mr::AllocatedRegion::create(registrar(), {.bytes = n, .access = Access::all});
  };
  huge.watched = true;
  for (const bool given : {true, false}) {
    huge.given = given ? 21 : 0;
    huge.asked.clear();
    const auto r = allocate(3 * large);
    CU_ASSERT_FATAL(r.ok());
    CU_ASSERT_FATAL(huge.asked == std::vector<unsigned>{21});
    const Region region = r->region();
    EQUAL(region.length, 3 * large);
    EQUAL(r->memory().size(), 3 * large);
    EQUAL(region.page_bytes, given ? large : page);
    EQUAL(region.entries, given ? 3 : 3 * large / page);
    EQUAL(*r->fall_back() == '\0', given);
    CU_ASSERT(!given || region.address % large == 0);
  }
  // Not for what does not fill one; the largest come first.
  huge.asked.clear();
  CU_ASSERT(allocate(large / 2).ok());
  CU_ASSERT(huge.asked.empty());
  EQUAL(allocate(gib).error().code, ENOMEM);
  EQUAL(huge.asked, (std::vector<unsigned>{30, 21}));
  huge = {};
  the_kernel_says_so_too(large);
}

const kilim::test::Case cases[] = {
    {"memory that the library allocates is contiguous, in the largest pages that the machine gives",
     library_memory_is_contiguous},
};

}  // namespace

KILIM_TEST_SUITE(allocated, cases)
