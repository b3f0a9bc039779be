// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues and XRC through libibverbs and libmlx5: order and reuse of WQEs, the limit
// event, whose memory and completion queue count, and domains that a file names.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric_fixture.hh"
#include "xrc_fixture.hh"

namespace shared_ut {
namespace {

using namespace kilim::test;

int post_shared(ibv_srq* srq, ibv_sge sge, uint64_t id) {
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

// The event of this type, if it is the next one.
bool next_event(ibv_event_type type) {
  shared().poll();
  int flags = fcntl(context()->async_fd, F_GETFL);
  fcntl(context()->async_fd, F_SETFL, flags | O_NONBLOCK);
  ibv_async_event e{};
  bool got = ibv_get_async_event(context(), &e) == 0;
  fcntl(context()->async_fd, F_SETFL, flags);
  if (got) ibv_ack_async_event(&e);
  return got && e.event_type == type;
}

ibv_srq* create_srq(ibv_pd* pd, uint32_t max_wr) {
  ibv_srq_init_attr attr{};
  attr.attr = {max_wr, 2, 0};
  return ibv_create_srq(pd, &attr);
}

// Side 0 sends; side 1 receives from a shared queue.
struct SharedLoop {
  SharedLoop() {
    pd = ibv_alloc_pd(context());
    srq_pd = ibv_alloc_pd(context());
    srq = create_srq(srq_pd, 7);
    cq = ibv_create_cq(context(), 64, nullptr, nullptr, 0);
    for (int i = 0; i < 2; i++) {
      ibv_qp_init_attr attr{};
      attr.qp_type = IBV_QPT_RC;
      attr.send_cq = attr.recv_cq = cq;
      attr.cap = {8, 8, 1, 1, 0};
      if (i == 1) attr.srq = srq;
      qp[i] = ibv_create_qp(pd, &attr);
    }
    ok = srq != nullptr && qp[0] != nullptr && qp[1] != nullptr &&
         connect(qp[0], qp[1]->qp_num, all_access, 0) == 0 && connect(qp[1], qp[0]->qp_num) == 0;
  }
  ~SharedLoop() {
    for (ibv_qp* q : qp) {
      if (q != nullptr) ibv_destroy_qp(q);
    }
    ibv_destroy_srq(srq);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_dealloc_pd(srq_pd);
  }
  SharedLoop(const SharedLoop&) = delete;
  SharedLoop& operator=(const SharedLoop&) = delete;

  // What the receiver's completion says; the sender's is taken too.
  ibv_wc send(ibv_sge sge) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_wc got{}, wc{};
    got.status = IBV_WC_GENERAL_ERR;
    if (ibv_post_send(qp[0], &wr, &bad) != 0) return got;
    for (int i = 0; i < 2 && wait_for(cq, wc); i++) {
      if (wc.opcode == IBV_WC_RECV || wc.status != IBV_WC_SUCCESS) got = wc;
      if (wc.status != IBV_WC_SUCCESS) break;
    }
    return got;
  }

  bool ok = false;
  ibv_pd* pd = nullptr;
  ibv_pd* srq_pd = nullptr;
  ibv_srq* srq = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp[2]{};
};

void a_shared_ring_goes_round() {
  SharedLoop l;
  CU_ASSERT_FATAL(l.ok);
  EQUAL(ibv_destroy_srq(l.srq), EBUSY);
  Region from(l.pd, 64), to(l.srq_pd, 4096);
  for (uint64_t id = 0; id < 5; id++) EQUAL(post_shared(l.srq, to.sge(id * 64, 64), id), 0);
  for (uint64_t id = 0; id < 60; id++) {
    fill(from.data(), 64, static_cast<uint8_t>(id));
    ibv_wc wc = l.send(from.sge(0, 64));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.wr_id, id);
    EQUAL(wc.qp_num, l.qp[1]->qp_num);
    EQUAL(std::memcmp(to.data() + id % 5 * 64, from.data(), 64), 0);
    EQUAL(post_shared(l.srq, to.sge(id % 5 * 64, 64), id + 5), 0);
  }
}

// Receives are in the shared queue's domain, remote access is in the queue pair's.
void two_domains_are_kept_apart() {
  SharedLoop l;
  CU_ASSERT_FATAL(l.ok);
  Region from(l.pd, 64), to(l.pd, 64), shared_to(l.srq_pd, 64);
  ibv_sge sge = from.sge(0, 64);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma = {to.at(), to.mr()->rkey};
  EQUAL(ibv_post_send(l.qp[0], &wr, &bad), 0);
  EQUAL(wait_status(l.cq), IBV_WC_SUCCESS);
  wr.wr.rdma = {shared_to.at(), shared_to.mr()->rkey};
  EQUAL(ibv_post_send(l.qp[0], &wr, &bad), 0);
  EQUAL(wait_status(l.cq), IBV_WC_REM_ACCESS_ERR);
}

void an_empty_shared_queue_is_not_ready() {
  SharedLoop l;
  CU_ASSERT_FATAL(l.ok);
  Region from(l.pd, 64);
  EQUAL(l.send(from.sge(0, 64)).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

void the_limit_speaks_once() {
  SharedLoop l;
  CU_ASSERT_FATAL(l.ok);
  Region from(l.pd, 64), to(l.srq_pd, 64);
  for (uint64_t id = 0; id < 4; id++) EQUAL(post_shared(l.srq, to.sge(0, 64), id), 0);
  ibv_srq_attr attr{};
  attr.srq_limit = 3;
  EQUAL(ibv_modify_srq(l.srq, &attr, IBV_SRQ_LIMIT), 0);
  EQUAL(ibv_query_srq(l.srq, &attr), 0);
  EQUAL(attr.srq_limit, 3);
  EQUAL(l.send(from.sge(0, 64)).status, IBV_WC_SUCCESS);
  CU_ASSERT(!next_event(IBV_EVENT_SRQ_LIMIT_REACHED));
  EQUAL(l.send(from.sge(0, 64)).status, IBV_WC_SUCCESS);
  CU_ASSERT(next_event(IBV_EVENT_SRQ_LIMIT_REACHED));
  EQUAL(l.send(from.sge(0, 64)).status, IBV_WC_SUCCESS);
  CU_ASSERT(!next_event(IBV_EVENT_SRQ_LIMIT_REACHED));
  EQUAL(ibv_query_srq(l.srq, &attr), 0);
  EQUAL(attr.srq_limit, 0);
  // A size cannot be changed, nor a limit set that the ring cannot hold.
  attr.max_wr = 20;
  EQUAL(ibv_modify_srq(l.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
  attr.srq_limit = 4096;
  EQUAL(ibv_modify_srq(l.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
}

void a_queue_pair_in_error_leaves_the_shared_queue() {
  SharedLoop l;
  CU_ASSERT_FATAL(l.ok);
  Region to(l.srq_pd, 64);
  EQUAL(post_shared(l.srq, to.sge(0, 64), 1), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  EQUAL(ibv_modify_qp(l.qp[1], &attr, IBV_QP_STATE), 0);
  CU_ASSERT(next_event(IBV_EVENT_QP_LAST_WQE_REACHED));
  ibv_wc wc{};
  for (int i = 0; i < 20; i++) shared().poll();
  EQUAL(ibv_poll_cq(l.cq, 1, &wc), 0);
}

void an_xrc_send_arrives_at_the_queue_it_names() {
  Xrc x;
  CU_ASSERT_FATAL(x.ok);
  EQUAL(ibv_close_xrcd(x.xrcd[0]), EBUSY);
  Region from(x.pd[0], 64), to(x.pd[1], 64);
  fill(from.data(), 64, 5);
  EQUAL(post_shared(x.srq[0], to.sge(0, 64), 9), 0);
  EQUAL(x.post(IBV_WR_SEND, x.srq[0], from.sge(0, 64)), IBV_WC_SUCCESS);
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(x.cq[1], wc));
  EQUAL(wc.status, IBV_WC_SUCCESS);
  EQUAL(wc.wr_id, 9);
  EQUAL(std::memcmp(from.data(), to.data(), 64), 0);
}

void a_short_xrc_message_lies_where_it_was_posted() {
  Xrc x{-1, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE};
  CU_ASSERT_FATAL(x.ok);
  Region from(x.pd[0], 64), to(x.pd[1], 64);
  fill(from.data(), 16, 5);
  EQUAL(post_shared(x.srq[0], to.sge(0, 64), 9), 0);
  EQUAL(x.post(IBV_WR_SEND, x.srq[0], from.sge(0, 16)), IBV_WC_SUCCESS);
  for (int i = 0; i < 20; i++) shared().poll();
  EQUAL(std::memcmp(from.data(), to.data(), 16), 0);  // nobody polled
  EQUAL(wait_status(x.cq[1]), IBV_WC_SUCCESS);
  fill(to.data() + 32, 16, 77);  // nor does the answer of a READ come in its entry
  EQUAL(x.post(IBV_WR_RDMA_READ, x.srq[0], from.sge(32, 16), to.at(32), to.mr()->rkey),
        IBV_WC_SUCCESS);
  EQUAL(std::memcmp(from.data() + 32, to.data() + 32, 16), 0);
}

void the_shared_queue_s_domain_protects_memory() {
  Xrc x;
  CU_ASSERT_FATAL(x.ok);
  Region from(x.pd[0], 64), to(x.pd[1], 64), foreign(x.pd[0], 64);
  fill(from.data(), 64, 5);
  EQUAL(x.post(IBV_WR_RDMA_WRITE, x.srq[0], from.sge(0, 64), to.at(), to.mr()->rkey),
        IBV_WC_SUCCESS);
  EQUAL(std::memcmp(from.data(), to.data(), 64), 0);
  EQUAL(x.post(IBV_WR_RDMA_WRITE, x.srq[0], from.sge(0, 64), foreign.at(), foreign.mr()->rkey),
        IBV_WC_REM_ACCESS_ERR);
  CU_ASSERT(all_equal(foreign.data(), 64, 0));
}

void a_queue_of_another_xrc_domain_is_refused() {
  Xrc x;
  CU_ASSERT_FATAL(x.ok);
  Region from(x.pd[0], 64), to(x.pd[1], 64);
  EQUAL(post_shared(x.srq[1], to.sge(0, 64), 9), 0);
  EQUAL(x.post(IBV_WR_SEND, x.srq[1], from.sge(0, 64)), IBV_WC_REM_INV_REQ_ERR);
}

// perftest asks for a receive ring.
void a_target_is_made_without_the_rings_that_were_asked_for() {
  Xrc x;
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = x.xrcd[0];
  attr.cap = {8, 16, 1, 1, 0};
  ibv_qp* target = ibv_create_qp_ex(context(), &attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(target);
  ibv_qp_attr is{};
  ibv_qp_init_attr made{};
  EQUAL(ibv_query_qp(target, &is, IBV_QP_STATE, &made), 0);
  EQUAL(is.cap.max_recv_wr, 0);
  EQUAL(ibv_destroy_qp(target), 0);
}

void each_half_is_told_all_that_the_other_needs() {
  Xrc x;
  CU_ASSERT_FATAL(x.ok);
  ibv_qp_attr reset{};
  for (ibv_qp* qp : {x.initiator, x.target}) {
    EQUAL(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
    EQUAL(Xrc::connect(qp, (qp == x.target ? x.initiator : x.target)->qp_num,
                       IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT,
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          0);
  }
}

void a_file_names_an_xrc_domain() {
  char name[] = "/tmp/kilim-xrcd-XXXXXX";
  int fd = mkstemp(name);
  CU_ASSERT_FATAL(fd >= 0);
  unlink(name);
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = fd;
  attr.oflags = 0;
  CU_ASSERT_PTR_NULL(ibv_open_xrcd(context(), &attr));
  EQUAL(errno, EAGAIN);
  attr.oflags = O_CREAT;
  ibv_xrcd* first = ibv_open_xrcd(context(), &attr);
  CU_ASSERT_FATAL(first != nullptr);
  attr.oflags = 0;
  ibv_xrcd* second = ibv_open_xrcd(context(), &attr);
  CU_ASSERT_PTR_NOT_NULL(second);
  attr.oflags = O_CREAT | O_EXCL;
  CU_ASSERT_PTR_NULL(ibv_open_xrcd(context(), &attr));
  EQUAL(ibv_close_xrcd(first), 0);
  EQUAL(ibv_close_xrcd(second), 0);
  attr.fd = 9999;
  CU_ASSERT_PTR_NULL(ibv_open_xrcd(context(), &attr));
  EQUAL(errno, EBADF);
  close(fd);
}

// A second client's handle on the target: it sees the same queue, hears its events, and outlives
// the first. libmlx5 44 cannot destroy such a handle (it gives back a doorbell record that it never
// took): the client closes its device instead.
void a_target_is_shared() {
  static ibv_qp* second;  // reachable to the end: nobody can free it
  int file = memfd_create("domain", MFD_CLOEXEC);
  Xrc x(file);
  ibv_context* other = open_device();
  CU_ASSERT_FATAL(x.ok);
  CU_ASSERT_FATAL(other != nullptr);
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = file;
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = x.target->qp_num;
  attr.xrcd = ibv_open_xrcd(other, &domain);
  attr.qp_type = IBV_QPT_RC;
  CU_ASSERT_PTR_NULL(ibv_open_qp(other, &attr));
  attr.qp_type = IBV_QPT_XRC_RECV;
  second = ibv_open_qp(other, &attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(second);
  EQUAL(state_of(second), IBV_QPS_RTS);
  EQUAL(ibv_destroy_qp(x.target), 0);
  x.target = nullptr;
  Region from(x.pd[0], 64), to(x.pd[1], 64);
  EQUAL(x.post(IBV_WR_RDMA_WRITE, x.srq[0], from.sge(0, 8), to.at(), to.mr()->rkey),
        IBV_WC_SUCCESS);
  EQUAL(x.post(IBV_WR_RDMA_WRITE, x.srq[0], from.sge(0, 8), to.at(), 0x123400),
        IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  EQUAL_FATAL(ibv_get_async_event(other, &event), 0);
  EQUAL(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  CU_ASSERT_PTR_EQUAL(event.element.qp, second);
  ibv_ack_async_event(&event);
  EQUAL(ibv_close_device(other), 0);
  attr.xrcd = x.xrcd[0];
  CU_ASSERT_PTR_NULL(ibv_open_qp(context(), &attr));
  close(file);
}

constexpr Case cases[] = {
    {"a shared ring serves in order and goes round", a_shared_ring_goes_round},
    {"receives and remote access have a domain each", two_domains_are_kept_apart},
    {"an empty shared queue is answered not ready", an_empty_shared_queue_is_not_ready},
    {"the limit event comes once each time it is set", the_limit_speaks_once},
    {"a queue pair in error leaves shared receives alone and says so",
     a_queue_pair_in_error_leaves_the_shared_queue},
    {"an XRC send arrives at the queue that it names", an_xrc_send_arrives_at_the_queue_it_names},
    {"a short XRC message lies where it was posted, whatever was asked",
     a_short_xrc_message_lies_where_it_was_posted},
    {"the shared queue's domain protects memory", the_shared_queue_s_domain_protects_memory},
    {"a queue of another XRC domain is refused", a_queue_of_another_xrc_domain_is_refused},
    {"a target is made without the rings that were asked for",
     a_target_is_made_without_the_rings_that_were_asked_for},
    {"each half is told all that the other needs too", each_half_is_told_all_that_the_other_needs},
    {"a file names an XRC domain", a_file_names_an_xrc_domain},
    {"a target is shared", a_target_is_shared},
};

}  // namespace
}  // namespace shared_ut

KILIM_TEST_SUITE(shared, shared_ut::cases)
