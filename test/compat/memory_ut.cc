// SPDX-License-Identifier: BSD-3-Clause
// The memory under relaxed regions by their C names: pinned, of the caller's arenas, on demand; for
// which queue pairs each is good, and which memory is none.
#include <cerrno>

#include <sys/mman.h>

#include "../vhca/verbs/fabric_fixture.hh"
#include "compat_cases.hh"
#include "examples.h"
#include "far.hh"

namespace memory_ut {
namespace {

using namespace kilim::test;

constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

void ranges_that_wrap(ibv_pd* pd) {
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, nullptr, SIZE_MAX, rights) == nullptr && errno == EINVAL);
  // Its last page ends where the address space does: rounded up, its end is 0.
  void* const last = reinterpret_cast<void*>(UINT64_MAX - 4095);
  CU_ASSERT_TRUE(ibv_reg_mr(pd, last, 4095, rights) == nullptr && errno == EINVAL);
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, last, 4095, rights) == nullptr && errno == EINVAL);
}

// Whether neither kind of region is made, with a sentence for the relaxed one.
bool is_a_fault_of_both(ibv_pd* pd, void* at, std::size_t bytes, int access) {
  ibv_mr* mr = ibv_reg_mr_relaxed(pd, at, bytes, access);
  const int why = errno;
  ibv_mr* plain = ibv_reg_mr(pd, at, bytes, access);
  const bool same = plain == nullptr && errno == why;
  if (plain != nullptr) ibv_dereg_mr(plain);
  return mr == nullptr && same && why == EFAULT && !says("EFAULT") && *kilim_compat_error() != 0;
}

// Memory that ibv_reg_mr() refuses, in a domain of each kind.
void faults_of(ibv_context* c, const kilim_relaxed_attr& attr) {
  ibv_pd* pd = ibv_alloc_pd(c);
  EQUAL_FATAL(kilim_relaxed_config(pd, &attr), 0);
  Pages pages(600);  // beyond what is looked at page by page
  const auto refused = [pd](void* at, std::size_t bytes, int access) {
    return is_a_fault_of_both(pd, at, bytes, access);
  };
  const auto good = [pd](void* at, std::size_t bytes, int access) {
    ibv_mr* mr = ibv_reg_mr_relaxed(pd, at, bytes, access);
    return mr != nullptr && ibv_dereg_mr_relaxed(mr) == 0;
  };
  CU_ASSERT_TRUE(refused(nullptr, page, rights));
  CU_ASSERT_TRUE(refused(nullptr, page, IBV_ACCESS_REMOTE_READ));
  CU_ASSERT_TRUE(good(pages.at, pages.bytes, rights));
  ::munmap(pages.at + 7 * page, page);
  CU_ASSERT_TRUE(refused(pages.at + 7 * page, page, rights));
  CU_ASSERT_TRUE(refused(pages.at + 6 * page, 3 * page, rights));
  CU_ASSERT_TRUE(refused(pages.at, pages.bytes, rights));
  CU_ASSERT_TRUE(refused(pages.at, pages.bytes, IBV_ACCESS_REMOTE_READ));
  CU_ASSERT_TRUE(good(pages.at, 7 * page, rights));
  CU_ASSERT_TRUE(good(pages.at + 8 * page, page, rights));
  ::mprotect(pages.at + 20 * page, 500 * page, PROT_READ);
  CU_ASSERT_TRUE(refused(pages.at + 20 * page, page, rights));
  CU_ASSERT_TRUE(refused(pages.at + 10 * page, 500 * page, rights));
  CU_ASSERT_TRUE(good(pages.at + 20 * page, page, IBV_ACCESS_REMOTE_READ));
  CU_ASSERT_TRUE(good(pages.at + 10 * page, 500 * page, IBV_ACCESS_REMOTE_READ));
  ::mprotect(pages.at + 30 * page, page, PROT_NONE);
  CU_ASSERT_TRUE(refused(pages.at + 30 * page, page, IBV_ACCESS_REMOTE_READ));
  ranges_that_wrap(pd);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

void faults() {
  faults_of(client(), {});
  faults_of(client(), {.memory = KILIM_RELAXED_ON_DEMAND});
  Attached* device = attach_device("memory1", "no-odp");
  ibv_context* c = open_hooked("memory1");
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  faults_of(c, {});
  EQUAL(ibv_close_device(c), 0);
}

// An arena's memory is not looked at again: what cannot be pinned now is a region all the same.
void arenas() {
  ibv_pd* pd = ibv_alloc_pd(client());
  Pages pages(8);
  EQUAL(kilim_relaxed_arena(pd, nullptr, page), EFAULT);
  EQUAL(kilim_relaxed_arena(pd, pages.at, 0), EINVAL);
  EQUAL(kilim_relaxed_arena(pd, pages.at, pages.bytes), 0);
  EQUAL(kilim_relaxed_arena(pd, pages.at, page), EEXIST);
  ::mprotect(pages.at, pages.bytes, PROT_NONE);
  ibv_mr* mr = ibv_reg_mr_relaxed(pd, pages.at + page, 2 * page, rights);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(kilim_relaxed_arena_end(pd, pages.at + page), EINVAL);
  EQUAL(kilim_relaxed_arena_end(pd, pages.at), EBUSY);
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, pages.at, page, rights) == nullptr && errno == EFAULT);
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(kilim_relaxed_arena_end(pd, pages.at), 0);
  EQUAL(kilim_relaxed_arena_end(pd, pages.at), EINVAL);
  ::mprotect(pages.at, pages.bytes, PROT_READ);
  EQUAL(kilim_relaxed_arena(pd, pages.at, pages.bytes), 0);
  mr = ibv_reg_mr_relaxed(pd, pages.at, page, IBV_ACCESS_REMOTE_READ);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, pages.at, page, rights) == nullptr && errno == EFAULT);
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);  // with the arena
}

// Memory that nobody may touch shows whether an arena serves.
void arenas_of_one_page() {
  ibv_pd* pd = ibv_alloc_pd(client());
  Pages pages(4);
  uint8_t* const inner = pages.at + 64;
  EQUAL(kilim_relaxed_arena(pd, pages.at, pages.bytes), 0);
  EQUAL(kilim_relaxed_arena(pd, inner, pages.bytes - 64), 0);
  ::mprotect(pages.at, pages.bytes, PROT_NONE);
  EQUAL(kilim_relaxed_arena_end(pd, inner), 0);
  ibv_mr* mr = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(kilim_relaxed_arena_end(pd, pages.at), 0);
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, pages.at, page, rights) == nullptr && errno == EFAULT);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// The sentence is the last call's, and a call that succeeds has none.
void sentences_end() {
  ibv_pd* pd = ibv_alloc_pd(client());
  Pages pages(1);
  const auto fails = [&] {
    return ibv_exp_reg_mr(nullptr) == nullptr && *kilim_compat_error() != 0;
  };
  ibv_mr* mr = nullptr;
  CU_ASSERT_TRUE(fails());
  CU_ASSERT_TRUE((mr = ibv_reg_mr_relaxed(pd, pages.at, page, rights)) != nullptr);
  CU_ASSERT_TRUE(says(""));
  EQUAL(*kilim_compat_error(), 0);
  CU_ASSERT_TRUE(fails());
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(*kilim_compat_error(), 0);
  CU_ASSERT_TRUE(fails());
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(*kilim_compat_error(), 0);
  ibv_exp_device_attr attr{};
  CU_ASSERT_TRUE(fails());
  EQUAL(ibv_exp_query_device(client(), &attr), 0);
  EQUAL(*kilim_compat_error(), 0);
  CU_ASSERT_TRUE(fails());
  ibv_exp_reg_mr_in in{.pd = pd, .addr = pages.at, .length = page, .exp_access = 0, .comp_mask = 0};
  CU_ASSERT_TRUE((mr = ibv_exp_reg_mr(&in)) != nullptr);
  EQUAL(*kilim_compat_error(), 0);
  ibv_exp_prefetch_attr fetch{0, pages.at, page, 0};
  CU_ASSERT_TRUE(fails());
  EQUAL(ibv_exp_prefetch_mr(mr, &fetch), 0);
  EQUAL(*kilim_compat_error(), 0);
  CU_ASSERT_TRUE(fails());
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE, nullptr),
        0);
  EQUAL(*kilim_compat_error(), 0);
  CU_ASSERT_TRUE(fails());
  EQUAL(kilim_compat_dereg_mr(mr), 0);
  EQUAL(*kilim_compat_error(), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

const Case cases[] = {
    {"memory that ibv_reg_mr() refuses makes no relaxed region either", faults},
    {"an arena is pinned once, and ends behind its last region", arenas},
    {"one of two arenas that begin on a page ends alone", arenas_of_one_page},
    {"the last error ends with a call that succeeds", sentences_end},
};

}  // namespace
}  // namespace memory_ut

std::span<const kilim::test::Case> kilim::test::relaxed_memory_cases() {
  return memory_ut::cases;
}
