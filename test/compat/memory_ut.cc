// SPDX-License-Identifier: BSD-3-Clause
// The memory under relaxed regions by their C names: pinned, of the caller's arenas, on demand; for
// which queue pairs each is good, and which memory is none.
#include <cerrno>
#include <string_view>

#include <sys/mman.h>

#include "../vhca/verbs/fabric_fixture.hh"
#include "compat_cases.hh"
#include "examples.h"
#include "far.hh"

namespace {

using namespace kilim::test;

constexpr std::size_t page = 4096;
constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

bool says(const char* words) {
  return std::string_view{kilim_compat_error()}.find(words) != std::string_view::npos;
}

struct Pages {
  explicit Pages(std::size_t n)
      : bytes(n * page),
        at(static_cast<uint8_t*>(::mmap(far_from_all(bytes), bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { ::munmap(at, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::size_t bytes;
  uint8_t* at;
};

// Two unreliable connections to each other, in one domain.
struct Unreliable {
  Unreliable() {
    (void)client();
    pd = ibv_alloc_pd(context());
    for (int i = 0; i < 2; i++) {
      cq[i] = ibv_create_cq(context(), 64, nullptr, nullptr, 0);
      qp[i] = create_qp(pd, cq[i], {.type = IBV_QPT_UC});
    }
    ok = qp[0] != nullptr && qp[1] != nullptr && connect(0) == 0 && connect(1) == 0;
  }
  ~Unreliable() {
    for (int i = 0; i < 2; i++) {
      if (qp[i] != nullptr) ibv_destroy_qp(qp[i]);
      ibv_destroy_cq(cq[i]);
    }
    EQUAL(ibv_dealloc_pd(pd), 0);
  }
  Unreliable(const Unreliable&) = delete;
  Unreliable& operator=(const Unreliable&) = delete;

  int connect(int i) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    int err = ibv_modify_qp(qp[i], &a,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qp[1 - i]->qp_num;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    ibv_query_gid(context(), 1, 0, &a.ah_attr.grh.dgid);
    if (err == 0)
      err = ibv_modify_qp(
          qp[i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
    a.qp_state = IBV_QPS_RTS;
    return err != 0 ? err : ibv_modify_qp(qp[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }
  ibv_wc_status post(ibv_wr_opcode op, ibv_sge sge, uint64_t remote = 0, uint32_t rkey = 0) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = op;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma = {remote, rkey};
    if (ibv_post_send(qp[0], &wr, &bad) != 0) return IBV_WC_GENERAL_ERR;
    return wait_status(cq[0]);
  }

  bool ok = false;
  ibv_pd* pd;
  ibv_cq* cq[2]{};
  ibv_qp* qp[2]{};
};

uint64_t number(const void* at) {
  return reinterpret_cast<uintptr_t>(at);
}

// Nothing of the memory has been touched when it is registered.
void unreliable_write() {
  Unreliable u;
  CU_ASSERT_TRUE_FATAL(u.ok);
  Pages far_side(2);
  Pages near_side(2);
  ibv_mr* to = ibv_reg_mr_relaxed(u.pd, far_side.at, far_side.bytes, rights);
  ibv_mr* from = ibv_reg_mr_relaxed(u.pd, near_side.at, near_side.bytes, rights);
  CU_ASSERT_TRUE_FATAL(to != nullptr && from != nullptr);
  EQUAL(kilim_relaxed_usable(to, u.qp[0]), 0);
  fill(near_side.at, near_side.bytes, 9);
  const ibv_sge all{number(near_side.at), static_cast<uint32_t>(near_side.bytes), from->lkey};
  EQUAL(u.post(IBV_WR_RDMA_WRITE, all, number(far_side.at), to->rkey), IBV_WC_SUCCESS);
  shared().poll();
  EQUAL(std::memcmp(far_side.at, near_side.at, far_side.bytes), 0);
  // And a message into it.
  std::memset(far_side.at, 0, far_side.bytes);
  ibv_sge into{number(far_side.at), static_cast<uint32_t>(far_side.bytes), to->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &into;
  wr.num_sge = 1;
  EQUAL(ibv_post_recv(u.qp[1], &wr, &bad), 0);
  EQUAL(u.post(IBV_WR_SEND, all), IBV_WC_SUCCESS);
  EQUAL(wait_status(u.cq[1]), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(far_side.at, near_side.at, far_side.bytes), 0);
  EQUAL(ibv_dereg_mr_relaxed(to), 0);
  EQUAL(ibv_dereg_mr_relaxed(from), 0);
  EQUAL(ibv_flush_relaxed_mr(u.pd), 0);
}

// An option, and what the adapter does not page for is refused by the capability's name.
void on_demand_is_asked_for() {
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
  EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(ibv_flush_relaxed_mr(u.pd), 0);
  EQUAL(journal_count(Journal::Kind::page_fault), faults);  // nothing was used
  Attached* device = attach_device("memory0", "no-odp");
  ibv_context* c = open_hooked("memory0");
  CU_ASSERT_TRUE_FATAL(device != nullptr && c != nullptr);
  ibv_pd* pd = ibv_alloc_pd(c);
  EQUAL(kilim_relaxed_config(pd, &attr), EOPNOTSUPP);
  CU_ASSERT_TRUE(says("SUPPORT"));
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(ibv_close_device(c), 0);
}

// Memory that ibv_reg_mr() refuses, in a domain of each kind.
void faults_of(ibv_context* c, const kilim_relaxed_attr& attr) {
  ibv_pd* pd = ibv_alloc_pd(c);
  EQUAL_FATAL(kilim_relaxed_config(pd, &attr), 0);
  Pages pages(600);  // beyond what is looked at page by page
  const auto refused = [&](void* at, std::size_t bytes, int access) {
    ibv_mr* mr = ibv_reg_mr_relaxed(pd, at, bytes, access);
    const int why = errno;
    ibv_mr* plain = ibv_reg_mr(pd, at, bytes, access);
    const bool same = plain == nullptr && errno == why;
    if (plain != nullptr) ibv_dereg_mr(plain);
    return mr == nullptr && same && why == EFAULT && !says("EFAULT") && *kilim_compat_error() != 0;
  };
  const auto good = [&](void* at, std::size_t bytes, int access) {
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
  CU_ASSERT_TRUE(good(pages.at, 7 * page, rights) && good(pages.at + 8 * page, page, rights));
  ::mprotect(pages.at + 20 * page, 500 * page, PROT_READ);
  CU_ASSERT_TRUE(refused(pages.at + 20 * page, page, rights));
  CU_ASSERT_TRUE(refused(pages.at + 10 * page, 500 * page, rights));
  CU_ASSERT_TRUE(good(pages.at + 20 * page, page, IBV_ACCESS_REMOTE_READ));
  CU_ASSERT_TRUE(good(pages.at + 10 * page, 500 * page, IBV_ACCESS_REMOTE_READ));
  ::mprotect(pages.at + 30 * page, page, PROT_NONE);
  CU_ASSERT_TRUE(refused(pages.at + 30 * page, page, IBV_ACCESS_REMOTE_READ));
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, nullptr, SIZE_MAX, rights) == nullptr && errno == EINVAL);
  // Its last page ends where the address space does: rounded up, its end is 0.
  void* const last = reinterpret_cast<void*>(UINT64_MAX - 4095);
  CU_ASSERT_TRUE(ibv_reg_mr(pd, last, 4095, rights) == nullptr && errno == EINVAL);
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, last, 4095, rights) == nullptr && errno == EINVAL);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

void faults() {
  faults_of(client(), {});
  faults_of(client(), {.memory = KILIM_RELAXED_ON_DEMAND});
  Attached* device = attach_device("memory1", "no-odp");
  ibv_context* c = open_hooked("memory1");
  CU_ASSERT_TRUE_FATAL(device != nullptr && c != nullptr);
  faults_of(c, {});
  EQUAL(ibv_close_device(c), 0);
}

// What is mapped in the place of memory that went is another region's, never the old one's.
void no_stale_memory() {
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
  CU_ASSERT_TRUE((mr = ibv_reg_mr_relaxed(pd, pages.at, page, rights)) != nullptr && says("") &&
                 *kilim_compat_error() == 0);
  CU_ASSERT_TRUE(fails() && ibv_dereg_mr_relaxed(mr) == 0 && *kilim_compat_error() == 0);
  CU_ASSERT_TRUE(fails() && ibv_flush_relaxed_mr(pd) == 0 && *kilim_compat_error() == 0);
  ibv_exp_device_attr attr{};
  CU_ASSERT_TRUE(fails() && ibv_exp_query_device(client(), &attr) == 0);
  CU_ASSERT_TRUE(*kilim_compat_error() == 0 && fails());
  ibv_exp_reg_mr_in in{.pd = pd, .addr = pages.at, .length = page, .exp_access = 0, .comp_mask = 0};
  CU_ASSERT_TRUE((mr = ibv_exp_reg_mr(&in)) != nullptr && *kilim_compat_error() == 0);
  ibv_exp_prefetch_attr fetch{0, pages.at, page, 0};
  CU_ASSERT_TRUE(fails() && ibv_exp_prefetch_mr(mr, &fetch) == 0 && *kilim_compat_error() == 0);
  CU_ASSERT_TRUE(fails() && ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                                             IBV_ACCESS_LOCAL_WRITE, nullptr) == 0);
  CU_ASSERT_TRUE(*kilim_compat_error() == 0 && fails());
  CU_ASSERT_TRUE(kilim_compat_dereg_mr(mr) == 0 && *kilim_compat_error() == 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

const Case cases[] = {
    {"an unreliable connection writes and receives into relaxed regions", unreliable_write},
    {"relaxed regions on demand are asked for, and refused for what is not paged",
     on_demand_is_asked_for},
    {"memory that ibv_reg_mr() refuses makes no relaxed region either", faults},
    {"memory mapped anew in a relaxed region's place is what a new region shows", no_stale_memory},
    {"an arena is pinned once, and ends behind its last region", arenas},
    {"one of two arenas that begin on a page ends alone", arenas_of_one_page},
    {"the last error ends with a call that succeeds", sentences_end},
};

}  // namespace

std::span<const Case> kilim::test::relaxed_memory_cases() {
  return cases;
}
