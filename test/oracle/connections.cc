// SPDX-License-Identifier: BSD-3-Clause
// Part of the peer: its queues, and what takes them to RTS (ibv_modify_qp(3)).
#include <cerrno>

#include <arpa/inet.h>

#include "peer.hh"

namespace kilim::oracle {
namespace {

ibv_qp_type type_of(const std::string& word) {
  return word == "ud" ? IBV_QPT_UD : word == "uc" ? IBV_QPT_UC : IBV_QPT_RC;
}

int to_ready_to_receive(const Words& w, ibv_qp* qp, const ibv_ah_attr& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(w.number("mtu"));
  attr.dest_qp_num = w.as<uint32_t>("peer");
  attr.rq_psn = w.as<uint32_t>("peer_psn");
  attr.max_dest_rd_atomic = w.as<uint8_t>("reads", 4);
  attr.min_rnr_timer = w.as<uint8_t>("rnr_timer", 12);
  attr.ah_attr = path;
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD)
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp, &attr, mask);
}

int to_ready_to_send(const Words& w, ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = w.as<uint32_t>("psn");
  attr.timeout = w.as<uint8_t>("timeout", 14);
  attr.retry_cnt = w.as<uint8_t>("retry", 7);
  attr.rnr_retry = w.as<uint8_t>("rnr_retry", 7);
  attr.max_rd_atomic = w.as<uint8_t>("reads", 4);
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_RC)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &attr, mask);
}

}  // namespace

std::string queue(const Words& w) {
  ibv_qp_init_attr init{};
  init.send_cq = objects.sent;
  init.recv_cq = objects.received;
  init.qp_type = type_of(w.text("type"));
  init.cap = {depth, depth, 4, 4, w.as<uint32_t>("inline")};
  ibv_qp* qp = ibv_create_qp(objects.domains[w.text("pd")], &init);
  if (qp == nullptr) return error(errno);
  objects.queues[w.at(1)] = {qp, nullptr, 0};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = port_number;
  attr.qkey = w.as<uint32_t>("qkey");
  attr.qp_access_flags = w.as<unsigned>("access");
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
             (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  int code = ibv_modify_qp(qp, &attr, mask);
  return code == 0 ? format("ok qpn=%u", qp->qp_num) : error(code);
}

std::string connect(const Words& w) {
  Queue& q = objects.queues[w.at(1)];
  ibv_ah_attr path{};
  path.is_global = 1;
  path.grh.hop_limit = 64;
  path.port_num = port_number;
  inet_pton(AF_INET6, w.text("gid").c_str(), &path.grh.dgid);
  q.peer = w.as<uint32_t>("peer");
  if (q.qp->qp_type == IBV_QPT_UD) {
    q.ah = ibv_create_ah(q.qp->pd, &path);
    if (q.ah == nullptr) return error(errno);
  }
  int code = to_ready_to_receive(w, q.qp, path);
  if (code == 0) code = to_ready_to_send(w, q.qp);
  return code == 0 ? "ok" : error(code);
}

}  // namespace kilim::oracle
