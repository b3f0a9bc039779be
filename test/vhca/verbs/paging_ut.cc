// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging through libibverbs: every errno of ibv_advise_mr, every counter at the
// documents' path, fork.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <linux/netlink.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric_fixture.hh"
#include "far.hh"
#include "vhca/entry/calls.hh"

namespace {
// While it is set the device, which is linked into this program, gets no zeroed memory.
bool no_memory = false;
}  // namespace

// As --wrap=calloc names them.
extern "C" void* __real_calloc(std::size_t n, std::size_t each);
extern "C" void* __wrap_calloc(std::size_t n, std::size_t each) {
  return no_memory ? nullptr : __real_calloc(n, each);
}

namespace {

using namespace kilim::test;
using kilim::vhca::entry::sysfs_root;
namespace vhca = kilim::vhca;

constexpr std::size_t page = 4096;
constexpr unsigned odp = all_access | IBV_ACCESS_ON_DEMAND;

// A counter's file has 20 digits or spaces and a newline; UINT64_MAX: it does not.
uint64_t read_counter(const std::string& path) {
  std::ifstream file(sysfs_root() + path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.size() != 21 || text.back() != '\n') return UINT64_MAX;
  return std::strtoull(text.c_str(), nullptr, 10);
}
uint64_t standard(const char* name) {
  static const std::string folder = [] {
    context();
    std::string found = "/class/infiniband_verbs/" + std::string(context()->device->dev_name) + "/";
    return found;
  }();
  return read_counter(folder + name);
}
// The documents' <pci-dev-id>: the last part of where the device's link leads.
std::string pci_dev_id() {
  context();
  std::error_code error;
  const auto to =
      std::filesystem::read_symlink(sysfs_root() + "/class/infiniband/vhca0/device", error);
  return error ? "" : to.filename().string();
}
uint64_t debug(const char* name) {
  static const std::string folder = "/kernel/debug/mlx5/" + pci_dev_id() + "/odp_stats/";
  return read_counter(folder + name);
}

class Memory {
 public:
  Memory(ibv_pd* pd, std::size_t pages, unsigned access = odp)
      : bytes_(pages * page),
        at_(::mmap(kilim::test::far_from_all(bytes_), bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        mr_(ibv_reg_mr(pd, at_, bytes_, static_cast<int>(access))) {}
  ~Memory() {
    release();
    unmap();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void release() {
    if (mr_ != nullptr) ibv_dereg_mr(mr_);
    mr_ = nullptr;
  }
  void unmap() {
    if (at_ != nullptr) ::munmap(at_, bytes_);
    at_ = nullptr;
  }
  [[nodiscard]] uint64_t at(std::size_t offset = 0) const {
    return reinterpret_cast<uintptr_t>(at_) + offset;
  }
  [[nodiscard]] uint8_t* bytes() const { return static_cast<uint8_t*>(at_); }
  [[nodiscard]] ibv_mr* mr() const { return mr_; }
  [[nodiscard]] ibv_sge sge(std::size_t offset, uint32_t n) const {
    return {at(offset), n, mr_->lkey};
  }

 private:
  std::size_t bytes_;
  void* at_;
  ibv_mr* mr_;
};

int advise(ibv_pd* pd, ibv_sge sge, ibv_advise_mr_advice advice, uint32_t flags = 1) {
  return ibv_advise_mr(pd, advice, flags, &sge, 1);
}

void every_answer_of_advice() {
  constexpr auto prefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr auto prefetch_write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  constexpr auto no_fault = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
  Loop l;
  Memory m(l.pd[0], 4), reader(l.pd[0], 1, IBV_ACCESS_ON_DEMAND), gone(l.pd[0], 1);
  Region pinned(l.pd[0], 64);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m.mr());
  for (auto advice : {prefetch, prefetch_write, no_fault}) {
    for (uint32_t flags : {0u, 1u}) {
      EQUAL(advise(l.pd[0], m.sge(0, 4 * page), advice, flags), 0);
    }
  }
  EQUAL(advise(l.pd[0], m.sge(0, page), static_cast<ibv_advise_mr_advice>(3)), EOPNOTSUPP);
  EQUAL(advise(l.pd[0], m.sge(0, page), prefetch, 2), EINVAL);
  EQUAL(ibv_advise_mr(l.pd[0], prefetch, 1, nullptr, 0), EINVAL);
  for (uint32_t flags : {0u, 1u}) {
    ibv_sge unknown{m.at(), page, m.mr()->lkey ^ 0x10000};
    EQUAL(advise(l.pd[0], unknown, prefetch, flags), ENOENT);
    EQUAL(advise(l.pd[0], pinned.sge(0, 64), prefetch, flags), ENOENT);
    ibv_mw* window = ibv_alloc_mw(l.pd[0], IBV_MW_TYPE_1);
    ibv_sge of_window{m.at(), page, window->rkey};
    EQUAL(advise(l.pd[0], of_window, prefetch, flags), EINVAL);
    ibv_dealloc_mw(window);
    EQUAL(advise(l.pd[1], m.sge(0, page), prefetch, flags), EPERM);
    EQUAL(advise(l.pd[0], reader.sge(0, page), prefetch_write, flags), EPERM);
  }
  EQUAL(advise(l.pd[0], m.sge(page, 4 * page), prefetch), EFAULT);
  ibv_sge missing = gone.sge(0, page);
  gone.unmap();
  EQUAL(advise(l.pd[0], missing, prefetch), EFAULT);
  // A word for each page of 2 TiB is more than one allocation of the kernel's.
  errno = 0;
  CU_ASSERT_PTR_NULL(ibv_reg_mr(l.pd[0], m.bytes(), std::size_t{2} << 40, IBV_ACCESS_ON_DEMAND));
  EQUAL(errno, ENOMEM);
  // Nobody hears of what a later prefetch meets.
  EQUAL(advise(l.pd[0], missing, prefetch, 0), 0);
  for (int i = 0; i < 10; i++) shared().poll();
}

// libmlx5 and the kernel's interface pass on all of it.
void every_element_of_a_list() {
  constexpr auto prefetch_write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  Loop l;
  Memory m(l.pd[0], 4), n(l.pd[0], 2);
  CU_ASSERT_FATAL(m.mr() != nullptr);
  CU_ASSERT_FATAL(n.mr() != nullptr);
  for (const uint32_t flags : {uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}, 0u}) {
    ibv_sge three[] = {m.sge(0, page), n.sge(page, page), m.sge(2 * page, 2 * page)};
    const uint64_t before = standard("num_prefetch_pages");
    EQUAL(ibv_advise_mr(l.pd[0], prefetch_write, flags, three, 3), 0);
    for (int i = 0; i < 10; i++) shared().poll();
    EQUAL(standard("num_prefetch_pages"), before + 4);
    EQUAL(debug("num_odp_mr_pages"), 4);
    three[2].lkey ^= 0x10000;
    EQUAL(ibv_advise_mr(l.pd[0], prefetch_write, flags, three, 3), ENOENT);
    EQUAL(ibv_advise_mr(l.pd[0], prefetch_write, flags, three, 2), 0);
    for (int i = 0; i < 10; i++) shared().poll();
    ::madvise(m.bytes(), 4 * page, MADV_DONTNEED);
    ::madvise(n.bytes(), 2 * page, MADV_DONTNEED);
  }
}

// The core looks the handle up before mlx5_ib sees it (rdma_core.c, lookup_get_idr_uobject()).
void a_domain_that_is_gone() {
  Loop l;
  Memory m(l.pd[0], 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m.mr());
  ibv_pd* pd = ibv_alloc_pd(context());
  CU_ASSERT_PTR_NOT_NULL_FATAL(pd);
  ibv_pd gone = *pd;
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(advise(&gone, m.sge(0, page), IBV_ADVISE_MR_ADVICE_PREFETCH), ENOENT);
  EQUAL(advise(&gone, m.sge(0, page), IBV_ADVISE_MR_ADVICE_PREFETCH, 0), ENOENT);
  gone.handle = m.mr()->handle;  // a handle of something else
  EQUAL(advise(&gone, m.sge(0, page), IBV_ADVISE_MR_ADVICE_PREFETCH), EINVAL);
}

// What `happen` does to a counter.
template <typename F>
void counts(const char* name, uint64_t by, F happen) {
  const bool is_debug = debug(name) != UINT64_MAX;
  const uint64_t before = is_debug ? debug(name) : standard(name);
  happen();
  // madvise() returns when its event has been read; it is counted a moment later.
  uint64_t after = before;
  for (int i = 0; i < 100'000 && after - before != by; i++) {
    ::sched_yield();
    after = is_debug ? debug(name) : standard(name);
  }
  if (after - before != by) std::printf("%s: %lld\n", name, static_cast<long long>(after - before));
  EQUAL(after - before, by);
}

// Over and over, until a prefetch has met an invalidation.
void until_contended(ibv_pd* pd, const Memory& m) {
  const char* name = "invalidations_faults_contentions";
  std::atomic<bool> stop{false};
  std::thread disturber([&] {
    while (!stop) ::madvise(m.bytes(), 4 * page, MADV_DONTNEED);
  });
  const uint64_t before = standard(name);
  for (int i = 0; i < 200'000 && standard(name) == before; i++)
    advise(pd, m.sge(0, 4 * page), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
  stop = true;
  disturber.join();
  CU_ASSERT(standard(name) > before);
}

void each_counter_has_its_event() {
  CU_ASSERT_NOT_EQUAL_FATAL(debug("num_odp_mrs"), UINT64_MAX);
  Loop l;
  Region own(l.pd[0], 2 * page);
  Memory* m = nullptr;
  auto write = [&](uint64_t to, uint32_t rkey, uint32_t n) {
    EQUAL_FATAL(l.post(IBV_WR_RDMA_WRITE, {own.sge(0, n)}, to, rkey), 0);
    return wait_status(l.cq[0]);
  };
  counts("num_odp_mrs", 1, [&] { m = new Memory(l.pd[1], 4); });
  counts("num_page_faults", 1, [&] { write(m->at(), m->mr()->rkey, 8); });
  counts("num_page_fault_pages", 2, [&] { write(m->at(page), m->mr()->rkey, 2 * page); });
  counts("num_invalidations", 1, [&] { ::madvise(m->bytes(), page, MADV_DONTNEED); });
  counts("num_invalidation_pages", 2, [&] { ::madvise(m->bytes(), 3 * page, MADV_DONTNEED); });
  counts("num_prefetch_pages", 3,
         [&] { advise(l.pd[1], m->sge(0, 3 * page), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE); });
  counts("num_prefetches_handled", 1,
         [&] { advise(l.pd[1], m->sge(0, page), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE); });
  EQUAL(standard("num_prefetchs_handled"), standard("num_prefetches_handled"));
  counts("num_odp_mr_pages", 1, [&] { write(m->at(3 * page), m->mr()->rkey, 8); });
  counts("num_mrs_not_found", 1, [&] {
    ibv_sge unknown{m->at(), page, m->mr()->lkey ^ 0x10000};
    advise(l.pd[1], unknown, IBV_ADVISE_MR_ADVICE_PREFETCH);
  });
  until_contended(l.pd[1], *m);
  ibv_mr* mr = m->mr();
  const uint64_t at = m->at();
  counts("num_failed_resolutions", 1, [&] {
    m->unmap();
    EQUAL(write(at, mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
  });
  counts("num_odp_mrs", ~uint64_t{0}, [&] { delete m; });
  EQUAL(debug("num_odp_mr_pages"), 0);
}

// What `rdma statistic show mr` counts of a region upstream (mlx5, restrack.c,
// fill_stat_mr_entry(), and the macro mlx5_update_odp_stats()): pages, and later kernels calls too.
// With one region at work a program reads the same in the files; netlink is not answered.
void what_netlink_would_tell() {
  CU_ASSERT(vhca::entry::calls::socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA) == -1 &&
            errno == EPROTONOSUPPORT);
  const char* names[] = {"num_page_fault_pages", "num_page_faults", "num_invalidation_pages",
                         "num_invalidations", "num_prefetch_pages"};
  Loop l;
  Region own(l.pd[0], 3 * page);
  Memory m(l.pd[1], 8);
  std::array<uint64_t, std::size(names)> before{};
  for (std::size_t i = 0; i < before.size(); i++) before[i] = standard(names[i]);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {own.sge(0, 3 * page)}, m.at(page), m.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(advise(l.pd[1], m.sge(4 * page, 4 * page), IBV_ADVISE_MR_ADVICE_PREFETCH), 0);
  counts("num_invalidations", 1, [&] { ::madvise(m.bytes(), 3 * page, MADV_DONTNEED); });
  constexpr uint64_t by[] = {3, 1, 2, 1, 4};
  for (std::size_t i = 0; i < before.size(); i++) EQUAL(standard(names[i]) - before[i], by[i]);
}

// The child writes its copies; the parent's pages are its own again by the next fault.
void fork_makes_the_adapter_forget() {
  Loop l;
  Region own(l.pd[0], page);
  Memory m(l.pd[1], 2);
  own.data()[0] = 1;
  EQUAL_FATAL(l.post(IBV_WR_RDMA_WRITE, {own.sge(0, 8)}, m.at(), m.mr()->rkey), 0);
  EQUAL(wait_status(l.cq[0]), IBV_WC_SUCCESS);
  const uint64_t before = standard("num_invalidations"), faults = standard("num_page_faults");
  const pid_t child = ::fork();
  if (child == 0) {
    const bool same = m.bytes()[0] == 1;
    m.bytes()[0] = 9;
    ::_exit(same ? 0 : 1);
  }
  int status = -1;
  CU_ASSERT(::waitpid(child, &status, 0) == child && status == 0);
  EQUAL(standard("num_invalidations"), before + 1);
  own.data()[0] = 2;
  EQUAL_FATAL(l.post(IBV_WR_RDMA_WRITE, {own.sge(0, 8)}, m.at(), m.mr()->rkey), 0);
  EQUAL(wait_status(l.cq[0]), IBV_WC_SUCCESS);
  EQUAL(m.bytes()[0], 2);
  EQUAL(standard("num_page_faults"), faults + 1);
}

void an_implicit_region_by_its_names() {
  Loop l;
  Region own(l.pd[0], page);
  ibv_mr* all = ibv_reg_mr(l.pd[1], nullptr, SIZE_MAX, static_cast<int>(odp));
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  auto* heap = static_cast<uint8_t*>(std::aligned_alloc(page, 4 * page));
  own.data()[5] = 77;
  EQUAL_FATAL(
      l.post(IBV_WR_RDMA_WRITE, {own.sge(0, 16)}, reinterpret_cast<uintptr_t>(heap), all->rkey), 0);
  EQUAL(wait_status(l.cq[0]), IBV_WC_SUCCESS);
  EQUAL(heap[5], 77);
  std::free(heap);
  EQUAL(ibv_dereg_mr(all), 0);
}

// The table's part for the range is made when it is first wanted.
void advice_without_memory_for_its_tables() {
  Loop l;
  Memory m(l.pd[0], 2);
  ibv_sge range{m.at(), 2 * page, m.mr()->lkey};
  const auto advise = [&](uint32_t flags) {
    return ibv_advise_mr(l.pd[0], IBV_ADVISE_MR_ADVICE_PREFETCH, flags, &range, 1);
  };
  const uint64_t before = standard("num_prefetches_handled");
  no_memory = true;
  EQUAL(advise(IBV_ADVISE_MR_FLAG_FLUSH), ENOMEM);
  EQUAL(debug("num_odp_mr_pages"), 0);
  EQUAL(advise(0), 0);  // later, and nobody hears how it went
  for (int i = 0; i < 10; i++) shared().poll();
  no_memory = false;
  EQUAL(standard("num_prefetches_handled"), before);
  EQUAL(debug("num_odp_mr_pages"), 0);
  EQUAL(advise(IBV_ADVISE_MR_FLAG_FLUSH), 0);
  EQUAL(debug("num_odp_mr_pages"), 2);
}

const Case cases[] = {
    {"every answer of advice", every_answer_of_advice},
    {"every element of an advice is passed on", every_element_of_a_list},
    {"advice in a protection domain that is gone", a_domain_that_is_gone},
    {"each counter has its event", each_counter_has_its_event},
    {"what rdma statistic tells of a region is in the files", what_netlink_would_tell},
    {"fork makes the adapter forget", fork_makes_the_adapter_forget},
    {"an implicit region by its names", an_implicit_region_by_its_names},
    {"advice without memory for its tables", advice_without_memory_for_its_tables},
};

}  // namespace

KILIM_TEST_SUITE(paging, cases)
