// SPDX-License-Identifier: BSD-3-Clause
// Dynamic connections through unmodified libmlx5: how initiators and targets are made and asked,
// requests by mlx5dv's builders, streams, addresses mapped to queues.
#include <cerrno>

#include "fabric_fixture.hh"

namespace dynamic_ut {
namespace {

using namespace kilim::test;

constexpr uint64_t key = 0x0123456789abcdef;
constexpr uint64_t dc_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

ibv_qp_init_attr_ex attr_of(ibv_pd* pd, ibv_cq* cq, ibv_srq* srq) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_DRIVER;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = pd;
  attr.send_cq = attr.recv_cq = cq;
  attr.srq = srq;
  return attr;
}

int to_init(ibv_qp* qp, int more) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = all_access;
  return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | more);
}

int to_reset(ibv_qp* qp) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RESET;
  return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

// An initiator, a target behind a shared queue, and the way from one to the other.
struct Dynamic {
  explicit Dynamic(uint8_t log_errored = 0, ibv_context* device = context()) : context_(device) {
    pd = ibv_alloc_pd(device);
    cq = ibv_create_cq(device, 64, nullptr, nullptr, 0);
    target_cq = ibv_create_cq(device, 64, nullptr, nullptr, 0);
    ibv_srq_init_attr shared{};
    shared.attr = {16, 1, 0};
    srq = ibv_create_srq(pd, &shared);
    target = make_target(srq);
    initiator = make_initiator(0, log_errored);
  }
  ~Dynamic() {
    if (ah != nullptr) ibv_destroy_ah(ah);
    for (ibv_qp* qp : {initiator, target}) {
      if (qp != nullptr) EQUAL(ibv_destroy_qp(qp), 0);
    }
    EQUAL(ibv_destroy_srq(srq), 0);
    ibv_destroy_cq(cq);
    ibv_destroy_cq(target_cq);
    EQUAL(ibv_dealloc_pd(pd), 0);
  }
  Dynamic(const Dynamic&) = delete;
  Dynamic& operator=(const Dynamic&) = delete;

  ibv_qp* make_target(ibv_srq* from) {
    ibv_qp_init_attr_ex attr = attr_of(pd, target_cq, from);
    mlx5dv_qp_init_attr dv{};
    dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
    dv.dc_init_attr.dct_access_key = key;
    return mlx5dv_create_qp(context_, &attr, &dv);
  }
  ibv_qp* make_initiator(uint32_t max_recv, uint8_t log_errored) {
    ibv_qp_init_attr_ex attr = attr_of(pd, cq, nullptr);
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = dc_ops;
    attr.cap = {16, max_recv, 1, max_recv, 64};
    mlx5dv_qp_init_attr dv{};
    dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    dv.send_ops_flags = MLX5DV_QP_EX_WITH_MEMCPY;
    dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
    if (log_errored != 0) {
      dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
      dv.dc_init_attr.dci_streams = {3, log_errored};
    }
    return mlx5dv_create_qp(context_, &attr, &dv);
  }
  int bring_up_target() {
    ibv_qp_attr a = rtr();
    int err = to_init(target, IBV_QP_ACCESS_FLAGS);
    return err != 0
               ? err
               : ibv_modify_qp(target, &a,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER);
  }
  int bring_up_initiator() {
    ibv_qp_attr a = rtr();
    int err = to_init(initiator, 0);
    if (err == 0) err = ibv_modify_qp(initiator, &a, IBV_QP_STATE | IBV_QP_PATH_MTU);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 8;
    a.retry_cnt = a.rnr_retry = 1;
    a.max_rd_atomic = 16;
    if (err != 0) return err;
    return ibv_modify_qp(initiator, &a,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  bool bring_up() {
    if (initiator == nullptr || target == nullptr) return false;
    if (bring_up_target() != 0 || bring_up_initiator() != 0) return false;
    ibv_ah_attr way = rtr().ah_attr;
    ah = ibv_create_ah(pd, &way);
    return ah != nullptr;
  }
  ibv_qp_attr rtr() {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.min_rnr_timer = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.hop_limit = 1;
    if (!nowhere) ibv_query_gid(context_, 1, 0, &a.ah_attr.grh.dgid);
    return a;
  }
  // Puts one request together; `build` names its kind.
  template <typename Build>
  ibv_wc_status post(ibv_sge sge, Build build, uint16_t stream = 0) {
    ibv_qp_ex* qx = ibv_qp_to_qp_ex(initiator);
    mlx5dv_qp_ex* dv = mlx5dv_qp_ex_from_ibv_qp_ex(qx);
    ibv_wr_start(qx);
    qx->wr_flags = IBV_SEND_SIGNALED;
    build(qx);
    if (stream == 0)
      mlx5dv_wr_set_dc_addr(dv, ah, target->qp_num, key);
    else
      mlx5dv_wr_set_dc_addr_stream(dv, ah, target->qp_num, key, stream);
    ibv_wr_set_sge(qx, sge.lkey, sge.addr, sge.length);
    if (ibv_wr_complete(qx) != 0) return IBV_WC_GENERAL_ERR;
    return wait_status(cq);
  }
  ibv_context* context_;
  ibv_pd* pd;
  ibv_cq *cq, *target_cq;
  ibv_srq* srq;
  ibv_qp *target, *initiator;
  ibv_ah* ah = nullptr;
  bool nowhere = false;
};

void the_device_tells_what_it_has() {
  mlx5dv_context c{};
  c.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS | MLX5DV_CONTEXT_MASK_DC_ODP_CAPS;
  EQUAL(mlx5dv_query_device(context(), &c), 0);
  EQUAL(c.dci_streams_caps.max_log_num_concurent, 6);
  EQUAL(c.dci_streams_caps.max_log_num_errored, 6);
  EQUAL(c.dc_odp_caps, IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                           IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                           IBV_ODP_SUPPORT_SRQ_RECV);
}

void a_target_has_its_number_when_it_is_ready() {
  Dynamic d;
  CU_ASSERT_FATAL(d.target != nullptr);
  CU_ASSERT_FATAL(d.initiator != nullptr);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EQUAL(d.target->qp_num, 0);
  EQUAL(ibv_query_qp(d.target, &attr, IBV_QP_STATE, &init), EINVAL);
  EQUAL(d.bring_up_target(), 0);
  CU_ASSERT(d.target->qp_num != 0);
  CU_ASSERT(d.target->qp_num != d.initiator->qp_num);
  EQUAL(ibv_query_qp(d.target, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &init), 0);
  EQUAL(attr.qp_state, IBV_QPS_RTR);
  CU_ASSERT((attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) != 0);
  EQUAL(ibv_query_qp(d.target, &attr, IBV_QP_SQ_PSN, &init), EINVAL);
  EQUAL(to_reset(d.target), EINVAL);
  EQUAL(d.bring_up_target(), EINVAL);
}

// A request names its way itself; UCX gives a queue none.
void a_path_may_lead_nowhere() {
  Dynamic d;
  d.nowhere = true;
  EQUAL(d.bring_up_target(), 0);
  EQUAL(to_init(d.initiator, 0), 0);
  ibv_qp_attr a = d.rtr();
  EQUAL(ibv_modify_qp(d.initiator, &a, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV), 0);
  // Where it leaves from has to be there.
  Dynamic other;
  EQUAL(to_init(other.initiator, 0), 0);
  a.ah_attr.grh.sgid_index = 9;
  EQUAL(ibv_modify_qp(other.initiator, &a, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV), ENODATA);
  a.ah_attr.grh.sgid_index = 0;
  a.ah_attr.is_global = 0;
  EQUAL(ibv_modify_qp(other.initiator, &a, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV), EINVAL);
}

void what_the_kernel_refuses_is_refused() {
  Dynamic d;
  CU_ASSERT(d.make_target(nullptr) == nullptr && errno == EINVAL);
  CU_ASSERT(d.make_initiator(4, 0) == nullptr && errno == EINVAL);
  CU_ASSERT(d.make_initiator(0, 7) == nullptr && errno == EINVAL);
  EQUAL(to_init(d.initiator, IBV_QP_ACCESS_FLAGS), EINVAL);
  EQUAL(to_init(d.target, 0), EINVAL);
  EQUAL(to_init(d.initiator, 0), 0);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  EQUAL(ibv_modify_qp(d.initiator, &a, IBV_QP_STATE), EINVAL);
}

void an_adapter_without_says_so() {
  static ibv_context* other = (attach_device("vhca1", "no-dc"), open_device("vhca1"));
  CU_ASSERT_FATAL(other != nullptr);
  Dynamic d(0, other);
  CU_ASSERT(d.target == nullptr && d.initiator == nullptr && errno == EOPNOTSUPP);
  mlx5dv_context c{};
  c.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS | MLX5DV_CONTEXT_MASK_DC_ODP_CAPS;
  EQUAL(mlx5dv_query_device(other, &c), 0);
  EQUAL(c.dc_odp_caps, 0);
  EQUAL(c.dci_streams_caps.max_log_num_concurent, 0);
}

void requests_of_every_kind_are_done() {
  Dynamic d;
  CU_ASSERT_FATAL(d.bring_up());
  Region near(d.pd, 8192), far(d.pd, 8192);
  fill(near.data(), 8192, 3);
  const uint32_t rkey = far.mr()->rkey;
  const auto write = [&](ibv_qp_ex* q) { ibv_wr_rdma_write(q, rkey, far.at(100)); };
  EQUAL(d.post(near.sge(0, 5000), write), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(near.data(), far.data() + 100, 5000), 0);
  const auto read = [&](ibv_qp_ex* q) { ibv_wr_rdma_read(q, rkey, far.at(101)); };
  EQUAL(d.post(near.sge(6000, 90), read), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(near.data() + 6000, near.data() + 1, 90), 0);
  auto* word = reinterpret_cast<uint64_t*>(far.data());
  *word = 7;
  const auto add = [&](ibv_qp_ex* q) { ibv_wr_atomic_fetch_add(q, rkey, far.at(), 5); };
  EQUAL(d.post(near.sge(6000, 8), add), IBV_WC_SUCCESS);
  EQUAL(*word, 12);
  ibv_sge place = far.sge(7000, 1000);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &place;
  wr.num_sge = 1;
  wr.wr_id = 55;
  EQUAL(ibv_post_srq_recv(d.srq, &wr, &bad), 0);
  const auto send = [](ibv_qp_ex* q) { ibv_wr_send_imm(q, 0x11223344); };
  EQUAL(d.post(near.sge(10, 700), send), IBV_WC_SUCCESS);
  ibv_wc wc{};
  CU_ASSERT(wait_for(d.target_cq, wc));
  EQUAL(wc.status, IBV_WC_SUCCESS);
  EQUAL(wc.wr_id, 55);
  EQUAL(wc.byte_len, 700);
  EQUAL(wc.imm_data, 0x11223344);
  EQUAL(wc.qp_num, d.target->qp_num);
  EQUAL(std::memcmp(near.data() + 10, far.data() + 7000, 700), 0);
}

void an_initiator_copies_by_itself() {
  Dynamic d;
  CU_ASSERT_FATAL(d.bring_up());
  Region near(d.pd, 4096);
  fill(near.data(), 1024, 9);
  ibv_qp_ex* qx = ibv_qp_to_qp_ex(d.initiator);
  ibv_wr_start(qx);
  qx->wr_flags = IBV_SEND_SIGNALED;
  mlx5dv_wr_memcpy(mlx5dv_qp_ex_from_ibv_qp_ex(qx), near.mr()->lkey, near.at(2048), near.mr()->lkey,
                   near.at(0), 1024);
  EQUAL(ibv_wr_complete(qx), 0);
  EQUAL(wait_status(d.cq), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(near.data(), near.data() + 2048, 1024), 0);
}

void a_stream_that_failed_is_reset() {
  Dynamic d(2);
  CU_ASSERT_FATAL(d.bring_up());
  Region near(d.pd, 4096), far(d.pd, 4096);
  const auto write = [&](ibv_qp_ex* q) { ibv_wr_rdma_write(q, far.mr()->rkey, far.at()); };
  const auto wrong = [&](ibv_qp_ex* q) { ibv_wr_rdma_write(q, far.mr()->rkey ^ 1, far.at()); };
  EQUAL(d.post(near.sge(0, 8), wrong, 5), IBV_WC_REM_ACCESS_ERR);
  EQUAL(d.post(near.sge(0, 8), write, 5), IBV_WC_WR_FLUSH_ERR);
  EQUAL(d.post(near.sge(0, 8), write, 6), IBV_WC_SUCCESS);
  CU_ASSERT(mlx5dv_dci_stream_id_reset(d.initiator, 6) != 0);
  EQUAL(mlx5dv_dci_stream_id_reset(d.initiator, 5), 0);
  EQUAL(d.post(near.sge(0, 8), write, 5), IBV_WC_SUCCESS);
  for (uint16_t stream = 1; stream <= 4; stream++)
    EQUAL(d.post(near.sge(0, 8), wrong, stream), IBV_WC_REM_ACCESS_ERR);
  EQUAL(state_of(d.initiator), IBV_QPS_ERR);
  // Back to its beginnings.
  EQUAL(to_reset(d.initiator), 0);
  EQUAL(d.bring_up_initiator(), 0);
  EQUAL(d.post(near.sge(0, 8), write, 1), IBV_WC_SUCCESS);
}

void an_address_is_mapped_to_a_queue() {
  Dynamic d;
  CU_ASSERT_FATAL(d.bring_up());
  ibv_ah_attr way = d.rtr().ah_attr;
  ibv_ah* other = ibv_create_ah(d.pd, &way);
  CU_ASSERT(mlx5dv_map_ah_to_qp(other, 0xfffffe) != 0);
  EQUAL(mlx5dv_map_ah_to_qp(other, d.initiator->qp_num), 0);
  EQUAL(ibv_destroy_ah(other), 0);
}

constexpr Case cases[] = {
    {"the device tells what it has", the_device_tells_what_it_has},
    {"a target has its number when it is ready", a_target_has_its_number_when_it_is_ready},
    {"a path may lead nowhere", a_path_may_lead_nowhere},
    {"what the kernel refuses is refused", what_the_kernel_refuses_is_refused},
    {"an adapter without says so", an_adapter_without_says_so},
    {"requests of every kind are done", requests_of_every_kind_are_done},
    {"an initiator copies by itself", an_initiator_copies_by_itself},
    {"a stream that failed is reset", a_stream_that_failed_is_reset},
    {"an address is mapped to a queue", an_address_is_mapped_to_a_queue},
};

}  // namespace
}  // namespace dynamic_ut

KILIM_TEST_SUITE(dynamic, dynamic_ut::cases)
