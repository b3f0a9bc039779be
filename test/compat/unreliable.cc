// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions under unreliable connections, pinned and on demand. Part of compat_ut.
#include <cerrno>
#include <cstring>

#include "../vhca/verbs/unreliable_fixture.hh"
#include "compat_cases.hh"
#include "examples.h"

namespace unreliable_ut {
namespace {

using namespace kilim::test;

constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

uint64_t number(const void* at) {
  return reinterpret_cast<uintptr_t>(at);
}

// A message from one region into the other.
void unreliable_message(Unreliable& u, Pages& far_side, const ibv_mr* to, const ibv_sge& all) {
  std::memset(far_side.at, 0, far_side.bytes);
  ibv_sge into{number(far_side.at), static_cast<uint32_t>(far_side.bytes), to->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &into;
  wr.num_sge = 1;
  EQUAL(ibv_post_recv(u.qp[1], &wr, &bad), 0);
  EQUAL(u.post(IBV_WR_SEND, all), IBV_WC_SUCCESS);
  EQUAL(wait_status(u.cq[1]), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(far_side.at, reinterpret_cast<const void*>(all.addr), far_side.bytes), 0);
}

// Nothing of the memory has been touched when it is registered.
void unreliable_write() {
  (void)client();
  Unreliable u;
  CU_ASSERT_TRUE_FATAL(u.ok);
  Pages far_side(2);
  Pages near_side(2);
  ibv_mr* to = ibv_reg_mr_relaxed(u.pd, far_side.at, far_side.bytes, rights);
  ibv_mr* from = ibv_reg_mr_relaxed(u.pd, near_side.at, near_side.bytes, rights);
  CU_ASSERT_TRUE_FATAL(to != nullptr);
  CU_ASSERT_TRUE_FATAL(from != nullptr);
  EQUAL(kilim_relaxed_usable(to, u.qp[0]), 0);
  fill(near_side.at, near_side.bytes, 9);
  const ibv_sge all{number(near_side.at), static_cast<uint32_t>(near_side.bytes), from->lkey};
  EQUAL(u.post(IBV_WR_RDMA_WRITE, all, number(far_side.at), to->rkey), IBV_WC_SUCCESS);
  shared().poll();
  EQUAL(std::memcmp(far_side.at, near_side.at, far_side.bytes), 0);
  unreliable_message(u, far_side, to, all);
  EQUAL(ibv_dereg_mr_relaxed(to), 0);
  EQUAL(ibv_dereg_mr_relaxed(from), 0);
  EQUAL(ibv_flush_relaxed_mr(u.pd), 0);
}

void an_adapter_without_paging_says_so(kilim_relaxed_attr attr) {
  Attached* device = attach_device("memory0", "no-odp");
  ibv_context* c = open_hooked("memory0");
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  ibv_pd* pd = ibv_alloc_pd(c);
  EQUAL(kilim_relaxed_config(pd, &attr), EOPNOTSUPP);
  CU_ASSERT_TRUE(says("SUPPORT"));
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(ibv_close_device(c), 0);
}

void usable_where_paging_is(Unreliable& u, Pages& pages, ibv_mr* mr) {
  EQUAL(kilim_relaxed_usable(mr, u.qp[0]), EOPNOTSUPP);
  CU_ASSERT_TRUE(says("UC SEND"));
  {
    Loop loop;
    EQUAL(kilim_relaxed_usable(mr, loop.qp[0]), 0);
    EQUAL(kilim_relaxed_usable(mr, nullptr), EINVAL);
  }
  ibv_mr* plain = ibv_reg_mr(u.pd, pages.at, pages.bytes, IBV_ACCESS_LOCAL_WRITE);
  CU_ASSERT_PTR_NOT_NULL_FATAL(plain);
  EQUAL(kilim_relaxed_usable(plain, u.qp[0]), EINVAL);
  EQUAL(ibv_dereg_mr(plain), 0);
}

// An option, and what the adapter does not page for is refused by the capability's name.
void on_demand_is_asked_for() {
  (void)client();
  Unreliable u;
  CU_ASSERT_TRUE_FATAL(u.ok);
  kilim_relaxed_attr attr{};
  attr.memory = KILIM_RELAXED_ON_DEMAND;
  attr.qp_types = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC;
  EQUAL(kilim_relaxed_config(u.pd, &attr), EOPNOTSUPP);
  CU_ASSERT_TRUE(says("UC"));
  attr.qp_types = 0;
  EQUAL(kilim_relaxed_config(u.pd, &attr), 0);
  Pages pages(4);
  const uint64_t faults = journal_count(Journal::Kind::page_fault);
  ibv_mr* mr = ibv_reg_mr_relaxed(u.pd, pages.at, pages.bytes, rights | IBV_ACCESS_REMOTE_READ);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  usable_where_paging_is(u, pages, mr);
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(ibv_flush_relaxed_mr(u.pd), 0);
  EQUAL(journal_count(Journal::Kind::page_fault), faults);  // nothing was used
  an_adapter_without_paging_says_so(attr);
}

// What is mapped in the place of memory that went is another region's, never the old one's.
void no_stale_memory() {
  (void)client();
  Unreliable u;
  CU_ASSERT_TRUE_FATAL(u.ok);
  Pages place(2);
  Region from(u.pd, page);
  fill(from.data(), page, 3);
  for (int round = 0; round < 3; round++) {
    ibv_mr* mr = ibv_reg_mr_relaxed(u.pd, place.at, page, rights);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
    EQUAL(u.post(IBV_WR_RDMA_WRITE, from.sge(0, page), number(place.at), mr->rkey), IBV_WC_SUCCESS);
    shared().poll();
    EQUAL(std::memcmp(place.at, from.data(), page), 0);
    EQUAL(ibv_dereg_mr_relaxed(mr), 0);  // marked, not flushed
    ::munmap(place.at, page);
    EQUAL_FATAL(::mmap(place.at, page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                place.at);
  }
  EQUAL(ibv_flush_relaxed_mr(u.pd), 0);
}

const Case unreliable[] = {
    {"an unreliable connection writes and receives into relaxed regions", unreliable_write},
    {"relaxed regions on demand are asked for, and refused for what is not paged",
     on_demand_is_asked_for},
    {"memory mapped anew in a relaxed region's place is what a new region shows", no_stale_memory},
};

}  // namespace
}  // namespace unreliable_ut

std::span<const kilim::test::Case> kilim::test::unreliable_cases() {
  return unreliable_ut::unreliable;
}
