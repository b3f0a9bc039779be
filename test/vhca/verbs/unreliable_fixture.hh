// SPDX-License-Identifier: BSD-3-Clause
// Two unreliable connections to each other, on the adapter of fabric_fixture.hh.
#pragma once

#include "fabric_fixture.hh"

namespace kilim::test {

// Both in one domain; `ok` says whether they are connected.
struct Unreliable {
  Unreliable() {
    pd = ibv_alloc_pd(context());
    for (int i = 0; i < 2; i++) {
      cq[i] = ibv_create_cq(context(), 64, nullptr, nullptr, 0);
      qp[i] = create_qp(pd, cq[i], {.type = IBV_QPT_UC});
    }
    ok = qp[0] != nullptr && qp[1] != nullptr && connect(0) == 0 && connect(1) == 0;
  }
  ~Unreliable() {
    for (int i = 0; i < 2; i++) {
      if (qp[i] != nullptr) ibv_destroy_qp(qp[i]);
      ibv_destroy_cq(cq[i]);
    }
    EQUAL(ibv_dealloc_pd(pd), 0);
  }
  Unreliable(const Unreliable&) = delete;
  Unreliable& operator=(const Unreliable&) = delete;

  int connect(int i) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    int err = ibv_modify_qp(qp[i], &a,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qp[1 - i]->qp_num;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    ibv_query_gid(context(), 1, 0, &a.ah_attr.grh.dgid);
    if (err == 0)
      err = ibv_modify_qp(
          qp[i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
    a.qp_state = IBV_QPS_RTS;
    return err != 0 ? err : ibv_modify_qp(qp[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }
  ibv_wc_status post(ibv_wr_opcode op, ibv_sge sge, uint64_t remote = 0, uint32_t rkey = 0) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = op;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma = {remote, rkey};
    if (ibv_post_send(qp[0], &wr, &bad) != 0) return IBV_WC_GENERAL_ERR;
    return wait_status(cq[0]);
  }

  bool ok = false;
  ibv_pd* pd;
  ibv_cq* cq[2]{};
  ibv_qp* qp[2]{};
};

}  // namespace kilim::test
