// SPDX-License-Identifier: BSD-3-Clause
// For tests: an XRC initiator and its target on one adapter, and shared queues of two XRC domains.
// One thread.
#pragma once

#include <fcntl.h>

#include "fabric_fixture.hh"

namespace kilim::test {

// An initiator, a target, and a queue of the target's domain with a PD and a CQ of its own.
struct Xrc {
  explicit Xrc(int file = -1, uint32_t create_flags = 0) {
    ibv_xrcd_init_attr domain{};
    domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    domain.fd = file;
    domain.oflags = O_CREAT;
    for (ibv_xrcd*& x : xrcd) x = ibv_open_xrcd(context(), &domain);
    for (int i = 0; i < 2; i++) {
      pd[i] = ibv_alloc_pd(context());
      cq[i] = ibv_create_cq(context(), 64, nullptr, nullptr, 0);
    }
    for (int i = 0; i < 2; i++) srq[i] = create_xsrq(xrcd[i]);
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_SEND;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd[0];
    attr.send_cq = cq[0];
    attr.cap = {8, 0, 1, 0, 0};
    mlx5dv_qp_init_attr dv{};
    dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    dv.create_flags = create_flags;
    initiator = mlx5dv_create_qp(context(), &attr, &dv);
    ibv_qp_init_attr_ex target_attr{};
    target_attr.qp_type = IBV_QPT_XRC_RECV;
    target_attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target_attr.xrcd = xrcd[0];
    target = mlx5dv_create_qp(context(), &target_attr, &dv);
    ok = initiator != nullptr && target != nullptr && srq[0] != nullptr && srq[1] != nullptr &&
         connect(initiator, target->qp_num,
                 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT, 0) == 0 &&
         connect(target, initiator->qp_num, 0, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
             0;
  }
  ~Xrc() {
    if (target != nullptr) ibv_destroy_qp(target);
    if (initiator != nullptr) ibv_destroy_qp(initiator);
    for (int i = 0; i < 2; i++) {
      ibv_destroy_srq(srq[i]);
      ibv_close_xrcd(xrcd[i]);
      ibv_destroy_cq(cq[i]);
      ibv_dealloc_pd(pd[i]);
    }
  }
  Xrc(const Xrc&) = delete;
  Xrc& operator=(const Xrc&) = delete;

  ibv_srq* create_xsrq(ibv_xrcd* domain) {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {8, 1, 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd[1];
    attr.xrcd = domain;
    attr.cq = cq[1];
    return ibv_create_srq_ex(context(), &attr);
  }
  // `at_rts` and `at_rtr`: what this type of queue wants besides.
  static int connect(ibv_qp* qp, uint32_t peer, int at_rts, int at_rtr) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = all_access;
    int err =
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer;
    a.max_dest_rd_atomic = a.max_rd_atomic = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    ibv_query_gid(context(), 1, 0, &a.ah_attr.grh.dgid);
    int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (err == 0) err = ibv_modify_qp(qp, &a, rtr | at_rtr);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 8;
    if (err == 0)
      err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN | at_rts);
    return err;
  }
  ibv_wc_status post(ibv_wr_opcode op, ibv_srq* to, ibv_sge sge, uint64_t remote = 0,
                     uint32_t rkey = 0) {
    uint32_t srqn = 0;
    ibv_get_srq_num(to, &srqn);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = op;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma = {remote, rkey};
    wr.qp_type.xrc.remote_srqn = srqn;
    if (ibv_post_send(initiator, &wr, &bad) != 0) return IBV_WC_GENERAL_ERR;
    return wait_status(cq[0]);
  }

  bool ok = false;
  ibv_xrcd* xrcd[2]{};
  ibv_pd* pd[2]{};
  ibv_cq* cq[2]{};
  ibv_srq* srq[2]{};
  ibv_qp* initiator = nullptr;
  ibv_qp* target = nullptr;
};

}  // namespace kilim::test
