// SPDX-License-Identifier: BSD-3-Clause
// When relaxed regions end: their domain, their keys, a context that is closed, threads that come
// and go. Part of compat_ut.
#include <atomic>
#include <cerrno>
#include <thread>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "../vhca/verbs/fabric_fixture.hh"
#include "compat/domains.hh"
#include "compat_cases.hh"
#include "examples.h"

namespace relaxed_life_ut {
namespace {

using namespace kilim::test;

constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

void domain_is_free_again() {
  Filled pages(1);
  ibv_pd* pd = ibv_alloc_pd(client());
  ibv_mr* a = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  ibv_mr* b = ibv_reg_mr_relaxed(pd, pages.at, page, rights);
  CU_ASSERT_TRUE_FATAL(a != nullptr);
  CU_ASSERT_TRUE_FATAL(b != nullptr);
  CU_ASSERT_TRUE_FATAL(a->rkey != b->rkey);
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

void all_keys_in_use() {
  constexpr std::size_t most = 20;
  Filled pages(1);
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
  Filled pages(1);
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

// Whoever is not served by this library's ibv_dealloc_pd().
void closed_by_hand() {
  Filled pages(1);
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
  Filled pages(1);
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
  Filled pages(64);
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

const Case lives[] = {
    {"a flush without live regions frees the protection domain", domain_is_free_again},
    {"relaxed registration gives EAGAIN while all keys are in use", all_keys_in_use},
    {"relaxed regions of one domain from several threads", any_thread},
    {"a domain's keys stay over a flush, grow when all are used, and go with the domain",
     keys_stay},
    {"hidden objects are removed by hand where no region is left", closed_by_hand},
    {"a context that closes takes its relaxed regions with it", context_closes},
};

}  // namespace
}  // namespace relaxed_life_ut

std::span<const kilim::test::Case> kilim::test::relaxed_life_cases() {
  return relaxed_life_ut::lives;
}
