// SPDX-License-Identifier: BSD-3-Clause
// The examples of the user's documents, compiled as C against kilim/ibv_compat.h, run on a virtual
// device; and what these functions refuse.
#include <cerrno>

#include <sys/mman.h>

#include "../vhca/verbs/fabric_fixture.hh"
#include "compat/allocated.hh"
#include "compat/mapping.hh"
#include "compat_cases.hh"
#include "examples.h"

namespace compat_ut {
namespace {

using namespace kilim::test;

struct Domain {
  ibv_pd* pd = ibv_alloc_pd(client());
  Domain() = default;
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  ~Domain() { EQUAL(ibv_dealloc_pd(pd), 0); }
};

bool mapped(const void* at) {
  unsigned char in_core = 0;
  return ::mincore(const_cast<void*>(at), page, &in_core) == 0;
}

void capabilities() {
  ibv_exp_device_attr attr{};
  EQUAL_FATAL(example_odp_supported(client(), &attr), 1);
  EQUAL(attr.comp_mask, IBV_EXP_DEVICE_ATTR_ODP | IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS);
  EQUAL(example_rc_sends(&attr), 1);
  ibv_device_attr_ex today{};
  EQUAL_FATAL(ibv_query_device_ex(client(), nullptr, &today), 0);
  const auto& theirs = today.odp_caps.per_transport_caps;
  const auto& ours = attr.odp_caps.per_transport_caps;
  EQUAL(attr.odp_caps.general_odp_caps, IBV_EXP_ODP_SUPPORT | IBV_EXP_ODP_SUPPORT_IMPLICIT);
  EQUAL(ours.rc_odp_caps, theirs.rc_odp_caps);
  EQUAL(ours.uc_odp_caps, theirs.uc_odp_caps);
  EQUAL(ours.ud_odp_caps, theirs.ud_odp_caps);
  EQUAL(ours.xrc_odp_caps, today.xrc_odp_caps);
  mlx5dv_context dv{};
  dv.comp_mask = MLX5DV_CONTEXT_MASK_DC_ODP_CAPS;
  EQUAL_FATAL(mlx5dv_query_device(client(), &dv), 0);
  EQUAL(ours.dc_odp_caps, dv.dc_odp_caps);
  EQUAL(ours.raw_eth_odp_caps, 0);
  CU_ASSERT_TRUE((ours.rc_odp_caps & IBV_EXP_ODP_SUPPORT_ATOMIC) != 0);
  EQUAL(ibv_exp_query_device(nullptr, &attr), EINVAL);
  // What is not asked for stays 0.
  attr.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
  EQUAL(ibv_exp_query_device(client(), &attr), 0);
  EQUAL(attr.odp_caps.general_odp_caps, 0);
}

void capabilities_without_paging() {
  Attached* device = attach_device("compat3", "no-odp");
  ibv_context* c = open_hooked("compat3");
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  ibv_exp_device_attr attr{};
  EQUAL(example_odp_supported(c, &attr), 0);
  EQUAL(attr.odp_caps.general_odp_caps, 0);
  EQUAL(ibv_close_device(c), 0);
}

void windows() {
  EQUAL(example_windows_supported(client()), 1);
  {
    Domain d;
    EQUAL(example_window(d.pd, 0), 0);
    EQUAL(example_window(d.pd, 1), 0);
  }
  Attached* device = attach_device("compat4", "vf");
  ibv_context* c = open_hooked("compat4");
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  EQUAL(example_windows_supported(c), 0);
  EQUAL(ibv_close_device(c), 0);
}

// The document asks for the right; libmlx5 looks at it in its debug builds alone, mlx5_ib never.
void bindable() {
  for (const unsigned right : {unsigned{IBV_ACCESS_MW_BIND}, 0u}) {
    Loop loop;
    Region region(loop.pd[1], page, all_access | right);
    ibv_mw* mw = ibv_alloc_mw(loop.pd[1], IBV_MW_TYPE_2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mw);
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw = {
        mw, ibv_inc_rkey(mw->rkey), {region.mr(), region.at(), 64, IBV_ACCESS_REMOTE_READ}};
    EQUAL(ibv_post_send(loop.qp[1], &wr, &bad), 0);
    EQUAL(wait_status(loop.cq[1]), IBV_WC_SUCCESS);
    EQUAL(ibv_dealloc_mw(mw), 0);
  }
}

void on_demand() {
  Domain d;
  Pages pages(4);
  const uint64_t faults = journal_count(Journal::Kind::page_prefetch);
  ibv_mr* mr = example_explicit(d.pd, pages.at, pages.bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(example_advise(mr, pages.at, page), 0);
  EQUAL(example_prefetch(mr, pages.at, pages.bytes), 0);
  shared().poll();
  CU_ASSERT_TRUE(journal_count(Journal::Kind::page_prefetch) > faults);
  EQUAL(example_dereg(mr), 0);
  ibv_mr* all = example_implicit(d.pd);
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  EQUAL(all->length, SIZE_MAX);
  EQUAL(all->addr, nullptr);
  EQUAL(example_prefetch(all, pages.at, pages.bytes), 0);
  EQUAL(example_dereg(all), 0);
}

void prefetch_ignores_errors() {
  Domain d;
  Pages pages(2);
  ibv_mr* mr = example_explicit(d.pd, pages.at, page);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  auto* beyond = pages.at + 64 * page;
  ibv_sge outside{reinterpret_cast<uintptr_t>(beyond), page, mr->lkey};
  CU_ASSERT_NOT_EQUAL(
      ibv_advise_mr(d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &outside, 1), 0);
  EQUAL(example_prefetch(mr, beyond, page), 0);
  ibv_exp_prefetch_attr attr{0, pages.at, page, 1};
  EQUAL(ibv_exp_prefetch_mr(mr, &attr), EINVAL);
  attr = {8, pages.at, page, 0};
  EQUAL(ibv_exp_prefetch_mr(mr, &attr), EINVAL);
  EQUAL(ibv_dereg_mr(mr), 0);
  // The whole address space is one call, as is a piece of several times 2 GiB.
  ibv_mr* all = example_implicit(d.pd);
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  attr = {0, nullptr, IBV_EXP_IMPLICIT_MR_SIZE, 0};
  EQUAL(ibv_exp_prefetch_mr(all, &attr), 0);
  EQUAL(ibv_dereg_mr(all), 0);
}

void re_registered() {
  Domain a;
  Domain b;
  Pages first(2);
  Pages second(4);
  ibv_mr* mr = ibv_reg_mr(a.pd, first.at, first.bytes, IBV_ACCESS_LOCAL_WRITE);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(example_rereg(mr, b.pd, second.at, second.bytes), 0);
  EQUAL(mr->pd, b.pd);
  EQUAL(mr->addr, second.at);
  EQUAL(mr->length, second.bytes);
  // What its flag does not name is ignored.
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, a.pd, first.at, first.bytes,
                         IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_ALLOCATE_MR, nullptr),
        0);
  EQUAL(mr->pd, b.pd);
  EQUAL(mr->addr, first.at);
  EQUAL(mr->length, first.bytes);
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, a.pd, second.at, second.bytes,
                         IBV_EXP_ACCESS_REMOTE_READ, nullptr),
        0);
  EQUAL(mr->pd, a.pd);
  EQUAL(mr->addr, first.at);
  EQUAL(mr->length, first.bytes);
  ibv_rereg_mr_attr unknown{1};
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE, &unknown),
        EINVAL);
  // An errno, where today's verb gives a code of its own.
  EQUAL(ibv_exp_rereg_mr(mr, 0, nullptr, nullptr, 0, 0, nullptr), EINVAL);
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0, nullptr), EINVAL);
  EQUAL(ibv_dereg_mr(mr), 0);
}

void re_registered_fails() {
  Domain d;
  Pages pages(2);
  ibv_mr* mr = ibv_reg_mr(d.pd, pages.at, pages.bytes, IBV_ACCESS_LOCAL_WRITE);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                         reinterpret_cast<void*>(uintptr_t{page}), page, 0, nullptr),
        EFAULT);
  CU_ASSERT_TRUE(says("ibv_dereg_mr"));
  EQUAL(ibv_dereg_mr(mr), 0);
}

void library_allocates() {
  Domain d;
  ibv_exp_reg_mr_in in{};
  in.pd = d.pd;
  in.length = 3 * page;
  in.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_LOCAL_WRITE;
  ibv_mr* mr = ibv_exp_reg_mr(&in);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  void* const before = mr->addr;
  std::memset(before, 1, in.length);
  EQUAL(example_rereg_allocates(mr, 16 * page), 0);
  CU_ASSERT_TRUE(mr->addr != before);
  EQUAL(mr->length, 16 * page);
  CU_ASSERT_FALSE(mapped(before));
  void* const after = mr->addr;
  std::memset(after, 2, 16 * page);
  EQUAL(kilim_compat_dereg_mr(mr), 0);
  CU_ASSERT_FALSE(mapped(after));
}

// ibv_dereg_mr() leaves the memory mapped, whoever gets the region's name afterwards.
void allocated_and_left() {
  Domain d;
  Pages pages(1);
  ibv_exp_reg_mr_in in{};
  in.pd = d.pd;
  in.length = page;
  in.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_LOCAL_WRITE;
  ibv_mr* mr = ibv_exp_reg_mr(&in);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  void* const left = mr->addr;
  EQUAL(ibv_dereg_mr(mr), 0);
  CU_ASSERT_TRUE(mapped(left));
  kilim::compat::release(mr, pages.at);  // of a region that got the name, with memory of its own
  CU_ASSERT_TRUE(mapped(left));
  kilim::compat::release(mr, left);
  CU_ASSERT_FALSE(mapped(left));
}

void allocation_refused() {
  Domain d;
  Pages pages(1);
  ibv_exp_reg_mr_in in{};
  in.pd = d.pd;
  in.length = page;
  in.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_ON_DEMAND;
  CU_ASSERT_TRUE(ibv_exp_reg_mr(&in) == nullptr && errno == EINVAL);
  CU_ASSERT_TRUE(says("contiguous"));
  in.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR;
  in.addr = pages.at;
  CU_ASSERT_TRUE(ibv_exp_reg_mr(&in) == nullptr && errno == EINVAL);
  CU_ASSERT_TRUE(says("no address"));
  ibv_mr* mr = ibv_reg_mr(d.pd, pages.at, page, IBV_ACCESS_LOCAL_WRITE);
  EQUAL(ibv_exp_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_ALLOCATE_MR, nullptr),
        EINVAL);
  EQUAL(ibv_dereg_mr(mr), 0);
  CU_ASSERT_TRUE((IBV_ACCESS_ALLOCATE_MR >> 32) != 0);
}

void not_here() {
  Domain d;
  Pages pages(1);
  CU_ASSERT_TRUE(ibv_reg_shared_mr(1, d.pd, pages.at, 0) == nullptr && errno == EOPNOTSUPP);
  CU_ASSERT_TRUE(says("ibv_import_mr"));
  using kilim::compat::is_device_mapping;
  CU_ASSERT_TRUE(is_device_mapping("7f0-7f1 rw-s 00000000 00:0c 5  /dmabuf:system\n"));
  CU_ASSERT_TRUE(is_device_mapping("7f0-7f1 rw-s 00000000 00:05 300  /dev/nvidia0\n"));
  CU_ASSERT_TRUE(is_device_mapping("7f0-7f1 rw-s 00000000 00:05 300  /dev/dri/renderD128\n"));
  CU_ASSERT_FALSE(is_device_mapping("7f0-7f1 rw-s 00000000 00:19 2  /dev/shm/x\n"));
  CU_ASSERT_FALSE(is_device_mapping("7f0-7f1 rw-p 00000000 00:00 0\n"));
  CU_ASSERT_FALSE(is_device_mapping("7f0-7f1 r--p 00000000 08:01 9  /usr/lib/libc.so\n"));
  // A mapping of a device that cannot be registered says so; other memory says what it is.
  ibv_exp_reg_mr_in in{};
  in.pd = d.pd;
  in.addr = reinterpret_cast<void*>(uintptr_t{page});
  in.length = page;
  CU_ASSERT_TRUE(ibv_exp_reg_mr(&in) == nullptr && errno == EFAULT);
  CU_ASSERT_TRUE(says("does not register"));
  in.exp_access = uint64_t{1} << 50;
  CU_ASSERT_TRUE(ibv_exp_reg_mr(&in) == nullptr && errno == EINVAL);
  in = {.pd = d.pd, .addr = pages.at, .length = page, .exp_access = 0, .comp_mask = 1};
  CU_ASSERT_TRUE(ibv_exp_reg_mr(&in) == nullptr && errno == EINVAL);
}

const Case own[] = {
    {"example: is on-demand paging there, and does RC send", capabilities},
    {"example: an adapter without on-demand paging says so", capabilities_without_paging},
    {"example: memory windows are there, are allocated and deallocated", windows},
    {"a window is bound to a region with IBV_ACCESS_MW_BIND, and to one without", bindable},
    {"example: explicit and implicit regions on demand, advice, prefetch", on_demand},
    {"example: a region is re-registered, all at once", re_registered},
    {"a prefetch is best effort", prefetch_ignores_errors},
    {"a re-registration that fails gives errno, and the region can be deregistered",
     re_registered_fails},
    {"the library allocates memory for a region, and frees it", library_allocates},
    {"memory that the library allocated stays where ibv_dereg_mr() leaves it", allocated_and_left},
    {"memory is not allocated on demand, nor in a place", allocation_refused},
    {"shared regions and memory of other devices are refused with a sentence", not_here},
};

}  // namespace
}  // namespace compat_ut

KILIM_TEST_MAIN(compat) {
  return kilim::test::run_tables(
      "compat",
      {compat_ut::own, kilim::test::paging_cases(), kilim::test::relaxed_cases(),
       kilim::test::relaxed_life_cases(), kilim::test::relaxed_memory_cases(),
       kilim::test::unreliable_cases()},
      argc, argv);
}
