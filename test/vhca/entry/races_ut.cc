// SPDX-License-Identifier: BSD-3-Clause
// Threads that destroy what others use: queues with work and timers pending, regions under
// transfer, channels with waiters, contexts, wires, and the adapter itself. Each case ends by
// itself or the test's time runs out; ThreadSanitizer runs them too (test/threads.txt).
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <infiniband/verbs.h>
#include <poll.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/hca.hh"

using namespace kilim;
using namespace kilim::vhca;
using test::RcPair;

namespace races_ut {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int rounds = 30;
#else
constexpr int rounds = 100;
#endif

entry::Attached* attached(const char* name, const char* wire = "cable:races") {
  DeviceSpec config;
  config.name = name;
  config.progress = Progress::thread;
  config.wires = {wire};
  auto made = entry::attach(config);
  return made ? *made : nullptr;
}

ibv_context* open_threaded(const char* name) {
  return attached(name) != nullptr ? test::open_by_name(name) : nullptr;
}

ibv_context* context() {
  static ibv_context* c = open_threaded("race0");
  return c;
}

// The next completion; a flush or an error is one too.
bool poll_one(ibv_cq* cq, ibv_wc& wc) {
  for (long i = 0; i < 20'000'000; i++) {
    if (ibv_poll_cq(cq, 1, &wc) == 1) return true;
    if (i % 64 == 0) std::this_thread::yield();
  }
  return false;
}

bool writes_arrive(ibv_context* c, int count) {
  RcPair pair(c);
  ibv_wc wc{};
  bool good = pair.ok();
  for (int i = 0; good && i < count; i++) {
    good = pair.post_write(256) == 0 && poll_one(pair.cq(), wc) && wc.status == IBV_WC_SUCCESS;
  }
  return good;
}

// While one thread does `until` something is done, another works undisturbed.
void beside_traffic(const std::function<void()>& disturb) {
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::thread worker([&] {
    do bad += writes_arrive(context(), 20) ? 0 : 1;
    while (!stop);
  });
  disturb();
  stop = true;
  worker.join();
  EQUAL(bad, 0);
}

void queues_are_destroyed_with_work_in_flight() {
  CU_ASSERT_FATAL(context() != nullptr);
  beside_traffic([] {
    for (int i = 0; i < rounds; i++) {
      RcPair pair(context());
      CU_ASSERT_FATAL(pair.ok());
      for (int n = 0; n < 16; n++) (void)pair.post_write(4096);
    }
  });
}

// A send whose peer has posted no receive waits for its timer.
void queues_are_destroyed_with_timers_pending() {
  CU_ASSERT_FATAL(context() != nullptr);
  beside_traffic([] {
    for (int i = 0; i < rounds; i++) {
      RcPair pair(context());
      CU_ASSERT_FATAL(pair.ok());
      EQUAL(pair.post(64, IBV_WR_SEND), 0);
      if (i % 3 == 0) std::this_thread::yield();
    }
  });
}

struct Peer {
  ibv_gid gid{};
  uint32_t qpn = 0;
  uint8_t timeout = 0;
};

// To a queue on the wire, or to none.
bool connect_far(ibv_qp* qp, const Peer& peer) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RESET;
  if (ibv_modify_qp(qp, &a, IBV_QP_STATE) != 0) return false;
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return false;
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer.qpn;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.dgid = peer.gid;
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return false;
  a.qp_state = IBV_QPS_RTS;
  a.timeout = peer.timeout;
  a.retry_cnt = 7;
  return ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

void queues_are_destroyed_while_a_wire_is_silent() {
  CU_ASSERT_FATAL(context() != nullptr);
  Peer nobody{{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 7}}, 1, 1};
  for (int i = 0; i < rounds; i++) {
    RcPair pair(context());
    CU_ASSERT_FATAL(pair.ok());
    CU_ASSERT_FATAL(connect_far(pair.qp(0), nobody));
    EQUAL(pair.post_write(4096), 0);
    ibv_wc wc{};
    if (i % 4 != 0) continue;
    CU_ASSERT(poll_one(pair.cq(), wc));
    EQUAL(wc.status, IBV_WC_RETRY_EXC_ERR);
  }
}

// Frames of one adapter arrive at the other while their queue goes; each request completes once.
void queues_are_destroyed_under_the_peer_s_frames() {
  CU_ASSERT_FATAL(context() != nullptr);
  static ibv_context* other = open_threaded("race1");
  CU_ASSERT_FATAL(other != nullptr);
  for (int i = 0; i < rounds; i++) {
    RcPair here(context());
    auto there = std::make_unique<RcPair>(other);
    CU_ASSERT_FATAL(here.ok());
    CU_ASSERT_FATAL(there->ok());
    Peer to_there{{}, there->qp(1)->qp_num, 5}, to_here{{}, here.qp(0)->qp_num, 5};
    ibv_query_gid(other, 1, 0, &to_there.gid);
    ibv_query_gid(context(), 1, 0, &to_here.gid);
    CU_ASSERT_FATAL(connect_far(here.qp(0), to_there));
    CU_ASSERT_FATAL(connect_far(there->qp(1), to_here));
    std::atomic<int> posted{0};
    std::thread poster([&] {
      for (int n = 0; n < 12; n++) posted += here.post_write(4096) == 0 ? 1 : 0;
    });
    for (int pause = i % 5; pause > 0; pause--) std::this_thread::yield();
    there.reset();
    poster.join();
    ibv_wc wc{};
    for (int n = 0; n < posted; n++) CU_ASSERT_FATAL(poll_one(here.cq(), wc));
    EQUAL(ibv_poll_cq(here.cq(), 1, &wc), 0);
  }
}

// One completion for each request, whichever came first; an error is the request's or a flush.
void a_region_goes_during_transfers() {
  CU_ASSERT_FATAL(context() != nullptr);
  static uint8_t memory[8192];
  for (int i = 0; i < rounds; i++) {
    RcPair pair(context());
    CU_ASSERT_FATAL(pair.ok());
    ibv_mr* mr = ibv_reg_mr(pair.pd(), memory, sizeof(memory),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ibv_sge sge{reinterpret_cast<uintptr_t>(memory), 4096, mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<uintptr_t>(memory) + 4096, mr->rkey};
    std::atomic<int> posted{0};
    std::thread poster([&] {
      for (int n = 0; n < 12; n++) {
        wr.wr_id = static_cast<uint64_t>(n);
        if (ibv_post_send(pair.qp(0), &wr, &bad) == 0) posted++;
      }
    });
    EQUAL(ibv_dereg_mr(mr), 0);
    poster.join();
    bool failed = false;
    for (int n = 0; n < posted; n++) {
      ibv_wc wc{};
      CU_ASSERT_FATAL(poll_one(pair.cq(), wc));
      EQUAL(wc.wr_id, static_cast<uint64_t>(n));
      CU_ASSERT(failed ? wc.status == IBV_WC_WR_FLUSH_ERR : wc.status != IBV_WC_WR_FLUSH_ERR);
      failed = wc.status != IBV_WC_SUCCESS;
    }
  }
}

void a_queue_ends_while_another_thread_posts() {
  CU_ASSERT_FATAL(context() != nullptr);
  for (int i = 0; i < rounds; i++) {
    RcPair pair(context());
    CU_ASSERT_FATAL(pair.ok());
    std::atomic<int> posted{0};
    std::thread poster([&] {
      for (int n = 0; n < 12; n++) posted += pair.post_write(64) == 0 ? 1 : 0;
    });
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_ERR;
    EQUAL(ibv_modify_qp(pair.qp(0), &a, IBV_QP_STATE), 0);
    poster.join();
    ibv_wc wc{};
    for (int n = 0; n < posted; n++) CU_ASSERT_FATAL(poll_one(pair.cq(), wc));
    EQUAL(ibv_poll_cq(pair.cq(), 1, &wc), 0);
  }
}

// Destroying waits for events that were read until they are acknowledged, not for unread ones.
void completion_queues_go_with_events_pending() {
  CU_ASSERT_FATAL(context() != nullptr);
  for (int i = 0; i < rounds; i++) {
    RcPair pair(context(), true);
    CU_ASSERT_FATAL(pair.ok());
    EQUAL(ibv_req_notify_cq(pair.cq(), 0), 0);
    EQUAL(pair.post_write(64), 0);
    pollfd p{pair.channel()->fd, POLLIN, 0};
    EQUAL_FATAL(::poll(&p, 1, 10'000), 1);
    if (i % 2 == 0) continue;
    std::thread waiter([&] {
      ibv_cq* cq = nullptr;
      void* who = nullptr;
      if (ibv_get_cq_event(pair.channel(), &cq, &who) != 0) return;
      std::this_thread::yield();
      ibv_ack_cq_events(cq, 1);
    });
    waiter.join();
  }
}

// Whoever read an event owes an acknowledgement; until then the queue stays.
void a_queue_waits_for_acknowledgements() {
  CU_ASSERT_FATAL(context() != nullptr);
  std::atomic<bool> acknowledged{false};
  std::thread late;
  {
    RcPair pair(context(), true);
    CU_ASSERT_FATAL(pair.ok());
    EQUAL(ibv_req_notify_cq(pair.cq(), 0), 0);
    EQUAL(pair.post_write(64), 0);
    ibv_cq* cq = nullptr;
    void* who = nullptr;
    EQUAL_FATAL(ibv_get_cq_event(pair.channel(), &cq, &who), 0);
    late = std::thread([&acknowledged, cq] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      acknowledged = true;
      ibv_ack_cq_events(cq, 1);
    });
  }
  CU_ASSERT(acknowledged);
  late.join();
}

void contexts_are_opened_and_closed_by_all() {
  CU_ASSERT_FATAL(context() != nullptr);
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&bad] {
      for (int i = 0; i < rounds / 10; i++) {
        ibv_context* own = test::open_by_name("race0");
        if (own == nullptr || !writes_arrive(own, 5) || ibv_close_device(own) != 0) bad++;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EQUAL(bad, 0);
}

// Waiters of all kinds while the adapter dies.
void nobody_waits_for_a_dead_adapter() {
  entry::Attached* device = attached("dying0", "cable:dying");
  CU_ASSERT_FATAL(device != nullptr);
  ibv_context* c = test::open_by_name("dying0");
  CU_ASSERT_FATAL(c != nullptr);
  {
    RcPair pair(c, true), busy(c);
    CU_ASSERT_FATAL(pair.ok());
    CU_ASSERT_FATAL(busy.ok());
    EQUAL(ibv_req_notify_cq(pair.cq(), 0), 0);
    EQUAL(pair.post(64, IBV_WR_SEND), 0);  // waits for a receive for ever
    std::atomic<int> told{-1}, flushed{0};
    std::thread async([&] {
      ibv_async_event e{};
      if (ibv_get_async_event(c, &e) != 0) return;
      told = e.event_type;
      ibv_ack_async_event(&e);
    });
    std::thread completions([&] {
      ibv_cq* cq = nullptr;
      void* who = nullptr;
      ibv_wc wc{};
      if (ibv_get_cq_event(pair.channel(), &cq, &who) != 0) return;
      ibv_ack_cq_events(cq, 1);
      flushed = ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR ? 1 : 0;
    });
    std::thread poller([&] {
      ibv_wc wc{};
      do (void)busy.post_write(64);
      while (poll_one(busy.cq(), wc) && wc.status == IBV_WC_SUCCESS);
    });
    {
      const LockGuard guard(device->hca()->lock);
      hca::die(*device->hca());
    }
    async.join();
    completions.join();
    poller.join();
    EQUAL(told, IBV_EVENT_DEVICE_FATAL);
    EQUAL(flushed, 1);
  }
  EQUAL(ibv_close_device(c), 0);
}

const test::Case cases[] = {
    {"queues are destroyed with work in flight", queues_are_destroyed_with_work_in_flight},
    {"queues are destroyed with timers pending", queues_are_destroyed_with_timers_pending},
    {"queues are destroyed while a wire is silent", queues_are_destroyed_while_a_wire_is_silent},
    {"queues are destroyed under the peer's frames", queues_are_destroyed_under_the_peer_s_frames},
    {"a region goes during transfers", a_region_goes_during_transfers},
    {"a queue ends while another thread posts", a_queue_ends_while_another_thread_posts},
    {"completion queues go with events pending", completion_queues_go_with_events_pending},
    {"a queue waits for acknowledgements", a_queue_waits_for_acknowledgements},
    {"contexts are opened and closed by all", contexts_are_opened_and_closed_by_all},
    {"nobody waits for a dead adapter", nobody_waits_for_a_dead_adapter},
};

}  // namespace
}  // namespace races_ut

KILIM_TEST_SUITE(races, races_ut::cases)
