// SPDX-License-Identifier: BSD-3-Clause
// Clocks and events of completion queues: stamps of both kinds, the fields of extended queues, and
// moderation, which holds events back.
#include <ctime>

#include <poll.h>

#include "fabric_fixture.hh"

namespace clock_ut {
namespace {

using namespace kilim::test;

constexpr uint64_t second = 1'000'000'000;

uint64_t nanoseconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * second + static_cast<uint64_t>(t.tv_nsec);
}

// One WRITE to itself through an extended queue with these fields.
struct Stamped {
  Stamped(ibv_context* c, uint64_t fields) : pd(ibv_alloc_pd(c)), memory(pd, 64) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 15;
    attr.wc_flags = fields;
    cq = ibv_create_cq_ex(c, &attr);
    if (cq == nullptr) return;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
    init.cap = {8, 8, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
    connect(qp, qp->qp_num);
  }
  ~Stamped() {
    if (qp != nullptr) ibv_destroy_qp(qp);
    if (cq != nullptr) ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
    memory.release();
    ibv_dealloc_pd(pd);
  }
  Stamped(const Stamped&) = delete;
  Stamped& operator=(const Stamped&) = delete;
  // True: a completion is open.
  bool write(kilim::vhca::entry::Attached& device) {
    ibv_sge s = memory.sge(0, 8);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &s;
    wr.num_sge = 1;
    wr.wr.rdma = {memory.at(8), memory.mr()->rkey};
    if (ibv_post_send(qp, &wr, &bad) != 0) return false;
    ibv_poll_cq_attr poll{};
    for (int i = 0; i < 10000; i++) {
      device.poll();
      if (ibv_start_poll(cq, &poll) == 0) return cq->status == IBV_WC_SUCCESS;
    }
    return false;
  }
  ibv_pd* pd;
  Region memory;
  ibv_cq_ex* cq = nullptr;
  ibv_qp* qp = nullptr;
};

void stamps_tell_the_time() {
  Stamped s(context(),
            IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
  CU_ASSERT_FATAL(s.qp != nullptr);
  uint64_t from = nanoseconds(CLOCK_MONOTONIC), from_day = nanoseconds(CLOCK_REALTIME);
  CU_ASSERT_FATAL(s.write(shared()));
  uint64_t at = ibv_wc_read_completion_ts(s.cq);
  uint64_t day = ibv_wc_read_completion_wallclock_ns(s.cq);
  ibv_end_poll(s.cq);
  CU_ASSERT(at >= from);
  CU_ASSERT(at <= nanoseconds(CLOCK_MONOTONIC));
  // The page that relates the two was made a moment earlier: a step of the clock would show.
  CU_ASSERT(day + second >= from_day);
  CU_ASSERT(day <= nanoseconds(CLOCK_REALTIME) + second);
}

// The figures of a card of 1 GHz (Linux lib/clock.c), with which libmlx5's 64 bits are full after
// 8.6 s: the page is renewed long before, though nothing runs this device meanwhile.
void the_page_of_an_idle_device_is_renewed() {
  mlx5dv_clock_info before{}, after{};
  EQUAL_FATAL(mlx5dv_get_clock_info(context(), &before), 0);
  EQUAL(before.mult, uint32_t{1} << 31);
  EQUAL(before.shift, 31);
  EQUAL(before.mask, (uint64_t{1} << 41) - 1);
  after = before;
  const auto age = [&before](const mlx5dv_clock_info& now) {
    return (now.last_cycles - before.last_cycles) & before.mask;
  };
  for (int i = 0; i < 60 && age(after) < 4 * second; i++) {
    poll(nullptr, 0, 100);
    EQUAL_FATAL(mlx5dv_get_clock_info(context(), &after), 0);
    // What libmlx5 says of a stamp of now, by the present page.
    const uint64_t day = nanoseconds(CLOCK_REALTIME);
    const uint64_t told = mlx5dv_ts_to_ns(&after, nanoseconds(CLOCK_MONOTONIC));
    CU_ASSERT(told + second >= day);
    CU_ASSERT(told <= day + second);
  }
  CU_ASSERT(age(after) >= 4 * second);
  CU_ASSERT(age(after) < 7 * second);
  EQUAL(after.nsec - before.nsec, age(after));
}

void a_real_time_clock_stamps_the_time_of_day() {
  kilim::vhca::entry::Attached* device = attach_device("clock0", "real-time");
  CU_ASSERT_FATAL(device != nullptr);
  ibv_context* c = open_device("clock0");
  CU_ASSERT_FATAL(c != nullptr);
  {
    Stamped s(c, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    CU_ASSERT_FATAL(s.qp != nullptr);
    const uint64_t from = nanoseconds(CLOCK_REALTIME) / second;
    CU_ASSERT_FATAL(s.write(*device));
    uint64_t stamp = ibv_wc_read_completion_wallclock_ns(s.cq);
    ibv_end_poll(s.cq);
    CU_ASSERT(stamp >> 32 >= from);
    CU_ASSERT(stamp >> 32 <= nanoseconds(CLOCK_REALTIME) / second);
    CU_ASSERT((stamp & 0xffffffff) < 1'000'000'000);
  }
  ibv_close_device(c);
}

void every_field_of_an_extended_queue_is_there() {
  constexpr uint64_t fields =
      uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_CVLAN |
      IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  Stamped s(context(), fields);
  CU_ASSERT_FATAL(s.qp != nullptr);
  CU_ASSERT_FATAL(s.write(shared()));
  EQUAL(ibv_wc_read_opcode(s.cq), IBV_WC_RDMA_WRITE);
  EQUAL(ibv_wc_read_qp_num(s.cq), s.qp->qp_num);
  EQUAL(ibv_wc_read_cvlan(s.cq), 0);
  ibv_end_poll(s.cq);
}

bool has_event(ibv_comp_channel* channel, int ms) {
  pollfd p{channel->fd, POLLIN, 0};
  for (int waited = 0;; waited++) {
    shared().poll();
    if (poll(&p, 1, 0) == 1) return true;
    if (waited >= ms) return false;
    poll(nullptr, 0, 1);
  }
}

// Outlives the queue that reports to it.
struct Channel {
  Channel() : channel(ibv_create_comp_channel(context())) {}
  ~Channel() { EQUAL(ibv_destroy_comp_channel(channel), 0); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ibv_comp_channel* channel;
};

// `count` entries reach a queue that is armed and moderated.
struct Moderated : Channel {
  Moderated() : loop({}, all_access, channel) {}
  void write(int count) {
    Region r(loop.pd[0], 64), to(loop.pd[1], 64);
    for (int i = 0; i < count; i++) {
      EQUAL(loop.post(IBV_WR_RDMA_WRITE, {r.sge(0, 8)}, to.at(), to.mr()->rkey), 0);
      for (int k = 0; k < 100; k++) shared().poll();
    }
  }
  int moderate(uint16_t count, uint16_t period) {
    ibv_modify_cq_attr attr{IBV_CQ_ATTR_MODERATE, {count, period}};
    return ibv_modify_cq(loop.cq[0], &attr);
  }
  void take_event() {
    ibv_cq* cq = nullptr;
    void* mine = nullptr;
    EQUAL(ibv_get_cq_event(channel, &cq, &mine), 0);
    ibv_ack_cq_events(cq, 1);
  }
  Loop loop;
};

void an_event_waits_for_enough_entries() {
  Moderated m;
  CU_ASSERT_FATAL(m.loop.ok);
  EQUAL(m.moderate(4, 0), 0);
  for (int round = 0; round < 2; round++) {
    EQUAL(ibv_req_notify_cq(m.loop.cq[0], 0), 0);
    m.write(3);
    CU_ASSERT_FALSE(has_event(m.channel, 20));
    m.write(1);
    CU_ASSERT_FATAL(has_event(m.channel, 2000));
    m.take_event();
    ibv_wc wc{};
    for (int i = 0; i < 4; i++) CU_ASSERT(wait_for(m.loop.cq[0], wc));
  }
  EQUAL(m.moderate(0, 0), 0);
  EQUAL(ibv_req_notify_cq(m.loop.cq[0], 0), 0);
  m.write(1);
  CU_ASSERT_FATAL(has_event(m.channel, 2000));
  m.take_event();
}

void an_event_waits_for_its_period() {
  Moderated m;
  CU_ASSERT_FATAL(m.loop.ok);
  uint64_t from = nanoseconds(CLOCK_MONOTONIC);
  EQUAL(m.moderate(100, 4000), 0);
  EQUAL(ibv_req_notify_cq(m.loop.cq[0], 0), 0);
  m.write(1);
  CU_ASSERT_FATAL(has_event(m.channel, 5000));
  CU_ASSERT(nanoseconds(CLOCK_MONOTONIC) - from >= 4'000'000);
  m.take_event();
}

void moderation_has_limits() {
  Moderated m;
  ibv_device_attr_ex attr{};
  EQUAL(ibv_query_device_ex(context(), nullptr, &attr), 0);
  EQUAL(attr.cq_mod_caps.max_cq_count, 0xffff);
  EQUAL(attr.cq_mod_caps.max_cq_period, 0xfff);
  EQUAL(m.moderate(0xffff, 0xfff), 0);
  EQUAL(m.moderate(1, 0x1000), EINVAL);
}

// The provider reads a page; an engine that has not run since leaves it as it was.
void the_core_clock_is_a_page() {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  for (int i = 0; i < 3; i++) {
    uint64_t from = nanoseconds(CLOCK_MONOTONIC);
    shared().poll();
    EQUAL(ibv_query_rt_values_ex(context(), &values), 0);
    uint64_t at = static_cast<uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000u +
                  static_cast<uint64_t>(values.raw_clock.tv_nsec);
    CU_ASSERT(at >= from);
    CU_ASSERT(at <= nanoseconds(CLOCK_MONOTONIC));
  }
  mlx5dv_context dv{};
  dv.comp_mask = MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK;
  EQUAL(mlx5dv_query_device(context(), &dv), 0);
  CU_ASSERT_PTR_NOT_NULL(dv.hca_core_clock);
}

// The client passes the last entry of each old ring without saying so: none of them takes room from
// completions, and what was read long ago does not either.
void a_queue_changes_its_size_often() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region from(l.pd[0], 64), to(l.pd[1], 64);
  auto write = [&] { return l.post(IBV_WR_RDMA_WRITE, {from.sge(0, 8)}, to.at(), to.mr()->rkey); };
  for (int round = 0; round < 100; round++) {
    EQUAL(write(), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
  }
  for (int size : {1, 7, 1, 3, 1}) EQUAL(ibv_resize_cq(l.cq[0], size), 0);
  EQUAL(l.cq[0]->cqe, 1);
  EQUAL(write(), 0);
  // What has not been executed yet counts too: a command comes behind it.
  EQUAL(ibv_resize_cq(l.cq[0], 3), 0);
  EQUAL(write(), 0);
  EQUAL(ibv_resize_cq(l.cq[0], 1), EINVAL);
  for (int i = 0; i < 2; i++) EQUAL(l.status(), IBV_WC_SUCCESS);
}

constexpr Case cases[] = {
    {"the page of an idle device is renewed", the_page_of_an_idle_device_is_renewed},
    {"a queue changes its size often", a_queue_changes_its_size_often},
    {"stamps tell the time", stamps_tell_the_time},
    {"a real-time clock stamps the time of day", a_real_time_clock_stamps_the_time_of_day},
    {"every field of an extended queue is there", every_field_of_an_extended_queue_is_there},
    {"an event waits for enough entries", an_event_waits_for_enough_entries},
    {"an event waits for its period", an_event_waits_for_its_period},
    {"moderation has limits", moderation_has_limits},
    {"the core clock is a page", the_core_clock_is_a_page},
};

}  // namespace
}  // namespace clock_ut

KILIM_TEST_SUITE(clock, clock_ut::cases)
