// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_SQ", "MODIFY_SQ", "DESTROY_SQ", "QUERY_SQ". To the engine a send queue of its own is
// a raw packet queue pair that receives nothing. Adapter's lock held.
#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/devx_wq.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

namespace {

constexpr uint32_t sq_wqebb_shift = 6;

// Hairpin queues, paced ones and those that never reach the wire are not offered.
bool sq_fits(const Profile& p, In context) {
  namespace wq = prm::wq_context;
  const In w = context.subspan(wq::at);
  const FieldRange ranges[] = {
      {"sqc.hairpin", prm::sqc::hairpin, 0, 0},
      {"sqc.non_wire", prm::sqc::non_wire, 0, 0},
      {"sqc.packet_pacing_rate_limit_index", prm::sqc::packet_pacing_rate_limit_index, 0, 0},
      {"sqc.state", prm::sqc::state, prm::queue_cmd::state_reset, prm::queue_cmd::state_reset},
      {"sqc.allow_swp", prm::sqc::allow_swp, 0, p.software_parser},
      {"sqc.allow_multi_pkt_send_wqe", prm::sqc::allow_multi_pkt_send_wqe, 0, p.multi_packet_send}};
  const FieldRange ring[] = {
      {"wq.wq_type", wq::wq_type, wq::cyclic, wq::cyclic},
      {"wq.log_wq_stride", wq::log_wq_stride, sq_wqebb_shift, sq_wqebb_shift},
      {"wq.log_wq_sz", wq::log_wq_sz, 0, log_of(p.max_qp_wr)}};
  if (!p.raw_packet) refusal::lacks("a send queue of frames");
  return p.raw_packet && lie_within(context, ranges) && lie_within(w, ring);
}

wq::Qp* find_sq(const Hca& h, uint32_t number) {
  wq::Qp* qp = h.qps.at(number);
  return qp != nullptr && qp->type == QpType::raw_packet && qp->rq.wqes == 0 && qp->sq.wqebbs != 0
             ? qp
             : nullptr;
}

uint32_t sq_state(const wq::Qp& sq) {
  if (sq.state == QpState::reset) return prm::queue_cmd::state_reset;
  const bool failed = sq.state == QpState::err || sq.state == QpState::sqe;
  return failed ? prm::queue_cmd::state_error : prm::queue_cmd::state_ready;
}

// The states of a queue pair that lie between.
int start(Hca& h, Qpn qpn) {
  constexpr QpState way[] = {QpState::init, QpState::rtr, QpState::rts};
  for (const QpState to : way) {
    QpAttr attr;
    attr.state = to;
    attr.port = 1;
    const uint32_t mask = qp_mask::state | (to == QpState::init ? qp_mask::port : 0);
    if (int rc = modify_qp(h, qpn, attr, mask); rc != 0) return rc;
  }
  return 0;
}

}  // namespace

Answer make_sq(Hca& h, const Client& client, In in, Out out) {
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const In wq = context.subspan(prm::wq_context::at);
  if (!sq_fits(h.config.profile, context)) return noted(Status::bad_param, Refusal::sq_context);
  if (prm::cap_get(context, prm::sqc::tis_lst_sz) != 1 ||
      find_own(h.tises, client, prm::cap_get(context, prm::sqc::tis_num_0)) == nullptr)
    return no_such(Refusal::no_such_tis, "sqc.tis_num_0",
                   prm::cap_get(context, prm::sqc::tis_num_0));
  const auto place = find_wq(h, client, wq, sq_wqebb_shift);
  if (!place) return noted(Status::bad_resource, Refusal::no_such_umem);
  QpSpec spec;
  spec.type = QpType::raw_packet;
  spec.pd = Pdn{prm::cap_get(wq, prm::wq_context::pd)};
  spec.send_cq = spec.recv_cq = Cqn{prm::cap_get(context, prm::sqc::cqn)};
  if (!owns_cq(h, client, spec.send_cq))
    return no_such(Refusal::no_such_cq, "cqn", spec.send_cq.value());
  if (!owns_pd(h, client, spec.pd)) return no_such(Refusal::no_such_pd, "pd", spec.pd.value());
  spec.sq_buf = place->ring;
  spec.record = place->record;
  spec.sq_wqebbs = 1u << prm::cap_get(wq, prm::wq_context::log_wq_sz);
  spec.uar_page = prm::cap_get(wq, prm::wq_context::uar_page);
  spec.uidx = prm::cap_get(context, prm::sqc::user_index);
  if (!owns_uar(h, client, spec.uar_page))
    return refused(Status::bad_param, Refusal::no_such_uar,
                   refusal::absent("uar_page", spec.uar_page));
  spec.software_parser = prm::cap_get(context, prm::sqc::allow_swp) != 0;
  spec.many_packets = prm::cap_get(context, prm::sqc::allow_multi_pkt_send_wqe) != 0;
  spec.owner = client.owner;
  const Result<Qpn> sqn = create_qp(h, spec, client.sink);
  if (!sqn) return refused(Status::bad_param, Refusal::sq_context, refusal::of(sqn.error()));
  h.umems.hold({prm::cmd::destroy_sq, sqn->value()}, place->umems);
  h.tises.at(prm::cap_get(context, prm::sqc::tis_num_0))->users++;
  h.sq_tis[sqn->value()] = prm::cap_get(context, prm::sqc::tis_num_0);
  return made(out, sqn->value());
}

// To reset and to error from everywhere: DPDK 22.11 (drivers/net/mlx5/mlx5_devx.c,
// mlx5_txq_devx_modify()) says "ready" of a queue that has failed.
Answer change_sq(Hca& h, In in, Out) {
  const wq::Qp* sq = find_sq(h, number_in(in));
  if (sq == nullptr) return no_such(Refusal::no_such_queue, "sqn", number_in(in));
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const uint32_t to = prm::cap_get(context, prm::sqc::state), now = sq_state(*sq);
  if (read<be64>(in, prm::queue_cmd::modify_bitmask).host() != 0)
    return refused(
        Status::bad_param, Refusal::sq_context,
        refusal::equal("modify_bitmask", read<be64>(in, prm::queue_cmd::modify_bitmask).host(), 0));
  QpAttr attr;
  int rc = -1;
  if (to == prm::queue_cmd::state_ready) {
    const bool from_here = prm::cap_get(in, prm::queue_cmd::state_now) == now;
    if (from_here && now == to) return {};
    if (from_here && now == prm::queue_cmd::state_reset) rc = start(h, sq->qpn);
  } else if (to == prm::queue_cmd::state_reset || to == prm::queue_cmd::state_error) {
    attr.state = to == prm::queue_cmd::state_reset ? QpState::reset : QpState::err;
    if (now == prm::queue_cmd::state_reset && to == prm::queue_cmd::state_reset) return {};
    rc = modify_qp(h, sq->qpn, attr, qp_mask::state);
  }
  if (rc != 0)
    return refused(Status::bad_res_state, Refusal::queue_state,
                   refusal::state("sqc.state", to, now));
  return {};
}

Answer end_sq(Hca& h, In in, Out) {
  const uint32_t number = number_in(in);
  if (find_sq(h, number) == nullptr) return no_such(Refusal::no_such_queue, "sqn", number_in(in));
  if (destroy_qp(h, Qpn{number}) != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  h.umems.let_go({prm::cmd::destroy_sq, number});
  if (const auto at = h.sq_tis.find(number); at != h.sq_tis.end()) {
    h.tises.at(at->second)->users--;
    h.sq_tis.erase(at);
  }
  return {};
}

Answer query_sq(Hca& h, In in, Out out) {
  const wq::Qp* sq = find_sq(h, number_in(in));
  if (sq == nullptr) return no_such(Refusal::no_such_queue, "sqn", number_in(in));
  const Out context = out.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  prm::cap_set(context, prm::sqc::state, sq_state(*sq));
  prm::cap_set(context, prm::sqc::user_index, sq->spec.uidx);
  prm::cap_set(context, prm::sqc::cqn, sq->send_cq->cqn.value());
  prm::cap_set(context, prm::sqc::allow_swp, sq->spec.software_parser);
  prm::cap_set(context, prm::sqc::allow_multi_pkt_send_wqe, sq->spec.many_packets);
  prm::cap_set(context, prm::sqc::min_wqe_inline_mode, h.config.profile.min_inline);
  if (const auto at = h.sq_tis.find(sq->qpn.value()); at != h.sq_tis.end()) {
    prm::cap_set(context, prm::sqc::tis_lst_sz, 1);
    prm::cap_set(context, prm::sqc::tis_num_0, at->second);
  }
  WqShape shape{{prm::cmd::destroy_sq, sq->qpn.value()}};
  shape.type = prm::wq_context::cyclic;
  shape.pd = sq->spec.pd.value();
  shape.uar_page = sq->spec.uar_page;
  shape.wqes = sq->sq.wqebbs;
  shape.log_stride = sq_wqebb_shift;
  shape.ring = Va{sq->sq.base};
  shape.record = sq->spec.record;
  tell_wq(h, context.subspan(prm::wq_context::at), shape);
  return {};
}

}  // namespace kilim::vhca::hca::commands
