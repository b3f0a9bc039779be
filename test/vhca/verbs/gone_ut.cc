// SPDX-License-Identifier: BSD-3-Clause
// Memory that goes away under the device, through verbs: regions, lists, rings and completion
// queues that are unmapped or cut off, rings that are made unreadable (protected_ut.cc has
// regions). The right status or asynchronous event, both queue pairs' states, and everything can
// still be destroyed.
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric_fixture.hh"
#include "far.hh"

namespace gone_ut {
namespace {

using namespace kilim::test;

constexpr std::size_t page = 4096;

// Two pages of a file or of nothing, of which the second can be taken away.
struct Pages {
  explicit Pages(bool of_file = false) {
    if (of_file) {
      fd = memfd_create("pages", MFD_CLOEXEC);
      EQUAL_FATAL(ftruncate(fd, 2 * page), 0);
    }
    void* p = mmap(kilim::test::far_from_all(2 * page), 2 * page, PROT_READ | PROT_WRITE,
                   of_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    CU_ASSERT_FATAL(p != MAP_FAILED);
    at = static_cast<uint8_t*>(p);
    std::memset(at, 0x5a, 2 * page);
  }
  ~Pages() {
    munmap(at, 2 * page);
    if (fd >= 0) close(fd);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void unmap() { EQUAL(munmap(at + page, page), 0); }
  void forbid() { EQUAL(mprotect(at + page, page, PROT_NONE), 0); }
  void cut() { EQUAL(ftruncate(fd, page), 0); }

  int fd = -1;
  uint8_t* at = nullptr;
};

using Take = void (Pages::*)();
struct Way {
  bool of_file;
  Take take;
};
constexpr Way ways[] = {{false, &Pages::unmap}, {true, &Pages::cut}};

// One request that touches the page that went; `remote`: it is the other side's.
void touches_gone_memory(const Way& way, ibv_wr_opcode opcode, bool remote) {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Pages pages(way.of_file);
  Region mine(l.pd[remote ? 0 : 1], 64);
  ibv_mr* mr = ibv_reg_mr(l.pd[remote ? 1 : 0], pages.at, 2 * page, all_access);
  CU_ASSERT_FATAL(mr != nullptr);
  CU_ASSERT_FATAL(mine.mr() != nullptr);
  (pages.*way.take)();
  uint64_t faults = journal_count(Journal::Kind::fault);
  auto gone = reinterpret_cast<uintptr_t>(pages.at + page);
  if (remote)
    EQUAL(l.post(opcode, {mine.sge(0, 64)}, gone, mr->rkey), 0);
  else
    EQUAL(l.post(opcode, {ibv_sge{gone, 64, mr->lkey}}, mine.at(), mine.mr()->rkey), 0);
  EQUAL(l.status(), remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR);
  CU_ASSERT(journal_count(Journal::Kind::fault) > faults);
  EQUAL(state_of(l.qp[0]), IBV_QPS_ERR);
  EQUAL(state_of(l.qp[1]), remote ? IBV_QPS_ERR : IBV_QPS_RTS);
  CU_ASSERT(all_equal(mine.data(), 64, 0));
  CU_ASSERT(all_equal(pages.at, page, 0x5a));
  EQUAL(ibv_dereg_mr(mr), 0);
}

void a_region_of_the_other_side() {
  for (const Way& way : ways) {
    touches_gone_memory(way, IBV_WR_RDMA_WRITE, true);
    touches_gone_memory(way, IBV_WR_RDMA_READ, true);
  }
}
void a_region_of_this_side() {
  for (const Way& way : ways) {
    touches_gone_memory(way, IBV_WR_RDMA_WRITE, false);
    touches_gone_memory(way, IBV_WR_RDMA_READ, false);
  }
}

void a_receive_buffer() {
  for (const Way& way : ways) {
    Loop l;
    CU_ASSERT_FATAL(l.ok);
    Pages pages(way.of_file);
    Region mine(l.pd[0], 64);
    ibv_mr* mr = ibv_reg_mr(l.pd[1], pages.at, 2 * page, all_access);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
    (pages.*way.take)();
    EQUAL(l.post_recv(1, {{reinterpret_cast<uintptr_t>(pages.at + page), 64, mr->lkey}}), 0);
    EQUAL(l.post(IBV_WR_SEND, {mine.sge(0, 64)}), 0);
    EQUAL(l.status(), IBV_WC_REM_OP_ERR);
    EQUAL(wait_status(l.cq[1]), IBV_WC_LOC_PROT_ERR);
    EQUAL(state_of(l.qp[0]), IBV_QPS_ERR);
    EQUAL(state_of(l.qp[1]), IBV_QPS_ERR);
    EQUAL(ibv_dereg_mr(mr), 0);
  }
}

// What is not there, or not writable, is not registered in the first place.
void a_range_to_register() {
  ibv_pd* pd = ibv_alloc_pd(context());
  for (const Way& way : {ways[0], ways[1], Way{false, &Pages::forbid}}) {
    Pages pages(way.of_file);
    (pages.*way.take)();
    errno = 0;
    CU_ASSERT_PTR_NULL(ibv_reg_mr(pd, pages.at, 2 * page, all_access));
    EQUAL(errno, EFAULT);
  }
  Pages pages;
  EQUAL(mprotect(pages.at, 2 * page, PROT_READ), 0);
  CU_ASSERT_PTR_NULL(ibv_reg_mr(pd, pages.at, 2 * page, IBV_ACCESS_LOCAL_WRITE));
  EQUAL(errno, EFAULT);
  ibv_mr* mr = ibv_reg_mr(pd, pages.at, 2 * page, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(ibv_dereg_mr(mr), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// A ring of libmlx5 for the time of its being forbidden: libmlx5 itself must not touch it
// meanwhile.
class Forbidden {
 public:
  Forbidden(void* at, std::size_t bytes) {
    auto from = reinterpret_cast<uintptr_t>(at) & ~(page - 1);
    auto to = (reinterpret_cast<uintptr_t>(at) + bytes + page - 1) & ~(page - 1);
    at_ = reinterpret_cast<void*>(from);
    bytes_ = to - from;
    EQUAL_FATAL(mprotect(at_, bytes_, PROT_NONE), 0);
  }
  ~Forbidden() { lift(); }
  void lift() {
    if (bytes_ != 0) mprotect(at_, bytes_, PROT_READ | PROT_WRITE);
    bytes_ = 0;
  }
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;

 private:
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
};

void run_device() {
  for (int i = 0; i < 50; i++) shared().poll();
}

// The next asynchronous event is this one, of this object; it is acknowledged.
void is_announced(ibv_event_type type, const void* element) {
  pollfd p{context()->async_fd, POLLIN, 0};
  EQUAL_FATAL(poll(&p, 1, 0), 1);
  ibv_async_event event{};
  EQUAL_FATAL(ibv_get_async_event(context(), &event), 0);
  EQUAL(event.event_type, type);
  CU_ASSERT_PTR_EQUAL(event.element.qp, element);
  ibv_ack_async_event(&event);
}
void no_more_events() {
  pollfd p{context()->async_fd, POLLIN, 0};
  EQUAL(poll(&p, 1, 0), 0);
}

mlx5dv_qp rings_of(ibv_qp* qp) {
  mlx5dv_qp dv{};
  mlx5dv_obj obj{};
  obj.qp = {qp, &dv};
  EQUAL_FATAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
  return dv;
}
mlx5dv_cq ring_of(ibv_cq* cq) {
  mlx5dv_cq dv{};
  mlx5dv_obj obj{};
  obj.cq = {cq, &dv};
  EQUAL_FATAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
  return dv;
}

void a_posted_send_queue() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 64), b(l.pd[1], 64);
  mlx5dv_qp dv = rings_of(l.qp[0]);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {a.sge(0, 64)}, b.at(), b.mr()->rkey), 0);
  Forbidden ring(dv.sq.buf, std::size_t{dv.sq.wqe_cnt} * dv.sq.stride);
  run_device();
  ring.lift();
  is_announced(IBV_EVENT_QP_FATAL, l.qp[0]);
  no_more_events();
  EQUAL(state_of(l.qp[0]), IBV_QPS_ERR);
  EQUAL(state_of(l.qp[1]), IBV_QPS_RTS);
  // From RESET it works again.
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  EQUAL(ibv_modify_qp(l.qp[0], &attr, IBV_QP_STATE), 0);
  EQUAL(connect(l.qp[0], l.qp[1]->qp_num), 0);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {a.sge(0, 64)}, b.at(), b.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
}

void a_receive_queue() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 64), b(l.pd[1], 64);
  mlx5dv_qp dv = rings_of(l.qp[1]);
  EQUAL(l.post_recv(1, {b.sge(0, 64)}), 0);
  EQUAL(l.post(IBV_WR_SEND, {a.sge(0, 64)}), 0);
  Forbidden ring(dv.rq.buf, std::size_t{dv.rq.wqe_cnt} * dv.rq.stride);
  run_device();
  ring.lift();
  is_announced(IBV_EVENT_QP_FATAL, l.qp[1]);
  EQUAL(l.status(), IBV_WC_REM_OP_ERR);
  EQUAL(state_of(l.qp[0]), IBV_QPS_ERR);
  EQUAL(state_of(l.qp[1]), IBV_QPS_ERR);
  no_more_events();
}

void a_completion_queue() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 64), b(l.pd[1], 64);
  mlx5dv_cq dv = ring_of(l.cq[0]);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {a.sge(0, 64)}, b.at(), b.mr()->rkey), 0);
  Forbidden ring(dv.buf, std::size_t{dv.cqe_cnt} * dv.cqe_size);
  run_device();
  ring.lift();
  is_announced(IBV_EVENT_CQ_ERR, l.cq[0]);
  is_announced(IBV_EVENT_QP_FATAL, l.qp[0]);
  no_more_events();
  EQUAL(state_of(l.qp[0]), IBV_QPS_ERR);
  EQUAL(state_of(l.qp[1]), IBV_QPS_RTS);
}

// More completions than the queue has places: said once, and nothing is overwritten.
void a_completion_queue_that_overruns() {
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_cq* cq = ibv_create_cq(context(), 3, nullptr, nullptr, 0);
  ibv_qp* qp = create_qp(pd, cq);
  CU_ASSERT_FATAL(qp != nullptr);
  EQUAL_FATAL(connect(qp, qp->qp_num), 0);
  EQUAL(cq->cqe, 3);
  Region r(pd, 64);
  ibv_sge sge = r.sge(0, 8);
  for (uint64_t i = 0; i < 6; i++) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = i;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma = {r.at(32), r.mr()->rkey};
    EQUAL(ibv_post_send(qp, &wr, &bad), 0);
  }
  run_device();
  is_announced(IBV_EVENT_CQ_ERR, cq);
  is_announced(IBV_EVENT_QP_FATAL, qp);
  no_more_events();
  ibv_wc wc[8]{};
  EQUAL(ibv_poll_cq(cq, 8, wc), 4);
  for (uint64_t i = 0; i < 4; i++) {
    EQUAL(wc[i].wr_id, i);
    EQUAL(wc[i].status, IBV_WC_SUCCESS);
  }
  EQUAL(ibv_destroy_qp(qp), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  r.release();
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// A UMR whose list lies behind a pointer: the list's region is registered, its memory gone.
void a_list_by_pointer() {
  for (const Way& way : ways) {
    Loop l(Shape{
        rc_ops,
        MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_RAW_WQE,
        512});
    CU_ASSERT_FATAL(l.ok);
    Pages pages(way.of_file);
    ibv_mr* mr = ibv_reg_mr(l.pd[0], pages.at, 2 * page, all_access);
    mlx5dv_mkey_init_attr attr{};
    attr.pd = l.pd[0];
    attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
    attr.max_entries = 4;
    mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
    CU_ASSERT_FATAL(mr != nullptr);
    CU_ASSERT_FATAL(key != nullptr);
    (pages.*way.take)();
    // Control, UMR control (4 octowords, mask: length and free), key context, pointer.
    struct {
      uint32_t ctrl[4];
      uint8_t umr_flags, umr_rsvd[3];
      uint16_t octowords, offset;
      uint64_t mask;
      uint8_t umr_rest[32];
      uint8_t context[64];
      uint32_t bytes, lkey;
      uint64_t at;
    } wqe{};
    static_assert(sizeof wqe == 144);
    wqe.ctrl[0] = htobe32(0x25);
    wqe.ctrl[1] = htobe32(l.qp[0]->qp_num << 8 | 9);
    wqe.ctrl[2] = htobe32(8);
    wqe.ctrl[3] = htobe32(key->lkey);
    wqe.octowords = htobe16(4);
    wqe.mask = htobe64(1u << 29 | 1);
    uint64_t length = htobe64(64);
    std::memcpy(wqe.context + 16, &length, 8);
    wqe.bytes = htobe32(64);
    wqe.lkey = htobe32(mr->lkey);
    wqe.at = htobe64(reinterpret_cast<uintptr_t>(pages.at + page));
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(l.qp[0]);
    ibv_wr_start(ex);
    ex->wr_id = 42;
    mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), &wqe);
    EQUAL(ibv_wr_complete(ex), 0);
    EQUAL(l.status(), IBV_WC_LOC_PROT_ERR);
    EQUAL(state_of(l.qp[0]), IBV_QPS_ERR);
    EQUAL(state_of(l.qp[1]), IBV_QPS_RTS);
    EQUAL(mlx5dv_destroy_mkey(key), 0);
    EQUAL(ibv_dereg_mr(mr), 0);
  }
}

constexpr Case cases[] = {
    {"a region of the other side", a_region_of_the_other_side},
    {"a region of this side", a_region_of_this_side},
    {"a receive buffer", a_receive_buffer},
    {"a range to register", a_range_to_register},
    {"a posted send queue", a_posted_send_queue},
    {"a receive queue", a_receive_queue},
    {"a completion queue", a_completion_queue},
    {"a completion queue that overruns", a_completion_queue_that_overruns},
    {"a list by pointer", a_list_by_pointer},
};

}  // namespace
}  // namespace gone_ut

KILIM_TEST_SUITE(gone, gone_ut::cases)
