// SPDX-License-Identifier: BSD-3-Clause
// Queues that are asked for in odd shapes, and a queue pair that stays although it was to go.
#include <cerrno>

#include <poll.h>
#include <unistd.h>

#include "request_fixture.hh"
#include "ut.hh"

namespace queues_ut {
namespace {

using namespace kilim::test;

// A member of a group is busy. What happened to it is still there to be read.
void a_queue_that_stays_keeps_its_events() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq, qp;
  int async;
  EQUAL_FATAL(c.async_fd(async), 0);
  EQUAL_FATAL(r.begin(c, pd, uar, cq), 0);
  EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_UD, pd, cq, qp), 0);
  ib_uverbs_attach_mcast group{};
  group.gid[0] = 0xff;
  group.qp_handle = qp;
  EQUAL(run_command(c, IB_USER_VERBS_CMD_ATTACH_MCAST, group), 0);
  constexpr uint32_t drained = 5;  // IBV_EVENT_SQ_DRAINED
  {
    kilim::vhca::LockGuard guard(c.hca->lock);
    raise_async(*c.hca, r.qpn, drained);
  }
  ib_uverbs_destroy_qp_resp resp{};
  EQUAL(r.destroy_qp(c, qp, resp), -EBUSY);
  pollfd p{async, POLLIN, 0};
  EQUAL_FATAL(poll(&p, 1, 0), 1);
  ib_uverbs_async_event_desc event{};
  EQUAL(read(async, &event, sizeof event), 16);
  EQUAL(event.event_type, drained);
  EQUAL(run_command(c, IB_USER_VERBS_CMD_DETACH_MCAST, group), 0);
  EQUAL(r.destroy_qp(c, qp, resp), 0);
  EQUAL(resp.events_reported, 1);
  close(async);
}

void shared_queues_of_odd_shapes_are_refused() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq;
  EQUAL_FATAL(r.begin(c, pd, uar, cq), 0);
  auto attempt = [&](auto change) {
    ib_uverbs_create_srq cmd{};
    cmd.pd_handle = pd;
    cmd.max_wr = 15;
    cmd.max_sge = 1;
    mlx5_ib_create_srq driver{};
    driver.buf_addr = reinterpret_cast<uintptr_t>(r.qp);
    driver.db_addr = reinterpret_cast<uintptr_t>(r.qp_record);
    change(cmd, driver);
    ib_uverbs_create_srq_resp resp{};
    mlx5_ib_create_srq_resp out{};
    return write_command(IB_USER_VERBS_CMD_CREATE_SRQ)
        .in(UVERBS_ATTR_CORE_IN, cmd)
        .out(UVERBS_ATTR_CORE_OUT, resp)
        .in(UVERBS_ATTR_UHW_IN, driver)
        .out(UVERBS_ATTR_UHW_OUT, out)
        .run(*c.file);
  };
  EQUAL(attempt([](auto&, auto&) {}), 0);
  EQUAL(attempt([](auto& q, auto&) { q.pd_handle = 999; }), -EINVAL);
  EQUAL(attempt([](auto& q, auto&) { q.max_wr = ~0u; }), -EINVAL);
  EQUAL(attempt([](auto& q, auto&) { q.max_sge = 32; }), -EINVAL);
  EQUAL(attempt([](auto& q, auto&) { q.max_sge = 1u << 28; }), -EINVAL);
  EQUAL(attempt([](auto& q, auto&) { q.srq_limit = 16; }), -EINVAL);
  EQUAL(attempt([](auto&, auto& d) { d.flags = 2; }), -EINVAL);
  EQUAL(attempt([](auto&, auto& d) { d.uidx = 1u << 24; }), -EINVAL);
  EQUAL(attempt([](auto&, auto& d) { d.buf_addr = 0x1000; }), -EFAULT);
  EQUAL(attempt([](auto&, auto& d) { d.db_addr = 0x1000; }), -EFAULT);
  EQUAL(attempt([](auto&, auto& d) { d.db_addr += 1; }), -EINVAL);
}

void queues_of_odd_shapes_are_refused() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq, qp;
  EQUAL_FATAL(r.begin(c, pd, uar, cq), 0);
  auto attempt = [&](auto change, uint64_t type = IB_UVERBS_QPT_RC) {
    mlx5_ib_create_qp cmd = r.driver_part(uar);
    change(cmd);
    return r.create_qp(c, cmd, type, pd, cq, qp);
  };
  auto same = [](mlx5_ib_create_qp&) {};
  EQUAL(attempt([](auto& q) { q.sq_wqe_count = 63; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.sq_wqe_count = 1u << 31; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.rq_wqe_count = 65536; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.rq_wqe_shift = 200; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.flags = 0; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.flags |= MLX5_QP_FLAG_TUNNEL_OFFLOADS; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.uidx = 1u << 24; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.bfreg_index = 999; }), -EINVAL);
  EQUAL(attempt([](auto& q) { q.buf_addr = 0x1000; }), -EFAULT);
  EQUAL(attempt([](auto& q) { q.db_addr = ~uint64_t{63}; }), -EINVAL);
  EQUAL(attempt(same, 77), -EINVAL);
  // A queue pair of the driver's own is an initiator or a target, which wants a shared queue.
  EQUAL(attempt(same, IB_UVERBS_QPT_DRIVER), -EINVAL);
  auto both = [](auto& q) { q.flags |= MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT; };
  EQUAL(attempt(both, IB_UVERBS_QPT_DRIVER), -EINVAL);
  auto target = [](auto& q) { q.flags = MLX5_QP_FLAG_TYPE_DCT; };
  EQUAL(attempt(target, IB_UVERBS_QPT_DRIVER), -EINVAL);
  auto initiator = [](auto& q) { q.flags |= MLX5_QP_FLAG_TYPE_DCI; };
  EQUAL(attempt(initiator), -EINVAL);
  // An initiator has no receive ring, a target no protection domain.
  EQUAL(attempt(same, IB_UVERBS_QPT_XRC_INI), -EINVAL);
  EQUAL(attempt(same, IB_UVERBS_QPT_XRC_TGT), -EINVAL);
  ib_uverbs_destroy_qp_resp resp{};
  EQUAL(attempt(same), 0);
  EQUAL(r.destroy_qp(c, qp, resp), 0);
}

// The older command does not hold flags against the type: mlx5_ib has the word.
void the_older_command_leaves_flags_to_the_driver() {
  Client c;
  static Rings r;
  uint32_t uar;
  ib_uverbs_ex_create_qp cmd{};
  EQUAL_FATAL(c.alloc_pd(cmd.pd_handle), 0);
  EQUAL_FATAL(c.alloc_uar(uar), 0);
  EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cmd.send_cq_handle), 0);
  cmd.recv_cq_handle = cmd.send_cq_handle;
  cmd.max_send_wr = cmd.max_recv_wr = 16;
  cmd.max_send_sge = cmd.max_recv_sge = 1;
  auto attempt = [&](uint8_t type, uint32_t flags) {
    cmd.qp_type = type;
    cmd.create_flags = flags;
    mlx5_ib_create_qp driver = r.driver_part(uar);
    ib_uverbs_ex_create_qp_resp resp{};
    mlx5_ib_create_qp_resp out{};
    return write_command(IB_USER_VERBS_CMD_FLAG_EXTENDED | uint32_t{IB_USER_VERBS_EX_CMD_CREATE_QP})
        .in(UVERBS_ATTR_CORE_IN, cmd)
        .out(UVERBS_ATTR_CORE_OUT, resp)
        .in(UVERBS_ATTR_UHW_IN, driver)
        .out(UVERBS_ATTR_UHW_OUT, out)
        .run(*c.file);
  };
  EQUAL(attempt(IB_UVERBS_QPT_RC, IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK), 0);
  EQUAL(attempt(IB_UVERBS_QPT_UD, IB_UVERBS_QP_CREATE_SCATTER_FCS), -EOPNOTSUPP);
}

constexpr Case cases[] = {
    {"a queue that stays keeps its events", a_queue_that_stays_keeps_its_events},
    {"shared queues of odd shapes are refused", shared_queues_of_odd_shapes_are_refused},
    {"queues of odd shapes are refused", queues_of_odd_shapes_are_refused},
    {"the older command leaves flags to the driver", the_older_command_leaves_flags_to_the_driver},
};

}  // namespace
}  // namespace queues_ut

KILIM_TEST_SUITE(queues, queues_ut::cases)
