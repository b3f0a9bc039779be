// SPDX-License-Identifier: BSD-3-Clause
// Attributes of queue pairs as mlx5_ib takes them and a card's context tells them.
#include <cerrno>
#include <utility>

#include "fabric_fixture.hh"

namespace attributes_ut {
namespace {

using namespace kilim::test;

ibv_qp_attr attributes(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EQUAL(ibv_query_qp(qp, &attr, 0, &init), 0);
  return attr;
}

// Where most attributes of a connection may be changed.
void stop_sending(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  for (int i = 0; i < 10; i++) shared().poll();
}

void depths_are_powers_of_two() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  stop_sending(l.qp[0]);
  const struct {
    uint8_t asked, told;
  } rows[] = {{5, 8}, {12, 16}, {16, 16}, {1, 1}, {0, 1}, {2, 2}};
  for (const auto& row : rows) {
    ibv_qp_attr a{};
    a.max_rd_atomic = a.max_dest_rd_atomic = row.asked;
    EQUAL(ibv_modify_qp(l.qp[0], &a, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
    a = attributes(l.qp[0]);
    EQUAL(a.max_rd_atomic, row.told);
    EQUAL(a.max_dest_rd_atomic, row.told);
    // Rights to what is never answered are kept back.
    unsigned told = row.asked != 0 ? all_access & ~unsigned{IBV_ACCESS_LOCAL_WRITE}
                                   : unsigned{IBV_ACCESS_REMOTE_WRITE};
    EQUAL(a.qp_access_flags, told);
  }
}

ibv_qp* initialized(ibv_pd* pd, ibv_cq* cq, ibv_qp_type type) {
  Shape shape;
  shape.type = type;
  ibv_qp* qp = create_qp(pd, cq, shape);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  EQUAL(attributes(qp).path_mtu, 0);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = all_access;
  int given = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | given), 0);
  return qp;
}

void a_queue_says_little_before_it_is_connected() {
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_cq* cq = ibv_create_cq(context(), 16, nullptr, nullptr, 0);
  ibv_qp* rc = initialized(pd, cq, IBV_QPT_RC);
  EQUAL(attributes(rc).qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
  EQUAL(attributes(rc).path_mtu, 0);
  ibv_qp* ud = initialized(pd, cq, IBV_QPT_UD);
  EQUAL(attributes(ud).path_mtu, IBV_MTU_4096);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RESET;
  EQUAL(ibv_modify_qp(ud, &a, IBV_QP_STATE), 0);
  EQUAL(attributes(ud).path_mtu, 0);
  ibv_destroy_qp(rc);
  ibv_destroy_qp(ud);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
}

void what_does_not_fit_is_cut_off() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  stop_sending(l.qp[0]);
  ibv_qp_attr a{};
  a.timeout = 32 + 9;
  a.min_rnr_timer = 32 + 11;
  a.retry_cnt = 8 + 5;
  a.rnr_retry = 8 + 6;
  EQUAL(ibv_modify_qp(l.qp[0], &a,
                      IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY),
        0);
  a = attributes(l.qp[0]);
  EQUAL(a.timeout, 9);
  EQUAL(a.min_rnr_timer, 11);
  EQUAL(a.retry_cnt, 5);
  EQUAL(a.rnr_retry, 6);
}

// It may be named as the one in use.
void there_is_one_path() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  ibv_qp_attr a{};
  const std::pair<ibv_mig_state, int> rows[] = {
      {IBV_MIG_MIGRATED, 0}, {IBV_MIG_REARM, EOPNOTSUPP}, {IBV_MIG_ARMED, EOPNOTSUPP}};
  for (auto [state, error] : rows) {
    a.path_mig_state = state;
    EQUAL(ibv_modify_qp(l.qp[0], &a, IBV_QP_PATH_MIG_STATE), error);
  }
  EQUAL(attributes(l.qp[0]).path_mig_state, IBV_MIG_MIGRATED);
  a.alt_port_num = a.alt_ah_attr.port_num = 1;
  a.alt_ah_attr.is_global = 1;
  ibv_query_gid(context(), 1, 0, &a.alt_ah_attr.grh.dgid);
  EQUAL(ibv_modify_qp(l.qp[0], &a, IBV_QP_ALT_PATH), EINVAL);
  EQUAL(state_of(l.qp[0]), IBV_QPS_RTS);
}

constexpr Case cases[] = {
    {"depths are powers of two", depths_are_powers_of_two},
    {"a queue says little before it is connected", a_queue_says_little_before_it_is_connected},
    {"what does not fit is cut off", what_does_not_fit_is_cut_off},
    {"there is one path", there_is_one_path},
};

}  // namespace
}  // namespace attributes_ut

KILIM_TEST_SUITE(attributes, attributes_ut::cases)
