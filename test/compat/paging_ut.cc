// SPDX-License-Identifier: BSD-3-Clause
// The experimental verbs by what they bring about on a virtual device: pages that a prefetch brings
// in, capabilities of each transport, the very rights that were asked for.
#include <cerrno>
#include <cstring>

#include "compat_cases.hh"
#include "examples.h"
#include "far.hh"
#include "vhca/tpt/odp_stats.hh"
#include "vhca/tpt/page_events.hh"

namespace paging_ut {
namespace {

using namespace kilim::test;
using kilim::vhca::tpt::OdpCounter;

uint64_t count(OdpCounter c) {
  const kilim::vhca::tpt::PageLock lock;
  return shared().hca()->paging.stats().read(c);
}

// What a prefetch, which comes later, brings in.
uint64_t pages_of_prefetch(ibv_mr* mr, ibv_exp_prefetch_attr attr) {
  const uint64_t before = count(OdpCounter::num_prefetch_pages);
  EQUAL(ibv_exp_prefetch_mr(mr, &attr), 0);
  for (int i = 0; i < 10; i++) shared().poll();
  return count(OdpCounter::num_prefetch_pages) - before;
}

// Writes to there by a queue of the region's own domain: how often that met a page that is missing.
uint64_t faults_of_writing(Loop& l, Region& source, ibv_mr* mr, const void* to, uint32_t bytes) {
  const uint64_t before = count(OdpCounter::num_page_faults);
  const ibv_sge own{reinterpret_cast<uintptr_t>(to), bytes, mr->lkey};
  EQUAL(l.post(IBV_WR_RDMA_READ, {own}, source.at(), source.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  return count(OdpCounter::num_page_faults) - before;
}

void prefetch_brings_in() {
  client();
  Loop l;
  Region source(l.pd[1], 2 * page);
  Pages pages(6);
  ibv_mr* mr = example_explicit(l.pd[0], pages.at, pages.bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  const uint32_t two = 2 * page;
  EQUAL(pages_of_prefetch(mr, {IBV_EXP_PREFETCH_WRITE_ACCESS, pages.at + page, two, 0}), 2);
  EQUAL(faults_of_writing(l, source, mr, pages.at + page, two), 0);
  EQUAL(pages_of_prefetch(mr, {0, pages.at + 3 * page, two, 0}), 2);
  EQUAL(faults_of_writing(l, source, mr, pages.at + 3 * page, two), 1);
  EQUAL(faults_of_writing(l, source, mr, pages.at + 5 * page, page), 1);
  EQUAL(ibv_dereg_mr(mr), 0);
  // Nothing may be written there, so nothing comes.
  ibv_exp_reg_mr_in in{l.pd[0], pages.at, pages.bytes, IBV_EXP_ACCESS_ON_DEMAND, 0};
  mr = ibv_exp_reg_mr(&in);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(pages_of_prefetch(mr, {IBV_EXP_PREFETCH_WRITE_ACCESS, pages.at, page, 0}), 0);
  EQUAL(pages_of_prefetch(mr, {0, pages.at, page, 0}), 1);
  EQUAL(ibv_dereg_mr(mr), 0);
}

// Longer than an element of advice may be. The first of its pieces begins where nothing is mapped.
void prefetch_in_pieces() {
  client();
  Loop l;
  Pages pages(2);
  ibv_mr* all = example_implicit(l.pd[0]);
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  constexpr std::size_t piece = std::size_t{1} << 31;
  EQUAL(pages_of_prefetch(all, {0, pages.at + page - piece, piece + page, 0}), 1);
  EQUAL(pages_of_prefetch(all, {0, pages.at - 3 * piece, 3 * piece + 2 * page, 0}), 2);
  EQUAL(ibv_dereg_mr(all), 0);
}

// As the documents write them.
void masks() {
  EQUAL(IBV_EXP_ODP_SUPPORT_SEND, 1 << 0);
  EQUAL(IBV_EXP_ODP_SUPPORT_RECV, 1 << 1);
  EQUAL(IBV_EXP_ODP_SUPPORT_WRITE, 1 << 2);
  EQUAL(IBV_EXP_ODP_SUPPORT_READ, 1 << 3);
  EQUAL(IBV_EXP_ODP_SUPPORT_ATOMIC, 1 << 4);
  EQUAL(IBV_EXP_ODP_SUPPORT_SRQ_RECV, 1 << 5);
  // And as today's verbs have them, whose numbers are passed on.
  EQUAL(IBV_EXP_ODP_SUPPORT_SEND, int{IBV_ODP_SUPPORT_SEND});
  EQUAL(IBV_EXP_ODP_SUPPORT_RECV, int{IBV_ODP_SUPPORT_RECV});
  EQUAL(IBV_EXP_ODP_SUPPORT_WRITE, int{IBV_ODP_SUPPORT_WRITE});
  EQUAL(IBV_EXP_ODP_SUPPORT_READ, int{IBV_ODP_SUPPORT_READ});
  EQUAL(IBV_EXP_ODP_SUPPORT_ATOMIC, int{IBV_ODP_SUPPORT_ATOMIC});
  EQUAL(IBV_EXP_ODP_SUPPORT_SRQ_RECV, int{IBV_ODP_SUPPORT_SRQ_RECV});
}

void capabilities_by_transport() {
  Attached* device = attach_device("compat5", "less-odp");
  ibv_context* c = open_hooked("compat5");
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  ibv_exp_device_attr attr{};
  EQUAL(example_odp_supported(c, &attr), 1);
  const auto& by = attr.odp_caps.per_transport_caps;
  const uint32_t xrc = IBV_EXP_ODP_SUPPORT_SEND | IBV_EXP_ODP_SUPPORT_WRITE |
                       IBV_EXP_ODP_SUPPORT_READ | IBV_EXP_ODP_SUPPORT_SRQ_RECV;
  EQUAL(by.rc_odp_caps, xrc | IBV_EXP_ODP_SUPPORT_RECV);
  EQUAL(by.xrc_odp_caps, xrc);
  EQUAL(by.dc_odp_caps, xrc);
  EQUAL(by.ud_odp_caps, IBV_EXP_ODP_SUPPORT_SEND);
  EQUAL(by.uc_odp_caps, 0);
  EQUAL(by.raw_eth_odp_caps, 0);
  EQUAL(ibv_close_device(c), 0);
}

// A way to a region with these rights.
struct Way {
  const char* name;
  ibv_mr* (*make)(ibv_pd*, const Pages&, unsigned rights);
};

ibv_mr* registered(ibv_pd* pd, const Pages& p, unsigned rights) {
  ibv_exp_reg_mr_in in{pd, p.at, p.bytes, rights, 0};
  return ibv_exp_reg_mr(&in);
}
ibv_mr* paged(ibv_pd* pd, const Pages& p, unsigned rights) {
  const uint64_t before = count(OdpCounter::num_odp_mrs);
  ibv_mr* mr = registered(pd, p, rights | IBV_EXP_ACCESS_ON_DEMAND);
  EQUAL(count(OdpCounter::num_odp_mrs), before + 1);
  return mr;
}
ibv_mr* allocated(ibv_pd* pd, const Pages& p, unsigned rights) {
  ibv_exp_reg_mr_in in{pd, nullptr, p.bytes, rights | uint64_t{IBV_EXP_ACCESS_ALLOCATE_MR}, 0};
  return ibv_exp_reg_mr(&in);
}
ibv_mr* with_other_rights(ibv_pd* pd, const Pages& p, unsigned rights) {
  return registered(pd, p, rights == all_access ? unsigned{IBV_ACCESS_LOCAL_WRITE} : all_access);
}
ibv_mr* changed(ibv_pd* pd, const Pages& p, unsigned rights) {
  ibv_mr* mr = with_other_rights(pd, p, rights);
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, rights, nullptr), 0);
  return mr;
}
ibv_mr* changed_and_allocated(ibv_pd* pd, const Pages& p, unsigned rights) {
  ibv_mr* mr = with_other_rights(pd, p, rights);
  const int what = IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION;
  EQUAL(ibv_exp_rereg_mr(mr, what, nullptr, nullptr, p.bytes,
                         rights | uint64_t{IBV_ACCESS_ALLOCATE_MR}, nullptr),
        0);
  return mr;
}

// Whether a region of side 1 lets that be done which needs this right.
bool lets(Loop& l, Region& from, ibv_mr* mr, unsigned right) {
  const auto at = reinterpret_cast<uintptr_t>(mr->addr);
  int rc = 0;
  if (right == IBV_ACCESS_LOCAL_WRITE) {
    rc = l.post_recv(1, {{at, 8, mr->lkey}});
    if (rc == 0) rc = l.post(IBV_WR_SEND, {from.sge(0, 8)});
  } else if (right == IBV_ACCESS_REMOTE_ATOMIC) {
    rc = l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, from.sge(0, 8), at, mr->rkey, 1);
  } else {
    const auto opcode = right == IBV_ACCESS_REMOTE_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    rc = l.post(opcode, {from.sge(0, 8)}, at, mr->rkey);
  }
  EQUAL(rc, 0);
  return l.status() == IBV_WC_SUCCESS;
}

void check_rights(const Way& way, unsigned rights) {
  for (const unsigned right :
       {unsigned{IBV_ACCESS_LOCAL_WRITE}, unsigned{IBV_ACCESS_REMOTE_WRITE},
        unsigned{IBV_ACCESS_REMOTE_READ}, unsigned{IBV_ACCESS_REMOTE_ATOMIC}}) {
    Loop l;  // a refused request ends it
    Region from(l.pd[0], 64);
    Pages p(1);
    ibv_mr* mr = way.make(l.pd[1], p, rights);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
    const bool right_is_there = lets(l, from, mr, right);
    EQUAL(right_is_there, (rights & right) != 0);
    if (right_is_there != ((rights & right) != 0))
      std::printf("%s: rights %#x, tried %#x\n", way.name, rights, right);
    EQUAL(kilim_compat_dereg_mr(mr), 0);
  }
}

void rights_as_asked_for() {
  client();
  constexpr Way ways[] = {{"registered", registered},
                          {"paged", paged},
                          {"allocated", allocated},
                          {"changed", changed},
                          {"changed and allocated", changed_and_allocated}};
  constexpr unsigned own = IBV_ACCESS_LOCAL_WRITE;
  for (const Way& way : ways)
    for (const unsigned rights :
         {0u, own, own | IBV_ACCESS_REMOTE_WRITE, unsigned{IBV_ACCESS_REMOTE_READ},
          own | IBV_ACCESS_REMOTE_READ, own | IBV_ACCESS_REMOTE_ATOMIC, all_access})
      check_rights(way, rights);
}

// A window needs a key of memory, which a relaxed region's is not; whether memory is paged is the
// domain's, not the region's.
void rights_of_no_relaxed_region() {
  Loop l;
  Pages p(1);
  for (const unsigned right : {unsigned{IBV_ACCESS_MW_BIND}, unsigned{IBV_ACCESS_ON_DEMAND}}) {
    errno = 0;
    const int rights = static_cast<int>(all_access | right);
    CU_ASSERT(ibv_reg_mr_relaxed(l.pd[0], p.at, p.bytes, rights) == nullptr && errno == EINVAL);
    CU_ASSERT_PTR_NOT_NULL(std::strstr(kilim_compat_error(), "rights"));
  }
  EQUAL(ibv_flush_relaxed_mr(l.pd[0]), 0);
}

constexpr Case cases[] = {
    {"a prefetch brings in what it names, for writing where that is asked for", prefetch_brings_in},
    {"a prefetch of more than 2 GiB is all of its pieces", prefetch_in_pieces},
    {"the masks of paging's operations are the documents'", masks},
    {"each transport's capabilities are its own", capabilities_by_transport},
    {"a relaxed region has neither MW_BIND nor ON_DEMAND", rights_of_no_relaxed_region},
    {"a region has the rights that were asked for and no others", rights_as_asked_for},
};

}  // namespace
}  // namespace paging_ut

namespace kilim::test {

std::span<const kilim::test::Case> paging_cases() {
  return paging_ut::cases;
}

}  // namespace kilim::test
