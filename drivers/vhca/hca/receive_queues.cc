// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_RQ", "MODIFY_RQ", "DESTROY_RQ". To the engine a receive queue of its own is a queue
// pair that cannot send. Adapter's lock held.
#include <bit>
#include <cerrno>

#include "vhca/core/refusal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/hca/objects.hh"
#include "vhca/memory/probe.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint32_t rq_record_bytes = 4;
constexpr uint32_t least_shift = 4;  // one segment

bool strides_fit(const Profile& p, const RqSpec& s) noexcept {
  return p.striding_rq && !s.signature && s.wqe_shift > least_shift &&
         s.log_stride_bytes >= stride::least_log_bytes &&
         s.log_stride_bytes <= stride::most_log_bytes && s.log_strides >= stride::least_log_count &&
         s.log_strides <= stride::most_log_count;
}

// Null: nothing to object to.
const char* objection(const Hca& h, const RqSpec& s) noexcept {
  const Profile& p = h.config.profile;
  if (!h.pd_exists(s.pd)) return "no such protection domain";
  if (h.cqs.at(s.cq.value()) == nullptr) return "no such completion queue";
  if (!std::has_single_bit(s.wqes) || s.wqes > p.max_qp_wr) return "size of a receive queue";
  if (s.wqe_shift < least_shift || s.wqe_shift > 31 || 1u << s.wqe_shift > p.max_rq_desc_bytes)
    return "size of a receive WQE";
  if (s.signature && s.wqe_shift == least_shift) return "no room for a segment";
  if (s.log_stride_bytes != 0 && !strides_fit(p, s)) return "strides of a receive WQE";
  if (s.record.value() % 4 != 0) return "doorbell record not aligned";
  return nullptr;
}

void fill(Hca& h, wq::Qp& rq, const RqSpec& s) {
  rq.type = QpType::raw_packet;
  rq.alone = true;
  rq.spec.type = rq.type;
  rq.spec.pd = s.pd;
  rq.spec.recv_cq = s.cq;
  rq.spec.buf = s.buf;
  rq.spec.record = s.record;
  rq.spec.rq_wqes = s.wqes;
  rq.spec.rq_wqe_shift = s.wqe_shift;
  rq.spec.uidx = s.uidx;
  rq.spec.rq_signature = s.signature;
  rq.spec.strip_vlan = s.strip_vlan;
  rq.spec.scatter_fcs = s.scatter_fcs;
  rq.spec.owner = s.owner;
  rq.recv_cq = h.cqs.at(s.cq.value());
  rq.rq = {s.buf.value(), s.wqes, s.wqe_shift};
  rq.rq.log_stride = s.log_stride_bytes;
  rq.rq.log_strides = s.log_strides;
  rq.rq.two_bytes = s.two_byte_shift;
}

RqState state_of(const wq::Qp& rq) noexcept {
  if (rq.state == QpState::reset) return RqState::reset;
  return rq.state == QpState::err ? RqState::err : RqState::ready;
}

// Reset and error can be reached from everywhere, also where the driver does not know of an error
// yet: DPDK (mlx5_rx.c, mlx5_rx_err_handle()) asks for reset while mlx5_ib still says "ready".
bool allowed(RqState now, const RqChange& c) noexcept {
  return c.to != RqState::ready || (c.from == now && now != RqState::err);
}

// The client zeroes its doorbell record before the queue is ready again (rdma-core,
// providers/mlx5/verbs.c, mlx5_modify_wq()).
void receive_to_reset(Hca& h, wq::Qp& rq) noexcept {
  h.context.in_error.remove(rq);
  rq.state = QpState::reset;
  rq.rq.ci = 0;
  rq.rq.used = 0;
  rq.broken = false;
  if (h.lint) h.lint->restart(rq);
}

}  // namespace

Result<uint32_t> create_rq(Hca& h, const RqSpec& s, EventSink* sink) {
  if (!h.config.profile.raw_packet) return Error{EOPNOTSUPP, "the adapter receives no frames"};
  if (const char* why = objection(h, s)) return Error{EINVAL, why};
  // The adapter only reads both (Linux drivers/infiniband/hw/mlx5/qp.c, create_user_rq()).
  int rc = memory::probe_range(s.buf, uint64_t{s.wqes} << s.wqe_shift, false);
  if (rc == 0) rc = memory::probe_range(s.record, rq_record_bytes, false);
  if (rc != 0) return Error{-rc, "the memory of the receive queue is not there"};
  uint32_t number = 0;
  wq::Qp* rq = h.rqs.create(number);
  if (rq == nullptr) return Error{ENOMEM, "the adapter has no more receive queues"};
  rq->qpn = Qpn{number};
  rq->sink = sink;
  fill(h, *rq, s);
  rq->recv_cq->users++;
  h.pds.at(s.pd.value())->users++;
  if (h.lint) h.lint->add(*rq);
  return number;
}

int modify_rq(Hca& h, uint32_t rqn, const RqChange& c) noexcept {
  wq::Qp* rq = h.rqs.at(rqn);
  if (rq == nullptr) return refusal::absent("rqn", rqn);
  const RqState now = state_of(*rq);
  if (!allowed(now, c))
    return refusal::state("wq_state", static_cast<uint64_t>(c.to), static_cast<uint64_t>(now));
  if (c.sets_strip_vlan) rq->spec.strip_vlan = c.strip_vlan;
  if (c.to == now) return 0;
  switch (c.to) {
    case RqState::reset:
      receive_to_reset(h, *rq);
      break;
    case RqState::ready:
      rq->state = QpState::rts;
      break;
    case RqState::err:
      wq::to_error(h.context, *rq);
      break;
  }
  return 0;
}

int destroy_rq(Hca& h, uint32_t rqn) {
  wq::Qp* rq = h.rqs.at(rqn);
  if (rq == nullptr) return refusal::absent("rqn", rqn);
  if (rq->places != 0) return refusal::busy("the receive queue", rq->places);
  h.context.in_error.remove(*rq);
  ethernet::eth_give_back(h.eth, *rq);
  rq->recv_cq->users--;
  h.pds.at(rq->spec.pd.value())->users--;
  if (h.lint) h.lint->remove(*rq);
  h.rqs.destroy(rqn);
  return 0;
}

}  // namespace kilim::vhca::hca
