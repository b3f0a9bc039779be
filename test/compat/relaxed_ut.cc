// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions by their C names, in a caller's own domain and through a caller's own queues.
#include <atomic>
#include <cerrno>

#include <sys/mman.h>

#include "../vhca/verbs/fabric_fixture.hh"
#include "compat/domains.hh"
#include "compat_cases.hh"
#include "examples.h"
#include "far.hh"

namespace relaxed_ut {
namespace {

using namespace kilim::test;

constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

// Side 0 reads from side 1, in whose domain the region is; afterwards both work again.
bool reads(Loop& loop, Region& into, const uint8_t* from, uint32_t rkey, uint32_t bytes) {
  std::memset(into.data(), 0, bytes);
  EQUAL_FATAL(
      loop.post(IBV_WR_RDMA_READ, {into.sge(0, bytes)}, reinterpret_cast<uintptr_t>(from), rkey),
      0);
  return loop.status() == IBV_WC_SUCCESS && std::memcmp(into.data(), from, bytes) == 0;
}

void read_by_a_peer() {
  Filled pages(4);
  uint32_t rkey = 0;
  {
    (void)client();
    Loop loop;
    Region into(loop.pd[0], 3 * page);
    ibv_mr* mr = example_relaxed(loop.pd[1], pages.at + 100, page);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
    EQUAL(mr->addr, pages.at + 100);
    EQUAL(mr->length, page);
    EQUAL(mr->pd, loop.pd[1]);
    EQUAL(mr->context, loop.pd[1]->context);
    EQUAL(mr->lkey, mr->rkey);
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
  Filled pages(1);
  (void)client();
  Loop loop;
  Region into(loop.pd[0], page);
  auto* const word = reinterpret_cast<uint64_t*>(pages.at + 8);
  *word = 40;
  ibv_mr* mr = ibv_reg_mr_relaxed(loop.pd[1], pages.at, page,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  ibv_mr* not_for_them = ibv_reg_mr_relaxed(loop.pd[1], pages.at, page, rights);
  CU_ASSERT_TRUE_FATAL(mr != nullptr);
  CU_ASSERT_TRUE_FATAL(not_for_them != nullptr);
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

void relaxed_refusals() {
  Filled pages(1);
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

// Pinned, arena by arena: what is not mapped is refused at once.
void without_paging() {
  Attached* device = attach_device("compat1", "no-odp");
  ibv_context* c = open_hooked("compat1");
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  Filled pages(8);
  ibv_pd* pd = ibv_alloc_pd(c);
  ibv_mr* whole = ibv_reg_mr_relaxed(pd, pages.at, 8 * page, rights);
  ibv_mr* part = ibv_reg_mr_relaxed(pd, pages.at + page, page, rights);
  CU_ASSERT_TRUE(whole != nullptr);
  CU_ASSERT_TRUE(part != nullptr);
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
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  Filled pages(1);
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
    {"relaxed registration refuses with errno and a sentence", relaxed_refusals},
    {"relaxed regions are configured before the first one", configured},
    {"relaxed regions on an adapter without on-demand paging", without_paging},
    {"relaxed regions on an adapter without indirect keys are refused", without_keys},
};

}  // namespace
}  // namespace relaxed_ut

std::span<const kilim::test::Case> kilim::test::relaxed_cases() {
  return relaxed_ut::cases;
}
