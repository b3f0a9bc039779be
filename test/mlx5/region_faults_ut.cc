// SPDX-License-Identifier: BSD-3-Clause
// One pass through everything that a registrar does, with the k-th ioctl or the k-th allocation of
// libibverbs and libmlx5 failing, for every k: nothing leaks, no region is half made. What is left
// is found by giving back the protection domain, which refuses while a region is in it.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <vector>

#include <infiniband/verbs.h>

#include "faults_fixture.hh"
#include "kilim/detail/mr/allocated.hh"
#include "lock_limit.hh"
#include "region_faults_fixture.hh"
#include "region_fixture.hh"
#include "ut.hh"

// Replaced, so that it can fail. Not inlined: GCC takes free() in a `delete` for a mistake with
// -O1.
[[gnu::noinline]] void* operator new(std::size_t n) {
  void* p = kilim::test::new_fails() ? nullptr : std::malloc(n);
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace region_faults_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using mr::Access;
using mr::Region;

FaultsBench& bench() {
  static auto* b = new FaultsBench;
  return *b;
}

// What a refused call may say: what was injected, or what the libraries make of it.
bool fits(const Error& e) {
  return e.code == EIO || e.code == ENOMEM || e.code == ENOENT;
}

bool keep(FaultsBench& b, const Result<Region>& r) {
  if (r) b.live.push_back(*r);
  return r.ok() || fits(r.error());
}

// The first region of a kind is changed, where there is one. An undefined one stays among those
// that end() destroys.
bool changed(FaultsBench& b, mr::Kind kind, const mr::Change& c) {
  for (Region& r : b.live) {
    if (r.kind != kind || r.undefined) continue;
    const mr::Rereg done = b.registrar->reregister(r, c);
    const bool undefined = done.standing() == mr::Standing::undefined;
    return r.undefined == undefined && (done.ok() || fits(done.error));
  }
  return true;
}

bool pass(FaultsBench& b, Pages& memory) {
  mlx5::VerbsRegistrar& registrar = *b.registrar;
  bool good = true;
  Result<mr::Domain> domain = registrar.create_domain();
  if (domain) b.domain = *domain;
  good = (domain || fits(domain.error())) && good;
  good = keep(b, registrar.register_memory(memory.span(0, 2), Access::all, page)) && good;
  good =
      keep(b, registrar.register_memory_at(memory.span(2, 1), Iova{0x10000}, Access::all, page)) &&
      good;
  good = keep(b, registrar.register_on_demand(memory.span(3, 2), Access::all, {})) && good;
  good = keep(b, registrar.register_implicit(Access::all, {})) && good;
  mr::Change c;
  c.translation = c.access = true;
  c.memory = memory.span(5, 2);
  c.page_bytes = page;
  c.new_access = Access::local_write;
  good = changed(b, mr::Kind::pinned, c) && good;
  if (b.domain) {
    c = {};
    c.domain = true;
    c.new_domain = *b.domain;
    good = changed(b, mr::Kind::pinned, c) && good;
  }
  for (const Region& r : std::vector<Region>(b.live)) {
    const mr::AdviceRange range{r.iova, 8, r.lkey};
    if (r.kind != mr::Kind::on_demand) continue;
    const Status s = registrar.advise({mr::Advice::prefetch_write, true, {&range, 1}});
    good = (s || fits(s.error())) && good;
  }
  if (!b.live.empty() && !b.live[0].undefined) {
    Result<uint32_t> number = registrar.export_region(b.live[0]);
    if (number) good = keep(b, registrar.import_region(*number)) && good;
  }
  c = {};
  c.translation = c.access = true;
  c.memory = memory.span(7, 1);
  c.new_access = Access::local_write;
  good = changed(b, mr::Kind::imported, c) && good;
  Result<mr::AllocatedRegion> own =
      mr::AllocatedRegion::create(registrar, {.bytes = page, .access = Access::all});
  if (own) {
    // Its destructor cannot say that it failed: here it is asked.
    const Status gone = registrar.deregister(own->region());
    good = (gone || fits(gone.error())) && good;
  }
  return (own || fits(own.error())) && good;
}

std::size_t open_files() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator{"/proc/self/fd"}) n++;
  return n;
}

// For k = 1, 2, ... until nothing fails any more. How often something did.
template <typename Arm>
uint64_t every(Arm arm_kth) {
  Pages memory(8);
  CU_ASSERT_FATAL(bench().begin());
  CU_ASSERT(pass(bench(), memory));
  CU_ASSERT(bench().end());  // opens what stays open
  const std::size_t files = open_files();
  for (uint64_t k = 1;; k++) {
    CU_ASSERT_FATAL(k < 1000);
    CU_ASSERT_FATAL(bench().begin());
    arm(arm_kth(k));
    const bool good = pass(bench(), memory);
    const bool hit = faults().hit;
    arm({});
    const bool clean = bench().end();
    if (!good || !clean) std::printf("k = %llu\n", static_cast<unsigned long long>(k));
    CU_ASSERT(good);
    CU_ASSERT(clean);
    EQUAL(open_files(), files);
    if (!hit) return k - 1;
  }
}

void failing_ioctls() {
  for (const int code : {EIO, ENOMEM}) {
    const uint64_t n = every([code](uint64_t k) {
      Faults f;
      f.fail_ioctl = k;
      f.ioctl_error = code;
      return f;
    });
    CU_ASSERT(n >= 12);
  }
}

void failing_allocations() {
  const uint64_t n = every([](uint64_t k) {
    Faults f;
    f.fail_allocation = k;
    return f;
  });
  CU_ASSERT(n >= 6);
}

// The library's own heap is the C++ one: who runs out of it in set-up ends there and then (decision
// 0003), so that nothing half made is left to go on with.
void an_exhausted_heap_ends_the_process() {
  Pages memory(8);
  uint64_t ended = 0;
  for (uint64_t k = 1; k < 1000; k++) {
    CU_ASSERT_FATAL(bench().begin());
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      const rlimit no_core{};
      ::setrlimit(RLIMIT_CORE, &no_core);
      (void)std::freopen("/dev/null", "w", stderr);
      FaultsBench own;
      const bool begun = own.begin();
      Faults f;
      f.fail_new = k;
      arm(f);
      const bool good = begun && pass(own, memory);
      const bool hit = faults().hit;
      arm({});
      ::_exit(!good || !own.end() ? 1 : hit ? 2 : 0);
    }
    int status = -1;
    EQUAL(::waitpid(child, &status, 0), child);
    CU_ASSERT_FATAL(bench().end());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    if (!aborted) std::printf("k = %llu: %d\n", static_cast<unsigned long long>(k), status);
    CU_ASSERT_FATAL(aborted);
    ended++;
  }
  CU_ASSERT(ended >= 6);
}

// A region and a queue of a device of its own, in a child whom the limit binds.
int beyond_the_lock_limit() {
  FaultsBench own;
  Pages memory(20);
  if (!own.begin() || !give_up_lock_capability() || !may_lock(16)) return 1;
  Result<Region> most = own.registrar->register_memory(memory.span(0, 16), Access::all, page);
  Result<Region> r = own.registrar->register_memory(memory.span(16, 2), Access::all, page);
  if (!most || r || r.error().code != ENOMEM) return 2;
  if (std::strcmp(r.error().what,
                  "8 KiB more cannot be pinned: the limit on locked memory (RLIMIT_MEMLOCK) is 64 "
                  "KiB; raise it with `ulimit -l unlimited`, memlock in /etc/security/limits.conf "
                  "or LimitMEMLOCK= of the service, or grant CAP_IPC_LOCK") != 0)
    return 3;
  // On demand nothing is pinned.
  Result<Region> paged = own.registrar->register_on_demand(memory.span(), Access::all, {});
  if (!paged || !own.registrar->deregister(*paged)) return 4;
  if (!own.registrar->deregister(*most) || !may_lock(0)) return 5;
  r = own.registrar->register_memory(memory.span(0, 1), Access::all, page);
  if (r || r.error().code != EPERM || std::strstr(r.error().what, " is 0 KiB") == nullptr) return 6;
  auto device = mlx5::open("faults0");
  if (!device) return 7;
  auto cq = (*device)->create_cq({.entries = 63});
  if (cq || std::strstr(cq.error().what, "RLIMIT_MEMLOCK") == nullptr) return 8;
  return own.end() ? 0 : 9;
}

void lock_limit_is_said() {
  CU_ASSERT_FATAL(bench().begin());
  Pages memory(32);
  Result<Region> ours = bench().registrar->register_memory(memory.span(), Access::all, page);
  CU_ASSERT(ours.ok());  // which is not the child's
  EQUAL(in_child(beyond_the_lock_limit), 0);
  Faults f;
  f.fail_ioctl = 1;
  f.ioctl_error = ENOMEM;
  arm(f);
  Result<Region> paged = bench().registrar->register_on_demand(memory.span(), Access::all, {});
  arm({});
  CU_ASSERT(!paged && paged.error().code == ENOMEM &&
            std::strstr(paged.error().what, "on-demand") != nullptr);
  CU_ASSERT(ours && bench().registrar->deregister(*ours));
  CU_ASSERT(bench().end());
}

const kilim::test::Case cases[] = {
    {"an exhausted heap of the library's own ends the process", an_exhausted_heap_ends_the_process},
    {"a failing ioctl at every k-th call leaves no leak and no half-made region", failing_ioctls},
    {"a failing allocation at every k-th call leaves no leak and no half-made region",
     failing_allocations},
    {"memory beyond the lock limit is refused with the limit's name, value and remedy",
     lock_limit_is_said},
};

}  // namespace
}  // namespace region_faults_ut

KILIM_TEST_MAIN(region_faults) {
  if (region_faults_ut::bench().context == nullptr || !kilim::test::place_faults()) return 2;
  return kilim::test::run_cases("mlx5/region_faults", region_faults_ut::cases, argc, argv);
}
