// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions by their C names, in a caller's own domain and through a caller's own queues.
#include <atomic>
#include <cerrno>
#include <string_view>
#include <thread>

#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "../vhca/verbs/fabric_fixture.hh"
#include "compat/domains.hh"
#include "compat_cases.hh"
#include "examples.h"
#include "far.hh"

namespace {

using namespace kilim::test;

constexpr std::size_t page = 4096;
constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

struct Pages {
  explicit Pages(std::size_t n)
      : bytes(n * page),
        at(static_cast<uint8_t*>(::mmap(far_from_all(bytes), bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    fill(at, bytes, 5);
  }
  ~Pages() { ::munmap(at, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::size_t bytes;
  uint8_t* at;
};

// Side 0 reads from side 1, in whose domain the region is; afterwards both work again.
bool reads(Loop& loop, Region& into, const uint8_t* from, uint32_t rkey, uint32_t bytes) {
  std::memset(into.data(), 0, bytes);
  EQUAL_FATAL(
      loop.post(IBV_WR_RDMA_READ, {into.sge(0, bytes)}, reinterpret_cast<uintptr_t>(from), rkey),
      0);
  return loop.status() == IBV_WC_SUCCESS && std::memcmp(into.data(), from, bytes) == 0;
}

void read_by_a_peer() {
  Pages pages(4);
  uint32_t rkey = 0;
  {
    (void)client();
    Loop loop;
    Region into(loop.pd[0], 3 * page);
    ibv_mr* mr = example_relaxed(loop.pd[1], pages.at + 100, page);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
    CU_ASSERT_TRUE(mr->addr == pages.at + 100 && mr->length == page && mr->pd == loop.pd[1] &&
                   mr->context == loop.pd[1]->context && mr->lkey == mr->rkey);
    rkey = mr->rkey;
    CU_ASSERT_TRUE(reads(loop, into, pages.at + 100, rkey, page));
    CU_ASSERT_TRUE(reads(loop, into, pages.at + 100, rkey, 2 * page - 100));
    EQUAL(example_relaxed_end(mr), 0);
    CU_ASSERT_TRUE(reads(loop, into, pages.at + 100, rkey, 64));  // marked
    EQUAL(example_relaxed_flush(loop.pd[1]), 0);
    CU_ASSERT_FALSE(reads(loop, into, pages.at + 100, rkey, 64));
  }
  Loop loop;
  Region into(loop.pd[0], 3 * page);
  ibv_mr* mr = example_relaxed(loop.pd[1], pages.at, page);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  CU_ASSERT_FALSE(reads(loop, into, pages.at, mr->rkey, page + 1));
  EQUAL(example_relaxed_end(mr), 0);
  EQUAL(example_relaxed_flush(loop.pd[1]), 0);
}

void atomics_by_a_peer() {
  Pages pages(1);
  (void)client();
  Loop loop;
  Region into(loop.pd[0], page);
  auto* const word = reinterpret_cast<uint64_t*>(pages.at + 8);
  *word = 40;
  ibv_mr* mr = ibv_reg_mr_relaxed(loop.pd[1], pages.at, page,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  ibv_mr* not_for_them = ibv_reg_mr_relaxed(loop.pd[1], pages.at, page, rights);
  CU_ASSERT_TRUE_FATAL(mr != nullptr && not_for_them != nullptr);
  for (const uint32_t rkey : {mr->rkey, not_for_them->rkey}) {
    EQUAL(loop.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, into.sge(0, 8),
                           reinterpret_cast<uintptr_t>(word), rkey, 2),
          0);
    const bool good = rkey == mr->rkey;
    EQUAL(loop.status(), good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
    EQUAL(*word, 42);
  }
  EQUAL(*reinterpret_cast<const uint64_t*>(into.data()), 40);
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(ibv_dereg_mr_relaxed(not_for_them), 0);
  EQUAL(ibv_flush_relaxed_mr(loop.pd[1]), 0);
}

void domain_is_free_again() {
  Pages pages(1);
  ibv_pd* pd = ibv_alloc_pd(client());
  ibv_mr* a = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  ibv_mr* b = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  CU_ASSERT_TRUE_FATAL(a != nullptr && b != nullptr && a->rkey != b->rkey);
  EQUAL(ibv_dealloc_pd(pd), EBUSY);
  EQUAL(ibv_dereg_mr_relaxed(a), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), EBUSY);  // b lives
  EQUAL(ibv_dereg_mr_relaxed(b), 0);
  EQUAL(ibv_dealloc_pd(pd), EBUSY);  // marked
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  // And the whole once more in the same domain.
  a = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  EQUAL(ibv_dereg_mr_relaxed(a), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

bool refused_with(ibv_mr* mr, int code, const char* words) {
  if (mr != nullptr) return false;
  const int got = errno;
  const std::string_view sentence = kilim_compat_error();
  return got == code && sentence.find(words) != std::string_view::npos;
}

void relaxed_refusals() {
  Pages pages(1);
  ibv_pd* pd = ibv_alloc_pd(client());
  CU_ASSERT_TRUE(refused_with(ibv_reg_mr_relaxed(pd, pages.at, 0, rights), EINVAL, "empty"));
  CU_ASSERT_TRUE(refused_with(ibv_reg_mr_relaxed(pd, pages.at, SIZE_MAX, rights), EINVAL, "wraps"));
  CU_ASSERT_TRUE(refused_with(ibv_reg_mr_relaxed(pd, pages.at, page, IBV_ACCESS_REMOTE_WRITE),
                              EINVAL, "rights"));
  CU_ASSERT_TRUE(
      refused_with(ibv_reg_mr_relaxed(pd, pages.at, page, IBV_ACCESS_ON_DEMAND), EINVAL, "rights"));
  CU_ASSERT_TRUE(refused_with(ibv_reg_mr_relaxed(nullptr, pages.at, page, rights), EINVAL, "no "));
  ibv_mr* relaxed_ordering =
      ibv_reg_mr_relaxed(pd, pages.at, page, rights | IBV_ACCESS_RELAXED_ORDERING);
  CU_ASSERT_PTR_NOT_NULL_FATAL(relaxed_ordering);
  ibv_mr other = *relaxed_ordering;
  EQUAL(ibv_dereg_mr_relaxed(&other), EINVAL);
  EQUAL(ibv_dereg_mr_relaxed(nullptr), EINVAL);
  EQUAL(ibv_dereg_mr_relaxed(relaxed_ordering), 0);
  EQUAL(ibv_flush_relaxed_mr(nullptr), EINVAL);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

void all_keys_in_use() {
  constexpr std::size_t most = 20;
  Pages pages(1);
  ibv_pd* pd = ibv_alloc_pd(client());
  kilim_relaxed_attr attr{};
  attr.keys = 8;
  attr.max_keys = most;
  EQUAL(kilim_relaxed_config(pd, &attr), 0);
  std::vector<ibv_mr*> regions;
  for (std::size_t i = 0; i < most; i++)
    regions.push_back(ibv_reg_mr_relaxed(pd, pages.at, page, rights));
  CU_ASSERT_TRUE_FATAL(regions.back() != nullptr);
  CU_ASSERT_TRUE(refused_with(ibv_reg_mr_relaxed(pd, pages.at, page, rights), EAGAIN, "no key"));
  EQUAL(kilim_relaxed_config(pd, &attr), EBUSY);
  EQUAL(ibv_dereg_mr_relaxed(regions[17]), 0);
  regions[17] = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  CU_ASSERT_PTR_NOT_NULL(regions[17]);
  for (ibv_mr* mr : regions) EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// Keys are made by commands, and each is a command of its own.
void keys_stay() {
  Pages pages(1);
  ibv_pd* pd = ibv_alloc_pd(client());
  kilim_relaxed_attr attr{};
  attr.keys = 100;
  EQUAL(kilim_relaxed_config(pd, &attr), 0);
  const auto round = [&](std::size_t count) {
    const uint64_t before = journal_count(Journal::Kind::command);
    std::vector<ibv_mr*> regions;
    for (std::size_t i = 0; i < count; i++)
      regions.push_back(ibv_reg_mr_relaxed(pd, pages.at, page, rights));
    for (ibv_mr* mr : regions) EQUAL(ibv_dereg_mr_relaxed(mr), 0);
    EQUAL(ibv_flush_relaxed_mr(pd), 0);
    return journal_count(Journal::Kind::command) - before;
  };
  CU_ASSERT_TRUE(round(1) >= 100);
  EQUAL(round(1), 0);
  EQUAL(round(100), 0);
  EQUAL(round(101), 100);  // as many again
  EQUAL(round(200), 0);
  const uint64_t before = journal_count(Journal::Kind::command);
  EQUAL(ibv_dealloc_pd(pd), 0);
  CU_ASSERT_TRUE(journal_count(Journal::Kind::command) - before >= 200);
}

void configured() {
  ibv_pd* pd = ibv_alloc_pd(client());
  const auto refused = [&](kilim_relaxed_attr attr) { return kilim_relaxed_config(pd, &attr); };
  EQUAL(refused({.comp_mask = 1}), EINVAL);
  EQUAL(refused({.keys = 20, .max_keys = 19}), EINVAL);
  EQUAL(refused({.max_keys = 1023}), EINVAL);
  EQUAL(refused({.keys = 1u << 21}), EINVAL);
  EQUAL(refused({.memory = 2}), EINVAL);
  EQUAL(refused({.memory = KILIM_RELAXED_ON_DEMAND, .qp_types = 1}), EINVAL);
  EQUAL(kilim_relaxed_config(pd, nullptr), EINVAL);
  EQUAL(kilim_relaxed_config(nullptr, nullptr), EINVAL);
  EQUAL(refused({}), 0);
  EQUAL(refused({.keys = 100000}), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// Whoever is not served by this library's ibv_dealloc_pd().
void closed_by_hand() {
  Pages pages(1);
  ibv_pd* pd = ibv_alloc_pd(client());
  EQUAL(kilim_relaxed_close(pd), 0);
  ibv_mr* mr = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(kilim_relaxed_close(pd), EBUSY);
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(kilim_relaxed_close(pd), EBUSY);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  const uint64_t before = journal_count(Journal::Kind::command);
  EQUAL(kilim_relaxed_close(pd), 0);
  CU_ASSERT_TRUE(journal_count(Journal::Kind::command) - before >= 1024);
  EQUAL(kilim_relaxed_close(nullptr), EINVAL);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// libmlx5 frees a domain in ibv_dealloc_pd() alone, not with its context.
void leak_is_meant([[maybe_unused]] const void* of_libmlx5) {
#ifdef __SANITIZE_ADDRESS__
  __lsan_ignore_object(of_libmlx5);
#endif
}

// With regions that nobody deregistered, in a domain that nobody deallocates.
void context_closes() {
  Pages pages(1);
  for (int round = 0; round < 2; round++) {
    ibv_context* c = open_hooked("vhca0");
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    ibv_pd* pd = ibv_alloc_pd(c);
    leak_is_meant(pd);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ibv_reg_mr_relaxed(pd, pages.at, page, rights));
    ibv_mr* marked = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
    CU_ASSERT_PTR_NOT_NULL_FATAL(marked);
    EQUAL(ibv_dereg_mr_relaxed(marked), 0);
    EQUAL(ibv_dealloc_pd(pd), EBUSY);
    CU_ASSERT_TRUE(kilim::compat::find_domain(pd, false) != nullptr);
    EQUAL(ibv_close_device(c), 0);
    // The next domain may have its address.
    EQUAL(kilim::compat::find_domain(pd, false), nullptr);
  }
}

void any_thread() {
  Pages pages(64);
  ibv_pd* pd = ibv_alloc_pd(client());
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; t++)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 100; i++) {
        ibv_mr* mr = ibv_reg_mr_relaxed(pd, pages.at + (t * 16 + i % 16) * page, page, rights);
        if (mr == nullptr || ibv_dereg_mr_relaxed(mr) != 0) failed++;
        if (i % 10 == t && ibv_flush_relaxed_mr(pd) != 0) failed++;
      }
    });
  for (std::thread& t : threads) t.join();
  EQUAL(failed.load(), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// Pinned, arena by arena: what is not mapped is refused at once.
void without_paging() {
  Attached* device = attach_device("compat1", "no-odp");
  ibv_context* c = open_hooked("compat1");
  CU_ASSERT_TRUE_FATAL(device != nullptr && c != nullptr);
  Pages pages(8);
  ibv_pd* pd = ibv_alloc_pd(c);
  ibv_mr* whole = ibv_reg_mr_relaxed(pd, pages.at, 8 * page, rights);
  ibv_mr* part = ibv_reg_mr_relaxed(pd, pages.at + page, page, rights);
  CU_ASSERT_TRUE(whole != nullptr && part != nullptr);
  uint8_t* const hole = pages.at + 4 * page;
  EQUAL(ibv_dereg_mr_relaxed(whole), 0);
  EQUAL(ibv_dereg_mr_relaxed(part), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  ::munmap(hole, page);
  CU_ASSERT_TRUE(refused_with(ibv_reg_mr_relaxed(pd, hole, page, rights), EFAULT, "registered"));
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(ibv_close_device(c), 0);
}

void without_keys() {
  Attached* device = attach_device("compat2", "no-devx");
  ibv_context* c = open_hooked("compat2");
  CU_ASSERT_TRUE_FATAL(device != nullptr && c != nullptr);
  Pages pages(1);
  ibv_pd* pd = ibv_alloc_pd(c);
  CU_ASSERT_TRUE(
      refused_with(ibv_reg_mr_relaxed(pd, pages.at, page, rights), EOPNOTSUPP, "indirect keys"));
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(ibv_close_device(c), 0);
}

const Case cases[] = {
    {"a peer reads a relaxed region to its last page's boundary, and not after the flush",
     read_by_a_peer},
    {"a peer adds to a word of a relaxed region that allows it", atomics_by_a_peer},
    {"a flush without live regions frees the protection domain", domain_is_free_again},
    {"relaxed registration refuses with errno and a sentence", relaxed_refusals},
    {"relaxed registration gives EAGAIN while all keys are in use", all_keys_in_use},
    {"relaxed regions of one domain from several threads", any_thread},
    {"a domain's keys stay over a flush, grow when all are used, and go with the domain",
     keys_stay},
    {"relaxed regions are configured before the first one", configured},
    {"hidden objects are removed by hand where no region is left", closed_by_hand},
    {"a context that closes takes its relaxed regions with it", context_closes},
    {"relaxed regions on an adapter without on-demand paging", without_paging},
    {"relaxed regions on an adapter without indirect keys are refused", without_keys},
};

}  // namespace

std::span<const Case> kilim::test::relaxed_cases() {
  return cases;
}
