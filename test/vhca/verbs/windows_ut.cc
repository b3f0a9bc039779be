// SPDX-License-Identifier: BSD-3-Clause
// Memory windows and changed regions through libibverbs and libmlx5: what a window shows ends to
// the byte where it was bound, for the queue and until when it was meant; a region's key outlives a
// change of what it stands for.
#include "windows_fixture.hh"

namespace windows_ut {
namespace {

using namespace kilim::test;

void a_window_ends_to_the_byte() {
  for (int edge = 0; edge < 3; edge++) {
    Windows w;
    CU_ASSERT_FATAL(w.ok);
    ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_2);
    CU_ASSERT_FATAL(mw != nullptr);
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    EQUAL(w.bind2(mw, rkey, 1001, 333), IBV_WC_SUCCESS);
    EQUAL(w.write(1001, 333, rkey), IBV_WC_SUCCESS);
    CU_ASSERT(all_equal(w.region.data(), 1001, 0));
    CU_ASSERT(all_equal(w.region.data() + 1001, 333, 0xab));
    CU_ASSERT(all_equal(w.region.data() + 1334, 4096 - 1334, 0));
    if (edge == 0) EQUAL(w.write(1000, 1, rkey), IBV_WC_REM_ACCESS_ERR);
    if (edge == 1) EQUAL(w.write(1334, 1, rkey), IBV_WC_REM_ACCESS_ERR);
    if (edge == 2) EQUAL(w.write(1002, 333, rkey), IBV_WC_REM_ACCESS_ERR);
    EQUAL(w.region.data()[1000] + w.region.data()[1334], 0);
    EQUAL(ibv_dealloc_mw(mw), 0);
  }
}

void a_window_shows_nothing_before_it_is_bound() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_1);
  CU_ASSERT_FATAL(mw != nullptr);
  EQUAL(ibv_dealloc_pd(w.pd[1]), EBUSY);
  EQUAL(w.write(0, 8, mw->rkey), IBV_WC_REM_ACCESS_ERR);
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void a_window_grants_what_it_was_bound_for() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_2);
  uint32_t rkey = ibv_inc_rkey(mw->rkey);
  EQUAL(w.bind2(mw, rkey, 0, 64, IBV_ACCESS_REMOTE_READ), IBV_WC_SUCCESS);
  EQUAL(w.post(IBV_WR_RDMA_READ, {w.from.sge(0, 64)}, w.region.at(), rkey), 0);
  EQUAL(w.status(), IBV_WC_SUCCESS);
  EQUAL(w.write(0, 8, rkey), IBV_WC_REM_ACCESS_ERR);
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void type_1_is_bound_anew_and_the_old_key_is_stale() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_1);
  EQUAL(w.bind1(mw, 0, 64), IBV_WC_SUCCESS);
  uint32_t first = mw->rkey;
  EQUAL(w.write(0, 64, first), IBV_WC_SUCCESS);
  EQUAL(w.bind1(mw, 0, 192), IBV_WC_SUCCESS);
  CU_ASSERT_NOT_EQUAL(mw->rkey, first);
  EQUAL(w.write(128, 64, mw->rkey), IBV_WC_SUCCESS);
  EQUAL(w.write(0, 64, first), IBV_WC_REM_ACCESS_ERR);
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void type_2_must_be_free_to_be_bound() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_2);
  uint32_t rkey = ibv_inc_rkey(mw->rkey);
  EQUAL(w.bind2(mw, rkey, 0, 64), IBV_WC_SUCCESS);
  EQUAL(w.invalidate(rkey), IBV_WC_SUCCESS);
  EQUAL(w.bind2(mw, ibv_inc_rkey(rkey), 64, 64), IBV_WC_SUCCESS);
  EQUAL(w.write(64, 64, ibv_inc_rkey(rkey)), IBV_WC_SUCCESS);
  EQUAL(w.bind2(mw, rkey, 0, 64), IBV_WC_MW_BIND_ERR);
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void an_invalidated_window_is_shut() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_2);
  uint32_t rkey = ibv_inc_rkey(mw->rkey);
  EQUAL(w.bind2(mw, rkey, 0, 64), IBV_WC_SUCCESS);
  EQUAL(w.invalidate(rkey), IBV_WC_SUCCESS);
  EQUAL(w.write(0, 8, rkey), IBV_WC_REM_ACCESS_ERR);
  CU_ASSERT(all_equal(w.region.data(), 64, 0));
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void type_2_belongs_to_its_queue() {
  Windows w, other;
  CU_ASSERT_FATAL(w.ok);
  CU_ASSERT_FATAL(other.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_2);
  uint32_t rkey = ibv_inc_rkey(mw->rkey);
  EQUAL(w.bind2(mw, rkey, 0, 64), IBV_WC_SUCCESS);
  // A second connection of the same protection domain.
  ibv_qp* second = create_qp(w.pd[1], w.cq[1]);
  EQUAL(connect(second, other.qp[0]->qp_num), 0);
  ibv_qp_attr reset{};
  EQUAL(ibv_modify_qp(other.qp[0], &reset, IBV_QP_STATE), 0);
  EQUAL(connect(other.qp[0], second->qp_num), 0);
  EQUAL(other.post(IBV_WR_RDMA_WRITE, {other.from.sge(0, 8)}, w.region.at(), rkey), 0);
  EQUAL(other.status(), IBV_WC_REM_ACCESS_ERR);
  EQUAL(w.write(0, 8, rkey), IBV_WC_SUCCESS);
  ibv_destroy_qp(second);
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void a_window_of_type_1_is_not_invalidated_from_afar() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_1);
  EQUAL(w.bind1(mw, 0, 64), IBV_WC_SUCCESS);
  EQUAL(w.post_recv(1, {w.region.sge(0, 64)}), 0);
  ibv_send_wr wr{}, *bad = nullptr;
  ibv_sge sge = w.from.sge(0, 8);
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = mw->rkey;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  EQUAL(ibv_post_send(w.qp[0], &wr, &bad), 0);
  EQUAL(w.status(), IBV_WC_REM_ACCESS_ERR);
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void a_window_does_not_reach_beyond_its_region() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mw* mw = ibv_alloc_mw(w.pd[1], IBV_MW_TYPE_2);
  uint32_t rkey = ibv_inc_rkey(mw->rkey);
  EQUAL(w.bind2(mw, rkey, 4000, 200), IBV_WC_SUCCESS);
  EQUAL(w.write(4000, 96, rkey), IBV_WC_SUCCESS);
  EQUAL(w.write(4000, 97, rkey), IBV_WC_REM_ACCESS_ERR);
  EQUAL(ibv_dealloc_mw(mw), 0);
}

void a_region_s_rights_change_and_its_key_stays() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  uint32_t rkey = w.region.mr()->rkey;
  EQUAL(ibv_rereg_mr(w.region.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
        0);
  EQUAL(w.region.mr()->rkey, rkey);
  EQUAL(w.write(0, 8, rkey), IBV_WC_SUCCESS);
  EQUAL(w.post(IBV_WR_RDMA_READ, {w.from.sge(0, 8)}, w.region.at(), rkey), 0);
  EQUAL(w.status(), IBV_WC_REM_ACCESS_ERR);
}

void a_region_moves_to_other_memory() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  static uint8_t memory[8192];
  uint8_t* page = memory + (4096 - reinterpret_cast<uintptr_t>(memory) % 4096);
  uint32_t rkey = w.region.mr()->rkey;
  EQUAL(ibv_rereg_mr(w.region.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, page, 100, 0), 0);
  EQUAL(w.post(IBV_WR_RDMA_WRITE, {w.from.sge(0, 100)}, reinterpret_cast<uintptr_t>(page), rkey),
        0);
  EQUAL(w.status(), IBV_WC_SUCCESS);
  CU_ASSERT(all_equal(page, 100, 0xab));
  EQUAL(w.write(0, 8, rkey), IBV_WC_REM_ACCESS_ERR);
  CU_ASSERT(all_equal(w.region.data(), 8, 0));
}

void a_region_moves_to_another_domain() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_pd* other = ibv_alloc_pd(context());
  EQUAL(ibv_rereg_mr(w.region.mr(), IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EQUAL(ibv_dealloc_pd(other), EBUSY);
  EQUAL(w.write(0, 8, w.region.mr()->rkey), IBV_WC_REM_ACCESS_ERR);
  w.region.release();
  EQUAL(ibv_dealloc_pd(other), 0);
}

void a_refused_change_leaves_the_region() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  ibv_mr* mr = w.region.mr();
  EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
        IBV_REREG_MR_ERR_CMD);
  EQUAL(errno, EINVAL);
  auto* nowhere = reinterpret_cast<void*>(0x10000);
  EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nowhere, 4096, 0),
        IBV_REREG_MR_ERR_CMD);
  EQUAL(errno, EFAULT);
  EQUAL(w.write(0, 4096, mr->rkey), IBV_WC_SUCCESS);
}

// Completions that nobody has read yet are there in the larger ring, in order.
void a_completion_queue_grows_with_entries_in_it() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  for (int round = 0; round < 5; round++) {
    for (uint64_t i = 0; i < 20; i++)
      EQUAL(w.post(IBV_WR_RDMA_WRITE, {w.from.sge(0, 8)}, w.region.at(), w.region.mr()->rkey), 0);
    for (int i = 0; i < 20; i++) shared().poll();
    EQUAL(ibv_resize_cq(w.cq[0], round % 2 == 0 ? 1000 : 60), 0);
    EQUAL(w.cq[0]->cqe, round % 2 == 0 ? 1023 : 63);
    EQUAL(w.write(0, 8, w.region.mr()->rkey), IBV_WC_SUCCESS);
    for (int i = 0; i < 20; i++) EQUAL(w.status(), IBV_WC_SUCCESS);
    ibv_wc wc{};
    EQUAL(ibv_poll_cq(w.cq[0], 1, &wc), 0);
  }
}

void a_completion_queue_too_small_for_its_entries_is_refused() {
  Windows w;
  CU_ASSERT_FATAL(w.ok);
  for (int i = 0; i < 20; i++)
    EQUAL(w.post(IBV_WR_RDMA_WRITE, {w.from.sge(0, 8)}, w.region.at(), w.region.mr()->rkey), 0);
  for (int i = 0; i < 20; i++) shared().poll();
  EQUAL(ibv_resize_cq(w.cq[0], 15), EINVAL);
  EQUAL(ibv_resize_cq(w.cq[0], 1 << 23), EINVAL);
  for (int i = 0; i < 20; i++) EQUAL(w.status(), IBV_WC_SUCCESS);
}

constexpr Case cases[] = {
    {"a window ends to the byte", a_window_ends_to_the_byte},
    {"a window shows nothing before it is bound", a_window_shows_nothing_before_it_is_bound},
    {"a window grants what it was bound for", a_window_grants_what_it_was_bound_for},
    {"type 1 is bound anew and the old key is stale",
     type_1_is_bound_anew_and_the_old_key_is_stale},
    {"type 2 must be free to be bound", type_2_must_be_free_to_be_bound},
    {"an invalidated window is shut", an_invalidated_window_is_shut},
    {"type 2 belongs to its queue", type_2_belongs_to_its_queue},
    {"a window of type 1 is not invalidated from afar",
     a_window_of_type_1_is_not_invalidated_from_afar},
    {"a window does not reach beyond its region", a_window_does_not_reach_beyond_its_region},
    {"a region's rights change and its key stays", a_region_s_rights_change_and_its_key_stays},
    {"a region moves to other memory", a_region_moves_to_other_memory},
    {"a region moves to another domain", a_region_moves_to_another_domain},
    {"a refused change leaves the region", a_refused_change_leaves_the_region},
    {"a completion queue grows and shrinks with entries in it",
     a_completion_queue_grows_with_entries_in_it},
    {"a completion queue too small for its entries is refused",
     a_completion_queue_too_small_for_its_entries_is_refused},
};

}  // namespace
}  // namespace windows_ut

KILIM_TEST_SUITE(windows, windows_ut::cases)
