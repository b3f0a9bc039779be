// SPDX-License-Identifier: BSD-3-Clause
// PRM: "QUERY_QP": a queue pair's context as it was created and stands now, of commands and of
// verbs. Called by the table of commands alone; changes nothing. Adapter's lock held.
#include <bit>
#include <utility>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/qp_context.hh"
#include "vhca/hca/commands.hh"

namespace kilim::vhca::hca::commands {

namespace {

using Fields = std::initializer_list<std::pair<prm::CapField, uint32_t>>;

void set_all(Out context, Fields fields) {
  for (const auto& [field, value] : fields) prm::cap_set(context, field, value);
}

uint32_t log_of(uint32_t power_of_two) {
  return power_of_two != 0 ? static_cast<uint32_t>(std::countr_zero(power_of_two)) : 0;
}

// In the order of QpState, and of QpType.
constexpr uint8_t state_codes[] = {0, 1, 2, 3, 5, 4, 6};

uint8_t service_code(QpType type) {
  switch (type) {
    case QpType::rc:
      return 0;
    case QpType::uc:
      return 1;
    case QpType::ud:
      return 2;
    case QpType::dci:
      return 5;
    default:
      return 3;  // XRC; a raw packet queue's is not asked for
  }
}

void tell_rings(const Hca& h, Out context, const wq::Qp& qp) {
  namespace q = prm::qpc;
  constexpr uint32_t least_rq_shift = 4;
  const bool own = qp.rq.wqes != 0;
  set_all(context, {{q::pd, qp.spec.pd.value()},
                    {q::uar_page, qp.spec.uar_page},
                    {q::user_index, qp.spec.uidx},
                    {q::rq_type, own                 ? q::own_rq
                                 : qp.srq != nullptr ? q::shared_rq
                                                     : q::no_rq},
                    {q::srqn_rmpn_xrqn, qp.spec.srqn},
                    {q::no_sq, qp.sq.wqebbs == 0},
                    {q::log_sq_size, log_of(qp.sq.wqebbs)},
                    {q::log_rq_size, log_of(qp.rq.wqes)},
                    {q::log_rq_stride, own ? qp.rq.shift - least_rq_shift : 0}});
  if (qp.send_cq != nullptr) prm::cap_set(context, q::cqn_snd, qp.send_cq->cqn.value());
  if (qp.recv_cq != nullptr) prm::cap_set(context, q::cqn_rcv, qp.recv_cq->cqn.value());
  const auto umems = h.umems.held({prm::cmd::destroy_qp, qp.qpn.value()});
  if (umems.size() != 2) return;
  set_all(context, {{q::dbr_umem_valid, 1}, {q::dbr_umem_id, umems[1]}});
  put(context, q::dbr_addr, be64{h.umems.offset(umems[1], qp.spec.record)});
}

void tell_path(Out path, const QpAttr& a) {
  const QpAttr::Path& p = a.path;
  set_all(path, {{prm::ads::vhca_port_num, a.port},
                 {prm::ads::pkey_index, a.pkey_index},
                 {prm::ads::ack_timeout, a.timeout},
                 {prm::ads::grh, p.is_global},
                 {prm::ads::rlid, p.dlid},
                 {prm::ads::sl, p.sl},
                 {prm::ads::src_addr_index, p.sgid_index},
                 {prm::ads::hop_limit, p.hop_limit},
                 {prm::ads::tclass, p.traffic_class},
                 {prm::ads::flow_label, p.flow_label},
                 {prm::ads::udp_sport, p.udp_sport}});
  put(path, prm::ads::rgid_rip, p.dgid);
  put(path, prm::ads::rmac, p.dmac);
}

// A context keeps logarithms of how many answers may be under way.
void tell_attributes(Out context, const wq::Qp& qp) {
  namespace q = prm::qpc;
  const QpAttr& a = qp.attr;
  const uint8_t received = qp.spec.scatter_received, answers = qp.spec.scatter_answers;
  set_all(context, {{q::mtu, a.path_mtu},
                    {q::remote_qpn, a.dest_qpn.value()},
                    {q::q_key, a.qkey},
                    {q::next_send_psn, a.sq_psn},
                    {q::next_rcv_psn, a.rq_psn},
                    {q::retry_count, a.retry_cnt},
                    {q::rnr_retry, a.rnr_retry},
                    {q::min_rnr_nak, a.min_rnr_timer},
                    {q::log_sra_max, log_of(std::bit_floor(uint32_t{a.max_rd_atomic}))},
                    {q::log_rra_max, log_of(std::bit_floor(uint32_t{a.max_dest_rd_atomic}))},
                    {q::rre, (a.access & access::remote_read) != 0},
                    {q::rwe, (a.access & access::remote_write) != 0},
                    {q::rae, (a.access & access::remote_atomic) != 0},
                    {q::cs_res, received == 64   ? q::res_64
                                : received == 32 ? q::res_32
                                                 : 0},
                    {q::cs_req, answers == 64   ? q::req_64
                                : answers == 32 ? q::req_32
                                                : 0}});
}

}  // namespace

Answer query_qp(Hca& h, In in, Out out) {
  namespace q = prm::qpc;
  constexpr uint32_t migrated = 3;
  const wq::Qp* qp = h.qps.at(number_in(in));
  if (qp == nullptr) return no_such(Refusal::no_such_qp, "qpn", number_in(in));
  const Out context = out.subspan(prm::qp_cmd::out_context, prm::qp_cmd::context_bytes);
  set_all(context, {{q::state, state_codes[static_cast<std::size_t>(qp->state)]},
                    {q::st, service_code(qp->type)},
                    {q::pm_state, migrated},
                    {q::drain_sigerr, qp->drains_on_sign_error},
                    {q::hw_sq_wqebb_counter, qp->sq.ci}});
  tell_rings(h, context, *qp);
  tell_attributes(context, *qp);
  tell_path(context.subspan(q::primary_address_path, q::address_path_bytes), qp->attr);
  return {};
}

}  // namespace kilim::vhca::hca::commands
