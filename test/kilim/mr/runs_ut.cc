// SPDX-License-Identifier: BSD-3-Clause
// Regions over EAL's memory, with a registrar that writes down what it is asked.
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <sys/mman.h>

#include "eal.hh"
#include "far.hh"
#include "kilim/detail/mr/allocated.hh"
#include "kilim/detail/mr/runs.hh"
#include "ut.hh"

namespace runs_ut {
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
    CU_ASSERT_FATAL(regions.ok());
    EQUAL_FATAL(regions->size(), 1);
    const Region& r = regions->front().region();
    EQUAL(r.address, reinterpret_cast<uintptr_t>(p));
    EQUAL(r.length, huge);
    EQUAL(r.page_bytes, 4096);
    EQUAL(r.access, Access::all);
    EQUAL(registrar.live, 1);
  }
  EQUAL(registrar.live, 0);
  rte_free(p);
}

void pages_of_two_sizes_are_two_regions() {
  Neighbours n;
  CU_ASSERT_FATAL(n.ok);
  Recorder registrar;
  auto regions = register_runs(registrar, {n.base + 4096, 2 * huge - 8192}, Access::local_write);
  CU_ASSERT_FATAL(regions.ok());
  EQUAL_FATAL(regions->size(), 2);
  const Region& small = (*regions)[0].region();
  const Region& large = (*regions)[1].region();
  EQUAL(small.address, reinterpret_cast<uintptr_t>(n.base + 4096));
  EQUAL(small.length, huge - 4096);
  EQUAL(small.page_bytes, 4096);
  EQUAL(large.address, small.address + small.length);
  EQUAL(large.length, huge - 4096);
  EQUAL(large.page_bytes, huge);
}

void a_refusal_leaves_nothing() {
  Neighbours n;
  CU_ASSERT_FATAL(n.ok);
  Recorder registrar;
  registrar.room = 1;
  auto regions = register_runs(registrar, {n.base, 2 * huge}, Access::local_write);
  CU_ASSERT(!regions.ok() && regions.error().code == ENOMEM);
  EQUAL(registrar.live, 0);
  std::array<std::byte, 64> mine{};
  auto foreign = register_runs(registrar, mine, Access::local_write);
  CU_ASSERT(!foreign.ok() && foreign.error().code == ENOENT);
  EQUAL(registrar.live, 0);
}

void plain_memory_is_registered() {
  Neighbours n;
  CU_ASSERT_FATAL(n.ok);
  void* p = ::mmap(kilim::test::far_from_all(3 * 4096), 3 * 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CU_ASSERT_FATAL(p != MAP_FAILED);
  Recorder registrar;
  {
    auto mine = register_range(registrar, {static_cast<std::byte*>(p), 3 * 4096}, Access::all);
    CU_ASSERT_FATAL(mine.ok());
    EQUAL_FATAL(mine->size(), 1);
    EQUAL(mine->front().region().page_bytes, 4096);
    auto external = register_range(registrar, {n.base, 2 * huge}, Access::all);
    CU_ASSERT_FATAL(external.ok());
    EQUAL_FATAL(external->size(), 2);
    EQUAL((*external)[1].region().page_bytes, huge);
    EQUAL(registrar.live, 3);
  }
  ::munmap(p, 3 * 4096);
  auto gone = register_range(registrar, {static_cast<std::byte*>(p), 4096}, Access::all);
  CU_ASSERT(!gone.ok() && gone.error().code == EFAULT);
  EQUAL(registrar.live, 0);
}

bool covered(const std::vector<Mr>& regions, const void* at, std::size_t bytes) {
  for (const Mr& r : regions) {
    if (r.region().covers(reinterpret_cast<uintptr_t>(at), bytes)) return true;
  }
  return false;
}

struct Seen {
  const std::vector<Mr>* regions;
  bool buffers = true, objects = true;
};

void look(rte_mempool* pool, void* seen, void* object, unsigned) {
  auto* s = static_cast<Seen*>(seen);
  const auto* m = static_cast<const rte_mbuf*>(object);
  s->buffers = s->buffers && covered(*s->regions, m->buf_addr, m->buf_len);
  s->objects = s->objects && covered(*s->regions, object, pool->elt_size);
}

void pools_are_registered_whole() {
  rte_mempool* pool = rte_pktmbuf_pool_create("runs_ut", 511, 0, 0, 2048, SOCKET_ID_ANY);
  CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  Recorder registrar;
  {
    auto regions = register_mempool(registrar, pool, Access::all);
    CU_ASSERT_FATAL(regions.ok());
    Seen seen{&*regions};
    rte_mempool_obj_iter(pool, look, &seen);
    CU_ASSERT(seen.buffers);
    CU_ASSERT(seen.objects);
  }
  EQUAL(registrar.live, 0);
  rte_mempool_free(pool);
  rte_mempool* empty = rte_mempool_create_empty("runs_ut2", 8, 64, 0, 0, SOCKET_ID_ANY, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(empty);
  EQUAL(register_mempool(registrar, empty, Access::all).error().code, EINVAL);
  EQUAL(rte_mempool_populate_anon(empty), 8);  // memory that EAL does not know
  auto regions = register_mempool(registrar, empty, Access::all);
  CU_ASSERT(regions.ok() && !regions->empty());
  CU_ASSERT(registrar.live > 0);
  regions->clear();
  rte_mempool_free(empty);
}

void buffers_outside_a_pool_are_registered_too() {
  Neighbours n;
  CU_ASSERT_FATAL(n.ok);
  const rte_pktmbuf_extmem external{n.base, 0, huge, 2048};
  rte_mempool* pool =
      rte_pktmbuf_pool_create_extbuf("runs_ut3", 255, 0, 0, 2048, SOCKET_ID_ANY, &external, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  Recorder registrar;
  {
    auto regions = register_mempool(registrar, pool, Access::all);
    CU_ASSERT_FATAL(regions.ok());
    Seen seen{&*regions};
    rte_mempool_obj_iter(pool, look, &seen);
    CU_ASSERT(seen.buffers);
    CU_ASSERT(seen.objects);
  }
  rte_mempool_free(pool);
}

void the_library_allocates() {
  Recorder registrar;
  {
    auto r = AllocatedRegion::create(registrar, {.bytes = 5000, .access = Access::all, .node = 0});
    CU_ASSERT_FATAL(r.ok());
    EQUAL(r->region().kind, Kind::allocated);
    EQUAL(r->region().length, 8192);
    EQUAL(r->region().page_bytes, 4096);
    EQUAL(r->fall_back()[0], '\0');
    EQUAL(r->memory()[8191], std::byte{0});
    auto large = AllocatedRegion::create(registrar, {.bytes = huge, .access = Access::all});
    CU_ASSERT_FATAL(large.ok());
    // Large pages, or it is said why not.
    EQUAL(large->region().page_bytes == huge, large->fall_back()[0] == '\0');
    EQUAL(registrar.live, 2);
  }
  EQUAL(registrar.live, 0);
  auto odp = AllocatedRegion::create(registrar,
                                     {.bytes = huge, .access = Access::all | Access::on_demand});
  CU_ASSERT(!odp.ok() && odp.error().code == EINVAL);
  CU_ASSERT_PTR_NOT_NULL(std::strstr(odp.error().what, "does not support contiguous pages"));
  registrar.room = 0;
  EQUAL(AllocatedRegion::create(registrar, {.bytes = 1}).error().code, ENOMEM);
  EQUAL(AllocatedRegion::create(registrar, {.bytes = 0}).error().code, EINVAL);
}

const kilim::test::Case cases[] = {
    {"plain and external memory is registered by page size", plain_memory_is_registered},
    {"all objects and buffers of a mempool are registered", pools_are_registered_whole},
    {"pinned external buffers of a mempool are registered too",
     buffers_outside_a_pool_are_registered_too},
    {"memory allocated by the library is contiguous, or it is said why not, and never paged",
     the_library_allocates},
    {"a run of equal pages is one region", one_run_is_one_region},
    {"pages of two sizes are two regions", pages_of_two_sizes_are_two_regions},
    {"a refusal leaves nothing registered", a_refusal_leaves_nothing},
};

}  // namespace
}  // namespace runs_ut

KILIM_TEST_MAIN(runs) {
  if (!kilim::test::start_eal()) return 2;
  return kilim::test::run_cases("runs", runs_ut::cases, argc, argv);
}
