// SPDX-License-Identifier: BSD-3-Clause
// What a queue pair is to be brought to a state with: cma.c, rdma_init_qp_attr(),
// cma_ib_init_qp_attr(); cm.c, cm_init_qp_init_attr() and the two below. All locks held.
#include <algorithm>
#include <cerrno>

#include <rdma/ib_user_verbs.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/connections.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

// ib_verbs.h, enum ib_qp_attr_mask and enum ib_qp_state
namespace mask {
constexpr uint32_t state = 1, access = 1 << 3, pkey_index = 1 << 4, port = 1 << 5, qkey = 1 << 6,
                   av = 1 << 7, path_mtu = 1 << 8, timeout = 1 << 9, retry_cnt = 1 << 10,
                   rnr_retry = 1 << 11, rq_psn = 1 << 12, max_rd_atomic = 1 << 13,
                   min_rnr_timer = 1 << 15, sq_psn = 1 << 16, max_dest_rd_atomic = 1 << 17,
                   dest_qpn = 1 << 20;
}  // namespace mask
constexpr uint32_t to_init = 1, to_rtr = 2, to_rts = 3;
constexpr uint32_t default_qkey = 0x01234567;  // rdma_cm.h, RDMA_UDP_QKEY

bool is_reliable_responder(const Id& id) noexcept {
  return id.qp_type == CmQpType::rc || id.qp_type == CmQpType::xrc_tgt;
}

// Without a connection.
void plain_init(Id& id, ib_uverbs_qp_attr& a) {
  a.qp_attr_mask = mask::state | mask::pkey_index | mask::port;
  a.port_num = 1;
  if (!id.is_datagram()) {
    a.qp_attr_mask |= mask::access;
    return;
  }
  if (id.qkey == 0) id.qkey = default_qkey;
  a.qkey = id.qkey;
  a.qp_attr_mask |= mask::qkey;
}

void connected_init(const cm::QpValues& v, ib_uverbs_qp_attr& a) {
  a.qp_attr_mask = mask::state | mask::access | mask::pkey_index | mask::port;
  a.port_num = 1;
  a.qp_access_flags = access::remote_write;
  if (v.max_dest_rd_atomic != 0) a.qp_access_flags |= access::remote_read | access::remote_atomic;
}

void connected_rtr(const Id& id, const cm::QpValues& v, ib_uverbs_qp_attr& a) {
  a.qp_attr_mask = mask::state | mask::av | mask::path_mtu | mask::dest_qpn | mask::rq_psn;
  a.ah_attr = ah_of(id, v.route, gid_index_of(id.adapter->hca, v.route.sgid));
  a.path_mtu = v.path_mtu;
  a.dest_qp_num = v.dest_qpn;
  a.rq_psn = id.starting_psn;  // rdma_init_qp_attr(): both begin where this side said
  if (!is_reliable_responder(id)) return;
  a.qp_attr_mask |= mask::max_dest_rd_atomic | mask::min_rnr_timer;
  a.max_dest_rd_atomic = v.max_dest_rd_atomic;
  a.min_rnr_timer = v.min_rnr_timer;
}

void connected_rts(const Id& id, const cm::QpValues& v, ib_uverbs_qp_attr& a) {
  a.qp_attr_mask = mask::state | mask::sq_psn;
  a.sq_psn = v.sq_psn;
  if (id.qp_type == CmQpType::rc || id.qp_type == CmQpType::xrc_ini) {
    a.qp_attr_mask |= mask::retry_cnt | mask::rnr_retry | mask::max_rd_atomic | mask::timeout;
    a.retry_cnt = v.retry_count;
    a.rnr_retry = v.rnr_retry;
    a.max_rd_atomic = v.max_rd_atomic;
  }
  if (id.qp_type == CmQpType::xrc_tgt) a.qp_attr_mask |= mask::timeout;
  if ((a.qp_attr_mask & mask::timeout) != 0)
    a.timeout = id.ack_timeout_set ? id.ack_timeout : v.timeout;
}

}  // namespace

ib_uverbs_ah_attr ah_of(const Id&, const cm::Route& route, uint8_t gid_index) noexcept {
  ib_uverbs_ah_attr ah{};
  std::copy(route.dgid.begin(), route.dgid.end(), ah.grh.dgid);
  ah.grh.flow_label = route.flow_label;
  ah.grh.sgid_index = gid_index;
  ah.grh.hop_limit = route.hop_limit;
  ah.grh.traffic_class = route.traffic_class;
  ah.sl = route.service_level;
  ah.is_global = 1;
  ah.port_num = 1;
  return ah;
}

int init_qp_attr(State&, Id& id, uint32_t state, ib_uverbs_qp_attr& a) {
  a = {};
  a.qp_state = state;
  if (id.comm.value() == 0 || id.is_datagram()) {
    plain_init(id, a);
    return 0;
  }
  if (state != to_init && state != to_rtr && state != to_rts)
    return refusal::range("qp_state", state, to_init, to_rts);
  auto agent = hca::connection_agent(id.adapter->hca, 1);
  if (!agent.ok()) return refusal::of(agent.error());
  const cm::QpStep step = state == to_init  ? cm::QpStep::init
                          : state == to_rtr ? cm::QpStep::rtr
                                            : cm::QpStep::rts;
  const Result<cm::QpValues> v = (*agent)->qp_values(id.comm, step);
  if (!v.ok()) return -v.error().code;
  if (state == to_init) connected_init(*v, a);
  if (state == to_rtr) connected_rtr(id, *v, a);
  if (state == to_rts) connected_rts(id, *v, a);
  return 0;
}

}  // namespace kilim::vhca::rdmacm
