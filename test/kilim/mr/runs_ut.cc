// SPDX-License-Identifier: BSD-3-Clause
// Regions over EAL's memory, with a registrar that writes down what it is asked.
#include <array>
#include <cerrno>

#include <rte_malloc.h>
#include <rte_memory.h>
#include <sys/mman.h>

#include "eal.hh"
#include "kilim/mr/runs.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::mr;

constexpr std::size_t huge = std::size_t{2} << 20;

class Recorder final : public Registrar {
 public:
  Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                 uint64_t page_bytes) override {
    if (live == room) return Error{ENOMEM, "no room"};
    live++;
    Region r;
    r.address = r.iova = reinterpret_cast<uintptr_t>(memory.data());
    r.length = memory.size();
    r.page_bytes = page_bytes;
    r.access = access;
    return r;
  }
  Result<Region> register_memory_at(std::span<std::byte> memory, Iova, uint32_t access,
                                    uint64_t page_bytes) override {
    return register_memory(memory, access, page_bytes);
  }
  Status deregister(const Region&) override {
    live--;
    return Done{};
  }
  int live = 0;
  int room = 8;
};

// Two neighbours of 2 MiB that EAL knows, the first by small pages, the second by one large one.
struct Neighbours {
  Neighbours() {
    void* p = ::mmap(nullptr, 3 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    mapped = static_cast<std::byte*>(p);
    base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(p) + huge - 1) & ~(huge - 1));
    ok = rte_extmem_register(base, huge, nullptr, huge / 4096, 4096) == 0 &&
         rte_extmem_register(base + huge, huge, nullptr, 1, huge) == 0;
  }
  ~Neighbours() {
    if (mapped == nullptr) return;
    (void)rte_extmem_unregister(base, huge);
    (void)rte_extmem_unregister(base + huge, huge);
    ::munmap(mapped, 3 * huge);
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  std::byte* mapped = nullptr;
  std::byte* base = nullptr;
  bool ok = false;
};

void one_run_is_one_region() {
  void* p = rte_malloc(nullptr, huge, 4096);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  Recorder registrar;
  {
    auto regions = register_runs(registrar, {static_cast<std::byte*>(p), huge}, Access::all);
    CU_ASSERT_FATAL(regions.ok() && regions->size() == 1);
    const Region& r = regions->front().region();
    CU_ASSERT(r.address == reinterpret_cast<uintptr_t>(p) && r.length == huge);
    CU_ASSERT(r.page_bytes == 4096 && r.access == Access::all);
    CU_ASSERT_EQUAL(registrar.live, 1);
  }
  CU_ASSERT_EQUAL(registrar.live, 0);
  rte_free(p);
}

void pages_of_two_sizes_are_two_regions() {
  Neighbours n;
  CU_ASSERT_FATAL(n.ok);
  Recorder registrar;
  auto regions = register_runs(registrar, {n.base + 4096, 2 * huge - 8192}, Access::local_write);
  CU_ASSERT_FATAL(regions.ok() && regions->size() == 2);
  const Region& small = (*regions)[0].region();
  const Region& large = (*regions)[1].region();
  CU_ASSERT(small.address == reinterpret_cast<uintptr_t>(n.base + 4096));
  CU_ASSERT(small.length == huge - 4096 && small.page_bytes == 4096);
  CU_ASSERT(large.address == small.address + small.length);
  CU_ASSERT(large.length == huge - 4096 && large.page_bytes == huge);
}

void a_refusal_leaves_nothing() {
  Neighbours n;
  CU_ASSERT_FATAL(n.ok);
  Recorder registrar;
  registrar.room = 1;
  auto regions = register_runs(registrar, {n.base, 2 * huge}, Access::local_write);
  CU_ASSERT(!regions.ok() && regions.error().code == ENOMEM);
  CU_ASSERT_EQUAL(registrar.live, 0);
  std::array<std::byte, 64> mine{};
  auto foreign = register_runs(registrar, mine, Access::local_write);
  CU_ASSERT(!foreign.ok() && foreign.error().code == ENOENT && registrar.live == 0);
}

const kilim::test::Case cases[] = {
    {"a run of equal pages is one region", one_run_is_one_region},
    {"pages of two sizes are two regions", pages_of_two_sizes_are_two_regions},
    {"a refusal leaves nothing registered", a_refusal_leaves_nothing},
};

}  // namespace

int main(int argc, char** argv) {
  if (!kilim::test::start_eal()) return 2;
  return kilim::test::run_cases("runs", cases, argc, argv);
}
