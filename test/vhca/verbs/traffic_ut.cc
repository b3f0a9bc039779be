// SPDX-License-Identifier: BSD-3-Clause
// Two looped reliable connections through libibverbs and libmlx5: every operation with its data
// compared, completion channels, and the device's journal as witness.
#include <fcntl.h>
#include <poll.h>

#include "fabric_fixture.hh"

namespace traffic_ut {
namespace {

using namespace kilim::test;

void send_fills_a_receive() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region from(l.pd[0], 8192), to(l.pd[1], 8192);
  fill(from.data(), 8192, 3);
  uint64_t wqes = journal_count(Journal::Kind::wqe);
  EQUAL(l.post_recv(1, {to.sge(0, 5000), to.sge(5000, 3000)}, 7), 0);
  EQUAL(l.post(IBV_WR_SEND, {from.sge(0, 1), from.sge(1, 4095), from.sge(4096, 2904)}), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(l.cq[1], wc));
  EQUAL(wc.status, IBV_WC_SUCCESS);
  EQUAL(wc.wr_id, 7);
  EQUAL(wc.opcode, IBV_WC_RECV);
  EQUAL(wc.byte_len, 7000);
  EQUAL(wc.qp_num, l.qp[1]->qp_num);
  EQUAL(std::memcmp(from.data(), to.data(), 7000), 0);
  CU_ASSERT(all_equal(to.data() + 7000, 1192, 0));
  CU_ASSERT(journal_count(Journal::Kind::wqe) > wqes);
}

void send_with_immediate_and_inline() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region to(l.pd[1], 4096);
  uint8_t local[40];
  fill(local, sizeof local, 9);
  EQUAL(l.post_recv(1, {to.sge(100, 64)}), 0);
  ibv_sge sge{reinterpret_cast<uintptr_t>(local), sizeof local, 0};
  EQUAL(l.post(IBV_WR_SEND_WITH_IMM, {sge}, 0, 0, IBV_SEND_INLINE), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(l.cq[1], wc));
  CU_ASSERT(wc.wc_flags & IBV_WC_WITH_IMM);
  EQUAL(wc.imm_data, 0x11223344);
  EQUAL(wc.byte_len, sizeof local);
  EQUAL(std::memcmp(to.data() + 100, local, sizeof local), 0);
}

void writes_and_reads_of_many_sizes() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  constexpr std::size_t size = 1 << 20;
  Region a(l.pd[0], size), b(l.pd[1], size);
  for (uint32_t bytes : {1u, 63u, 64u, 1023u, 1024u, 1025u, 4096u, 65535u, 1u << 20}) {
    fill(a.data(), bytes, static_cast<uint8_t>(bytes));
    std::memset(b.data(), 0, size);
    EQUAL(l.post(IBV_WR_RDMA_WRITE, {a.sge(0, bytes)}, b.at(), b.mr()->rkey), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    EQUAL(std::memcmp(a.data(), b.data(), bytes), 0);
    CU_ASSERT(bytes == size || b.data()[bytes] == 0);
    fill(b.data(), bytes, static_cast<uint8_t>(bytes + 1));
    EQUAL(l.post(IBV_WR_RDMA_READ, {a.sge(0, bytes)}, b.at(), b.mr()->rkey), 0);
    ibv_wc wc{};
    CU_ASSERT_FATAL(wait_for(l.cq[0], wc));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.opcode, IBV_WC_RDMA_READ);
    EQUAL(std::memcmp(a.data(), b.data(), bytes), 0);
  }
}

void a_write_with_immediate_takes_a_receive() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 4096), b(l.pd[1], 4096);
  fill(a.data(), 256, 77);
  EQUAL(l.post_recv(1, {}, 5), 0);
  EQUAL(l.post(IBV_WR_RDMA_WRITE_WITH_IMM, {a.sge(0, 256)}, b.at(64), b.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(l.cq[1], wc));
  EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EQUAL(wc.imm_data, 0x11223344);
  EQUAL(wc.byte_len, 256);
  EQUAL(wc.wr_id, 5);
  EQUAL(std::memcmp(a.data(), b.data() + 64, 256), 0);
}

void both_atomics_return_what_was_there() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 64), b(l.pd[1], 64);
  auto word = [](Region& r, int i) {
    uint64_t v;
    std::memcpy(&v, r.data() + 8 * i, 8);
    return v;
  };
  uint64_t start = 1000;
  std::memcpy(b.data() + 8, &start, 8);
  EQUAL(l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, a.sge(0, 8), b.at(8), b.mr()->rkey, 234), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(word(a, 0), 1000);
  EQUAL(word(b, 1), 1234);
  for (uint64_t swap : {uint64_t{1}, uint64_t{2}}) {
    EQUAL(l.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, a.sge(8, 8), b.at(8), b.mr()->rkey, 1234, swap),
          0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    EQUAL(word(a, 1), swap == 1 ? 1234 : 1);
    EQUAL(word(b, 1), 1);  // the second did not match
  }
  EQUAL(word(b, 0), 0);
  EQUAL(word(b, 2), 0);
}

void a_request_of_nothing_needs_no_key() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {}, 0, 0xdeadbeef), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
}

void a_receive_that_is_late_is_waited_for() {
  Shape patient;
  patient.rnr_retry = 7;
  Loop l(patient);
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 64), b(l.pd[1], 64);
  fill(a.data(), 64, 1);
  EQUAL(l.post(IBV_WR_SEND, {a.sge(0, 64)}), 0);
  ibv_wc wc{};
  for (int i = 0; i < 100; i++) shared().poll();
  EQUAL(ibv_poll_cq(l.cq[0], 1, &wc), 0);
  EQUAL(l.post_recv(1, {b.sge(0, 64)}), 0);
  bool done = false;
  for (int i = 0; i < 200 && !done; i++) done = wait_for(l.cq[0], wc);
  CU_ASSERT(done);
  EQUAL(wc.status, IBV_WC_SUCCESS);
  EQUAL(std::memcmp(a.data(), b.data(), 64), 0);
}

void rings_wrap_many_times() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 4096), b(l.pd[1], 4096);
  unsigned failures = 0;
  for (unsigned i = 0; i < 5000; i++) {
    std::memcpy(a.data(), &i, 4);
    failures += l.post_recv(1, {b.sge(i % 1000, 8)}) != 0;
    failures += l.post(IBV_WR_SEND, {a.sge(0, 1), a.sge(1, 2), a.sge(3, 1)}) != 0;
    failures += l.status() != IBV_WC_SUCCESS;
    failures += wait_status(l.cq[1]) != IBV_WC_SUCCESS;
    failures += std::memcmp(a.data(), b.data() + i % 1000, 4) != 0;
  }
  EQUAL(failures, 0);
}

void the_newer_posting_interface_works_as_well() {
  Loop l({rc_ops});
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 4096), b(l.pd[1], 4096);
  fill(a.data(), 1000, 8);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(l.qp[0]);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = 0;
  ibv_wr_rdma_write(qp, b.mr()->rkey, b.at());
  ibv_wr_set_sge(qp, a.mr()->lkey, a.at(), 1000);
  qp->wr_id = 2;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_read(qp, b.mr()->rkey, b.at());
  ibv_wr_set_sge(qp, a.mr()->lkey, a.at(2000), 1000);
  EQUAL(ibv_wr_complete(qp), 0);
  ibv_wc wc{};
  CU_ASSERT_FATAL(wait_for(l.cq[0], wc));
  EQUAL(wc.wr_id, 2);
  EQUAL(std::memcmp(a.data(), a.data() + 2000, 1000), 0);
}

void a_completion_channel_wakes_once_an_arming() {
  ibv_comp_channel* channel = ibv_create_comp_channel(context());
  {
    Loop l({}, all_access, channel);
    CU_ASSERT_FATAL(l.ok);
    Region a(l.pd[0], 64), b(l.pd[1], 64);
    pollfd p{channel->fd, POLLIN, 0};
    auto write = [&] {
      EQUAL(l.post(IBV_WR_RDMA_WRITE, {a.sge(0, 8)}, b.at(), b.mr()->rkey), 0);
      for (int i = 0; i < 20; i++) shared().poll();
    };
    write();  // not armed
    EQUAL(poll(&p, 1, 0), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    for (int round = 0; round < 3; round++) {
      EQUAL(ibv_req_notify_cq(l.cq[0], 0), 0);
      write();
      write();
      EQUAL_FATAL(poll(&p, 1, 0), 1);
      ibv_cq* cq = nullptr;
      void* cookie = nullptr;
      EQUAL(ibv_get_cq_event(channel, &cq, &cookie), 0);
      CU_ASSERT_PTR_EQUAL(cq, l.cq[0]);
      EQUAL(poll(&p, 1, 0), 0);
      ibv_ack_cq_events(cq, 1);
      EQUAL(l.status(), IBV_WC_SUCCESS);
      EQUAL(l.status(), IBV_WC_SUCCESS);
    }
    // An event that nobody reads does not keep the queue from going, and goes only with it.
    EQUAL(ibv_req_notify_cq(l.cq[0], 0), 0);
    write();
    EQUAL(ibv_destroy_cq(l.cq[0]), EBUSY);
    EQUAL(poll(&p, 1, 0), 1);
  }
  pollfd p{channel->fd, POLLIN, 0};
  EQUAL(poll(&p, 1, 0), 0);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
}

void solicited_events_skip_the_others() {
  ibv_comp_channel* channel = ibv_create_comp_channel(context());
  {
    Loop l({}, all_access, channel);
    CU_ASSERT_FATAL(l.ok);
    Region a(l.pd[0], 64), b(l.pd[1], 64);
    pollfd p{channel->fd, POLLIN, 0};
    EQUAL(ibv_req_notify_cq(l.cq[1], 1), 0);
    for (unsigned flags : {0u, unsigned{IBV_SEND_SOLICITED}}) {
      EQUAL(l.post_recv(1, {b.sge(0, 8)}), 0);
      EQUAL(l.post(IBV_WR_SEND, {a.sge(0, 8)}, 0, 0, flags), 0);
      EQUAL(l.status(), IBV_WC_SUCCESS);
      EQUAL(poll(&p, 1, 0), flags != 0 ? 1 : 0);
    }
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    EQUAL(ibv_get_cq_event(channel, &cq, &cookie), 0);
    CU_ASSERT_PTR_EQUAL(cq, l.cq[1]);
    ibv_ack_cq_events(cq, 1);
  }
  EQUAL(ibv_destroy_comp_channel(channel), 0);
}

constexpr Case cases[] = {
    {"SEND fills a receive", send_fills_a_receive},
    {"SEND with immediate and inline", send_with_immediate_and_inline},
    {"writes and reads of many sizes", writes_and_reads_of_many_sizes},
    {"a write with immediate takes a receive", a_write_with_immediate_takes_a_receive},
    {"both atomics return what was there", both_atomics_return_what_was_there},
    {"a request of nothing needs no key", a_request_of_nothing_needs_no_key},
    {"a receive that is late is waited for", a_receive_that_is_late_is_waited_for},
    {"rings wrap many times", rings_wrap_many_times},
    {"the newer posting interface works as well", the_newer_posting_interface_works_as_well},
    {"a completion channel wakes once an arming", a_completion_channel_wakes_once_an_arming},
    {"solicited events skip the others", solicited_events_skip_the_others},
};

}  // namespace
}  // namespace traffic_ut

KILIM_TEST_SUITE(traffic, traffic_ut::cases)
