// SPDX-License-Identifier: BSD-3-Clause
// doc/guides/errors.md, the commonest mistakes of public reports: each is made through unmodified
// libibverbs and libmlx5, and the device says what the table shows, but for the numbers.
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

#include <time.h>

#include "../verbs/fabric_fixture.hh"
#include "explain_fixture.hh"
#include "guide_fixture.hh"
#include "ut.hh"
#include "vhca/core/profile.hh"

namespace setup_guide_ut {
namespace {

using namespace kilim::test;
using kilim::vhca::Profile;
using kilim::vhca::test::read_guide;
using kilim::vhca::test::says;
using kilim::vhca::test::stderr_of;
using kilim::vhca::test::without_locked_memory;
using kilim::vhca::test::without_numbers;

ibv_wc_status finish(ibv_cq* cq) {
  ibv_wc wc{};
  for (int i = 0; i < 200; i++) {
    if (wait_for(cq, wc)) return wc.status;
    constexpr timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return IBV_WC_GENERAL_ERR;
}

// A limit of the device's while f() runs.
template <auto limit, typename T>
void with_limit(T value, const std::function<void()>& f) {
  Profile& p = shared().hca()->config.profile;
  const T was = p.*limit;
  p.*limit = value;
  f();
  p.*limit = was;
}

// A queue on its way, and how the step differs from a good one.
struct Fresh {
  Fresh() : pd(ibv_alloc_pd(context())), cq(ibv_create_cq(context(), 16, nullptr, nullptr, 0)) {
    qp = create_qp(pd, cq);
    CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  }
  ~Fresh() {
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
  }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  using Spoil = std::function<void(ibv_qp_attr&)>;

  int to_init(const Spoil& spoil = {}) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    if (spoil) spoil(a);
    return ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int to_rtr(const Spoil& spoil) {
    EQUAL(to_init(), 0);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qp->qp_num;
    a.max_dest_rd_atomic = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    ibv_query_gid(context(), 1, 0, &a.ah_attr.grh.dgid);
    spoil(a);
    return ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_qp* qp = nullptr;
};

void send_to_strangers(ibv_gid& gid) {
  gid = {};
  gid.raw[0] = 0x20;
  gid.raw[15] = 1;
}

void empty_gid() {
  Fresh q;
  EQUAL(q.to_rtr([](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 7; }), ENODATA);
}
void by_lid() {
  Fresh q;
  EQUAL(q.to_rtr([](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }), EINVAL);
}
void no_way() {
  Fresh q;
  EQUAL(q.to_rtr([](ibv_qp_attr& a) { send_to_strangers(a.ah_attr.grh.dgid); }), EHOSTUNREACH);
}
void region_is_not_locked() {
  Fresh q;
  uint8_t memory[64];
  const auto try_it = [&] {
    return ibv_reg_mr(q.pd, memory, sizeof memory, 0) != nullptr ? 0 : errno;
  };
  EQUAL(without_locked_memory(try_it), EPERM);
}
void ring_is_not_locked() {
  const auto try_it = [] {
    return ibv_create_cq(context(), 64, nullptr, nullptr, 0) != nullptr ? 0 : errno;
  };
  EQUAL(without_locked_memory(try_it), EPERM);
}
void too_many_entries() {
  with_limit<&Profile::max_cqe>(
      100u, [] { CU_ASSERT_PTR_NULL(ibv_create_cq(context(), 200, nullptr, nullptr, 0)); });
}
void remote_alone() {
  Fresh q;
  uint8_t memory[64];
  CU_ASSERT_PTR_NULL(ibv_reg_mr(q.pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE));
}
void too_many_reads() {
  Fresh q;
  EQUAL(q.to_rtr([](ibv_qp_attr& a) { a.max_dest_rd_atomic = 128; }), EINVAL);
}
void other_partition() {
  Fresh q;
  EQUAL(q.to_init([](ibv_qp_attr& a) { a.pkey_index = 1; }), EINVAL);
}
void left_out_a_state() {
  Fresh q;
  EQUAL(q.to_init(), 0);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  EQUAL(ibv_modify_qp(q.qp, &a, IBV_QP_STATE), EINVAL);
}
void nothing_to_receive_into() {
  Loop l;
  Region mine(l.pd[0], 64);
  EQUAL(l.post(IBV_WR_SEND, {mine.sge(0, 64)}), 0);
  EQUAL(finish(l.cq[0]), IBV_WC_RNR_RETRY_EXC_ERR);
}
void peer_is_not_ready() {
  Loop l;
  Region mine(l.pd[0], 64);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RESET;
  EQUAL(ibv_modify_qp(l.qp[1], &a, IBV_QP_STATE), 0);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {mine.sge(0, 8)}, mine.at(), mine.mr()->rkey), 0);
  EQUAL(finish(l.cq[0]), IBV_WC_RETRY_EXC_ERR);
}
void key_of_another_domain() {
  Loop l;
  Region mine(l.pd[0], 64);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {mine.sge(0, 8)}, mine.at(), mine.mr()->rkey), 0);
  EQUAL(finish(l.cq[0]), IBV_WC_REM_ACCESS_ERR);
}
void odd_address() {
  Loop l;
  Region mine(l.pd[0], 64), theirs(l.pd[1], 64);
  EQUAL(l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, mine.sge(0, 8), theirs.at(4), theirs.mr()->rkey,
                      1),
        0);
  EQUAL(finish(l.cq[0]), IBV_WC_REM_INV_REQ_ERR);
}

// One datagram from a queue to itself.
void no_room_for_the_header() {
  Fresh q;
  Shape shape;
  shape.type = IBV_QPT_UD;
  ibv_qp* ud = create_qp(q.pd, q.cq, shape);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qkey = 1;
  EQUAL(ibv_modify_qp(ud, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  a.qp_state = IBV_QPS_RTR;
  EQUAL(ibv_modify_qp(ud, &a, IBV_QP_STATE), 0);
  a.qp_state = IBV_QPS_RTS;
  EQUAL(ibv_modify_qp(ud, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ibv_ah_attr way{};
  way.is_global = 1;
  way.port_num = 1;
  ibv_query_gid(context(), 1, 0, &way.grh.dgid);
  ibv_ah* ah = ibv_create_ah(q.pd, &way);
  Region mine(q.pd, 64);
  ibv_sge room = mine.sge(0, 64);
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  receive.sg_list = &room;
  receive.num_sge = 1;
  EQUAL(ibv_post_recv(ud, &receive, &bad_receive), 0);
  ibv_send_wr send{}, *bad = nullptr;
  send.opcode = IBV_WR_SEND;
  send.sg_list = &room;
  send.num_sge = 1;
  send.wr.ud = {ah, ud->qp_num, 1};
  EQUAL(ibv_post_send(ud, &send, &bad), 0);
  EQUAL(finish(q.cq), IBV_WC_LOC_LEN_ERR);
  ibv_destroy_ah(ah);
  ibv_destroy_qp(ud);
}
void no_paging() {
  Fresh q;
  uint8_t memory[64];
  with_limit<&Profile::odp>(false, [&] {
    CU_ASSERT_PTR_NULL(ibv_reg_mr(q.pd, memory, sizeof memory, IBV_ACCESS_ON_DEMAND));
  });
}
void domain_in_use() {
  Fresh q;
  Region mine(q.pd, 64);
  EQUAL(ibv_dealloc_pd(q.pd), EBUSY);
}
void handle_to_strangers() {
  Fresh q;
  ibv_ah_attr a{};
  a.is_global = 1;
  a.port_num = 1;
  send_to_strangers(a.grh.dgid);
  CU_ASSERT_PTR_NULL(ibv_create_ah(q.pd, &a));
}

// By the rows' numbers, from 1 on.
constexpr void (*mistakes[])() = {
    empty_gid,
    by_lid,
    no_way,
    region_is_not_locked,
    ring_is_not_locked,
    too_many_entries,
    remote_alone,
    too_many_reads,
    other_partition,
    left_out_a_state,
    nothing_to_receive_into,
    peer_is_not_ready,
    key_of_another_domain,
    odd_address,
    no_room_for_the_header,
    no_paging,
    domain_in_use,
    handle_to_strangers,
};
constexpr int untold = 2;  // rows behind these, of which the device says nothing

// What stands in double backquotes in the row of this number; empty: there is none.
std::string sentence_of(const std::string& guide, int number) {
  const std::size_t row = guide.find("\n| " + std::to_string(number) + " | ");
  if (row == std::string::npos) return "no row";
  const std::size_t end = guide.find('\n', row + 1), open = guide.find("``", row);
  if (open == std::string::npos || open > end) return "";
  return guide.substr(open + 2, guide.find("``", open + 2) - open - 2);
}

void each_mistake_is_told_as_the_table_shows() {
  ::setenv("KILIM_VHCA_EXPLAIN", "on", 1);
  const std::string guide = read_guide();
  shared();
  int number = 0;
  for (const auto mistake : mistakes) {
    number++;
    const std::string text = stderr_of(mistake);
    const std::string shown = sentence_of(guide, number);
    CU_ASSERT(shown.size() > 20);
    says(without_numbers(text), without_numbers(shown));
  }
  CU_ASSERT(number >= 18);
  for (int i = 0; i < untold; i++) EQUAL(sentence_of(guide, ++number), "");
  EQUAL(sentence_of(guide, number + 1), "no row");
}

using kilim::test::Case;
const Case cases[] = {
    {"each mistake is told as the table shows", each_mistake_is_told_as_the_table_shows},
};

}  // namespace
}  // namespace setup_guide_ut

KILIM_TEST_SUITE(setup_guide, setup_guide_ut::cases)
