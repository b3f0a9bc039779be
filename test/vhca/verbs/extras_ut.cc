// SPDX-License-Identifier: BSD-3-Clause
// What mlx5 has beyond verbs, through libibverbs and libmlx5: copies by a send queue, completion
// entries of other shapes, the port as its switch would see it.
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>

#include "fabric_fixture.hh"
#include "lock_limit.hh"

namespace extras_ut {
namespace {

using namespace kilim::test;

// A queue that copies; it needs no peer.
struct Copier {
  Copier() : loop(shape()), from(loop.pd[0], 8192), to(loop.pd[0], 8192) {
    fill(from.data(), 8192, 21);
  }
  static Shape shape() {
    Shape s;
    s.ops = IBV_QP_EX_WITH_SEND;
    s.dv_ops = MLX5DV_QP_EX_WITH_MEMCPY;
    return s;
  }
  ibv_wc copy(uint32_t to_key, uint64_t to_at, uint32_t from_key, uint64_t from_at,
              std::size_t bytes) {
    ibv_qp_ex* q = ibv_qp_to_qp_ex(loop.qp[0]);
    ibv_wc wc{};
    wc.status = IBV_WC_GENERAL_ERR;
    ibv_wr_start(q);
    q->wr_id = 3;
    q->wr_flags = IBV_SEND_SIGNALED;
    mlx5dv_wr_memcpy(mlx5dv_qp_ex_from_ibv_qp_ex(q), to_key, to_at, from_key, from_at, bytes);
    if (ibv_wr_complete(q) == 0) wait_for(loop.cq[0], wc);
    return wc;
  }
  Loop loop;
  Region from, to;
};

void a_send_queue_copies() {
  Copier c;
  CU_ASSERT_FATAL(c.loop.ok);
  ibv_wc wc = c.copy(c.to.mr()->lkey, c.to.at(5), c.from.mr()->lkey, c.from.at(3), 7001);
  EQUAL(wc.status, IBV_WC_SUCCESS);
  EQUAL(static_cast<int>(wc.opcode), static_cast<int>(MLX5DV_WC_MEMCPY));
  EQUAL(std::memcmp(c.to.data() + 5, c.from.data() + 3, 7001), 0);
  CU_ASSERT(all_equal(c.to.data(), 5, 0));
  CU_ASSERT(all_equal(c.to.data() + 7006, 8192 - 7006, 0));
}

void a_copy_is_checked_at_both_ends() {
  for (int bad = 0; bad < 4; bad++) {
    Copier c;
    CU_ASSERT_FATAL(c.loop.ok);
    Region foreign(c.loop.pd[1], 64), read_only(c.loop.pd[0], 64, 0);
    uint32_t to = c.to.mr()->lkey, from = c.from.mr()->lkey;
    ibv_wc wc{};
    if (bad == 0) wc = c.copy(foreign.mr()->lkey, foreign.at(), from, c.from.at(), 8);
    if (bad == 1) wc = c.copy(to, c.to.at(), foreign.mr()->lkey, foreign.at(), 8);
    if (bad == 2) wc = c.copy(read_only.mr()->lkey, read_only.at(), from, c.from.at(), 8);
    if (bad == 3) wc = c.copy(to, c.to.at(1), from, c.from.at(), 8192);
    EQUAL(wc.status, IBV_WC_LOC_PROT_ERR);
    CU_ASSERT(all_equal(c.to.data(), 8192, 0));
    CU_ASSERT(all_equal(foreign.data(), 64, 0));
  }
}

void a_copy_has_a_longest() {
  Copier c;
  CU_ASSERT_FATAL(c.loop.ok);
  mlx5dv_context dv{};
  dv.comp_mask = MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH;
  EQUAL(mlx5dv_query_device(context(), &dv), 0);
  EQUAL(dv.max_wr_memcpy_length, 1u << 23);
  EQUAL(c.copy(c.to.mr()->lkey, c.to.at(), c.from.mr()->lkey, c.from.at(),
               dv.max_wr_memcpy_length + 1)
            .status,
        IBV_WC_GENERAL_ERR);
}

// Entries of 128 bytes carry the completion in their second half; padded ones are written whole.
void padded_entries_are_written_whole() {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 15;
  mlx5dv_cq_init_attr dv{};
  dv.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE | MLX5DV_CQ_INIT_ATTR_MASK_FLAGS;
  dv.cqe_size = 128;
  dv.flags = MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD;
  ibv_cq* cq = ibv_cq_ex_to_cq(mlx5dv_create_cq(context(), &attr, &dv));
  CU_ASSERT_FATAL(cq != nullptr);
  mlx5dv_cq raw{};
  mlx5dv_obj obj{};
  obj.cq = {cq, &raw};
  EQUAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
  EQUAL(raw.cqe_size, 128);
  std::memset(raw.buf, 0xee, 64);
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_qp* qp = create_qp(pd, cq);
  EQUAL(connect(qp, qp->qp_num), 0);
  {
    Region r(pd, 128);
    ibv_sge sge = r.sge(0, 8);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma = {r.at(64), r.mr()->rkey};
    EQUAL(ibv_post_send(qp, &wr, &bad), 0);
    EQUAL(wait_status(cq), IBV_WC_SUCCESS);
    CU_ASSERT(all_equal(static_cast<uint8_t*>(raw.buf), 64, 0));
  }
  ibv_destroy_qp(qp);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
}

void compression_is_a_wish_for_one_format() {
  for (auto format : {MLX5DV_CQE_RES_FORMAT_HASH, MLX5DV_CQE_RES_FORMAT_CSUM}) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 15;
    mlx5dv_cq_init_attr dv{};
    dv.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
    dv.cqe_comp_res_format = static_cast<uint8_t>(format);
    ibv_cq_ex* cq = mlx5dv_create_cq(context(), &attr, &dv);
    CU_ASSERT_FATAL(cq != nullptr);
    ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
    dv.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH | MLX5DV_CQE_RES_FORMAT_CSUM;
    CU_ASSERT_PTR_NULL(mlx5dv_create_cq(context(), &attr, &dv));
    EQUAL(errno, EINVAL);
  }
}

void a_port_has_no_switch() {
  mlx5dv_port port{};
  EQUAL(mlx5dv_query_port(context(), 1, &port), 0);
  EQUAL(port.flags, 0);
  EQUAL(mlx5dv_query_port(context(), 2, &port), EINVAL);
}

constexpr uint64_t page = 4096;

uint8_t* pages(std::size_t n) {
  void* at = ::mmap(nullptr, n * page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED ? static_cast<uint8_t*>(at) : nullptr;
}

// What refused: 0: nothing did.
int refusal(ibv_mr* mr) {
  const int err = mr == nullptr ? errno : 0;
  if (mr != nullptr) ibv_dereg_mr(mr);
  return err;
}

// The steps return the line that went wrong, below 256 of them in a function.
#define KILIM_STEP(ok) \
  if (!(ok)) return __LINE__ % 255 + 1

int regions_within_the_limit() {
  ibv_context* c = open_device();
  ibv_pd* pd = c != nullptr ? ibv_alloc_pd(c) : nullptr;
  uint8_t* m = pages(64);
  KILIM_STEP(pd != nullptr && m != nullptr && may_lock(16));
  const auto reg = [&](uint64_t from, uint64_t bytes, unsigned access = all_access) {
    return ibv_reg_mr(pd, m + from, bytes, static_cast<int>(access));
  };
  ibv_mr* over = reg(0, 64 * page);  // with the capability there is no limit
  KILIM_STEP(over != nullptr && give_up_lock_capability());
  KILIM_STEP(refusal(reg(0, 1)) == ENOMEM && ibv_dereg_mr(over) == 0);
  KILIM_STEP(refusal(reg(0, 17 * page)) == ENOMEM);
  ibv_mr* all = reg(0, 16 * page);
  KILIM_STEP(all != nullptr && refusal(reg(0, 1)) == ENOMEM);
  // On demand nothing is pinned.
  KILIM_STEP(refusal(reg(0, 64 * page, all_access | IBV_ACCESS_ON_DEMAND)) == 0);
  KILIM_STEP(ibv_dereg_mr(all) == 0);
  ibv_mr* most = reg(0, 15 * page);
  KILIM_STEP(most != nullptr);
  // Two bytes on two pages are two pages, and what is pinned twice counts twice.
  KILIM_STEP(refusal(reg(page - 1, 2)) == ENOMEM && refusal(reg(page, 2)) == 0);
  KILIM_STEP(ibv_dereg_mr(most) == 0);
  ibv_mr* moved = reg(0, 9 * page);
  KILIM_STEP(moved != nullptr);
  const auto move = [&](uint64_t n) {
    return ibv_rereg_mr(moved, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, m + 20 * page, n * page,
                        0);
  };
  KILIM_STEP(move(7) == 0 && move(9) == 0 && move(8) != 0 && errno == ENOMEM);
  KILIM_STEP(refusal(reg(0, 8 * page)) == ENOMEM && refusal(reg(0, 7 * page)) == 0);
  KILIM_STEP(ibv_dereg_mr(moved) == 0 && may_lock(0) && refusal(reg(0, 1)) == EPERM);
  return 0;
}

// A ring of one page and a page of doorbell records, which the queues share.
int queues_within_the_limit() {
  ibv_context* c = open_device();
  ibv_pd* pd = c != nullptr ? ibv_alloc_pd(c) : nullptr;
  KILIM_STEP(pd != nullptr && give_up_lock_capability() && may_lock(1));
  const auto refuses = [](const void* made) { return made == nullptr && errno == ENOMEM; };
  KILIM_STEP(refuses(ibv_create_cq(c, 63, nullptr, nullptr, 0)) && may_lock(2));
  ibv_cq* cq = ibv_create_cq(c, 63, nullptr, nullptr, 0);
  KILIM_STEP(cq != nullptr && refuses(ibv_create_cq(c, 63, nullptr, nullptr, 0)));
  // The larger ring is pinned beside the smaller one.
  KILIM_STEP(may_lock(3) && ibv_resize_cq(cq, 127) == ENOMEM && may_lock(4));
  KILIM_STEP(ibv_resize_cq(cq, 127) == 0 && ibv_resize_cq(cq, 63) == 0 && may_lock(2));
  const auto shared_queue = [&] {
    ibv_srq_init_attr s{};
    s.attr = {40, 1, 0};  // libmlx5 takes 128 places of 32 bytes
    return ibv_create_srq(pd, &s);
  };
  KILIM_STEP(refuses(shared_queue()) && may_lock(3));
  ibv_srq* srq = shared_queue();
  KILIM_STEP(srq != nullptr && ibv_destroy_srq(srq) == 0 && may_lock(2));
  ibv_qp* qp = nullptr;
  uint64_t enough = 2;
  while (qp == nullptr && enough < 16 && may_lock(enough)) {
    qp = create_qp(pd, cq);
    if (qp == nullptr) KILIM_STEP(errno == ENOMEM && ++enough != 0);
  }
  mlx5dv_qp dv{};
  mlx5dv_obj obj{};
  obj.qp = {qp, &dv};
  KILIM_STEP(qp != nullptr && mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) == 0);
  const uint64_t bytes = dv.rq.wqe_cnt * dv.rq.stride + dv.sq.wqe_cnt * dv.sq.stride;
  KILIM_STEP(enough == 2 + (bytes + page - 1) / page);
  KILIM_STEP(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
  KILIM_STEP(may_lock(2));
  cq = ibv_create_cq(c, 63, nullptr, nullptr, 0);
  KILIM_STEP(cq != nullptr && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
  return ibv_close_device(c) == 0 ? 0 : 1;
}

// The children inherit what this process has pinned: it is not theirs.
void pinned_pages_are_held_against_the_limit() {
  Loop l;
  Region r(l.pd[0], 64 * page);
  CU_ASSERT_FATAL(l.ok);
  CU_ASSERT_FATAL(r.mr() != nullptr);
  EQUAL(in_child(regions_within_the_limit), 0);
  EQUAL(in_child(queues_within_the_limit), 0);
}

// What the kernel shows to every process and nobody can pin.
uint8_t* kernel_s_page() {
  unsigned long begin = 0;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  char line[512];
  while (maps != nullptr && begin == 0 && std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::strstr(line, "[vvar]") != nullptr) begin = std::strtoul(line, nullptr, 16);
  }
  if (maps != nullptr) (void)std::fclose(maps);
  return reinterpret_cast<uint8_t*>(begin);
}

// So there is never a region of it for a window to show.
void memory_that_cannot_be_pinned_is_not_registered() {
  Loop l;
  Region r(l.pd[0], page);
  uint8_t* foreign = kernel_s_page();
  CU_ASSERT_FATAL(l.ok);
  CU_ASSERT_FATAL(r.mr() != nullptr);
  CU_ASSERT_FATAL(foreign != nullptr);
  for (const unsigned access : {0u, unsigned{IBV_ACCESS_REMOTE_READ}}) {
    errno = 0;
    CU_ASSERT_PTR_NULL(ibv_reg_mr(l.pd[0], foreign, page, static_cast<int>(access)));
    EQUAL(errno, EFAULT);
  }
  errno = 0;
  EQUAL(ibv_rereg_mr(r.mr(), IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, nullptr,
                     foreign, page, 0),
        IBV_REREG_MR_ERR_CMD);
  EQUAL(errno, EFAULT);
  ibv_mr* paged = ibv_reg_mr(l.pd[0], foreign, page, IBV_ACCESS_ON_DEMAND);
  CU_ASSERT_PTR_NOT_NULL_FATAL(paged);
  ibv_sge range{reinterpret_cast<uintptr_t>(foreign), 8, paged->lkey};
  EQUAL(ibv_advise_mr(l.pd[0], IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1),
        EFAULT);
  EQUAL(ibv_dereg_mr(paged), 0);
}

constexpr Case cases[] = {
    {"a send queue copies", a_send_queue_copies},
    {"a copy is checked at both ends", a_copy_is_checked_at_both_ends},
    {"a copy has a longest", a_copy_has_a_longest},
    {"padded entries are written whole", padded_entries_are_written_whole},
    {"compression is a wish for one format", compression_is_a_wish_for_one_format},
    {"a port has no switch", a_port_has_no_switch},
    {"what is pinned is held against the limit on locked memory",
     pinned_pages_are_held_against_the_limit},
    {"memory that cannot be pinned is not registered",
     memory_that_cannot_be_pinned_is_not_registered},
};

}  // namespace
}  // namespace extras_ut

KILIM_TEST_SUITE(extras, extras_ut::cases)
