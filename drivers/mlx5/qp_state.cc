// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/qp_state.hh"

#include <cstring>

namespace kilim::mlx5 {
namespace {

Status modify(ibv_qp* qp, ibv_qp_attr& attr, int mask) {
  if (const int rc = ibv_modify_qp(qp, &attr, mask); rc != 0)
    return Error{rc, "the adapter refuses the queue pair's next state"};
  return Done{};
}

Status to_init(ibv_qp* qp, const Path& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = path.route.port;
  attr.qp_access_flags = path.access;
  return modify(qp, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

Status to_rtr(ibv_qp* qp, const Path& path, bool reliable) {
  const device::Route& route = path.route;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = path.mtu;
  attr.dest_qp_num = route.peer.qpn.value();
  attr.rq_psn = route.peer.psn;
  attr.max_dest_rd_atomic = route.reads_in;
  attr.min_rnr_timer = route.rnr_timer;
  attr.ah_attr.port_num = route.port;
  attr.ah_attr.dlid = route.peer.lid;
  attr.ah_attr.sl = route.service_level;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.hop_limit = route.hop_limit;
  attr.ah_attr.grh.traffic_class = route.traffic_class;
  attr.ah_attr.grh.flow_label = route.flow_label;
  attr.ah_attr.grh.sgid_index = route.gid_index;
  std::memcpy(attr.ah_attr.grh.dgid.raw, route.peer.gid.data(), route.peer.gid.size());
  constexpr int both = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  constexpr int acknowledged = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return modify(qp, attr, both | (reliable ? acknowledged : 0));
}

Status from_rtr(ibv_qp* qp, const Path& path, bool reliable) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = path.route.timeout;
  attr.retry_cnt = path.route.retries;
  attr.rnr_retry = path.route.rnr_retries;
  attr.sq_psn = path.route.psn;
  attr.max_rd_atomic = path.route.reads_out;
  constexpr int acknowledged =
      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return modify(qp, attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (reliable ? acknowledged : 0));
}

}  // namespace

Status to_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return modify(qp, attr, IBV_QP_STATE);
}

Status to_rts(ibv_qp* qp, const Path& path, device::Transport transport) {
  const bool reliable = transport == device::Transport::rc;
  if (Status s = to_state(qp, IBV_QPS_RESET); !s) return s;
  if (Status s = to_init(qp, path); !s) return s;
  if (Status s = to_rtr(qp, path, reliable); !s) return s;
  return from_rtr(qp, path, reliable);
}

Status raw_to_rts(ibv_qp* qp, uint8_t port) {
  if (Status s = to_state(qp, IBV_QPS_RESET); !s) return s;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = port;
  if (Status s = modify(qp, attr, IBV_QP_STATE | IBV_QP_PORT); !s) return s;
  if (Status s = to_state(qp, IBV_QPS_RTR); !s) return s;
  return to_state(qp, IBV_QPS_RTS);
}

}  // namespace kilim::mlx5
