// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_DCT", "QUERY_DCT", "DESTROY_DCT" of DevX clients: a target of dynamic connections,
// which is ready at once. Adapter's lock held.
#include <utility>

#include "kilim/prm/qp_context.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/ports.hh"

namespace kilim::vhca::hca::commands {

namespace {

// From reset to ready to receive; a target has no further state.
int open_target(Hca& h, Qpn qpn, In context) {
  namespace d = prm::dctc;
  QpAttr a;
  a.state = QpState::init;
  a.port = static_cast<uint8_t>(prm::cap_get(context, d::port));
  a.pkey_index = static_cast<uint16_t>(prm::cap_get(context, d::pkey_index));
  a.access = (prm::cap_get(context, d::rre) != 0 ? access::remote_read : 0) |
             (prm::cap_get(context, d::rwe) != 0 ? access::remote_write : 0) |
             (prm::cap_get(context, d::rae) != 0 ? access::remote_atomic : 0);
  const uint32_t to_init = qp_mask::state | qp_mask::port | qp_mask::pkey_index | qp_mask::access;
  if (int rc = modify_qp(h, qpn, a, to_init); rc != 0) return rc;
  a.state = QpState::rtr;
  a.path.port = a.port;
  a.path.is_global = h.config.profile.lid == 0;
  a.path.sgid_index = static_cast<uint8_t>(prm::cap_get(context, d::my_addr_index));
  a.path.hop_limit = static_cast<uint8_t>(prm::cap_get(context, d::hop_limit));
  a.path.traffic_class = static_cast<uint8_t>(prm::cap_get(context, d::tclass));
  a.path.flow_label = prm::cap_get(context, d::flow_label);
  a.path_mtu = static_cast<uint8_t>(prm::cap_get(context, d::mtu));
  a.min_rnr_timer = static_cast<uint8_t>(prm::cap_get(context, d::min_rnr_nak));
  return modify_qp(h, qpn, a,
                   qp_mask::state | qp_mask::path | qp_mask::path_mtu | qp_mask::min_rnr_timer);
}

}  // namespace

Answer make_dct(Hca& h, const Client& client, In in, Out out) {
  namespace d = prm::dctc;
  if (!h.config.profile.dynamic)
    return refused(Status::bad_param, Refusal::qp_service, refusal::lacks("a DC target"));
  const In context = in.subspan(d::at, d::bytes);
  QpSpec s;
  s.type = QpType::dct;
  s.pd = Pdn{prm::cap_get(context, d::pd)};
  s.recv_cq = s.send_cq = Cqn{prm::cap_get(context, d::cqn)};
  s.srqn = prm::cap_get(context, d::srqn_xrqn);
  if (!owns_cq(h, client, s.recv_cq)) return no_such(Refusal::no_such_cq, "cqn", s.recv_cq.value());
  if (!owns_pd(h, client, s.pd)) return no_such(Refusal::no_such_pd, "pd", s.pd.value());
  if (find_own(h.srqs, client, s.srqn) == nullptr)
    return no_such(Refusal::no_such_queue, "dctc.srqn_xrqn", s.srqn);
  s.uidx = prm::cap_get(context, d::user_index);
  s.dc_key = read<be64>(context, d::dc_access_key).host();
  s.max_message = uint64_t{1} << h.config.profile.log_max_msg;
  if (h.config.profile.scatter_to_cqe) {
    const uint32_t code = prm::cap_get(context, d::cs_res);
    s.scatter_received = code == prm::qpc::res_32 ? 32 : code == prm::qpc::res_64 ? 64 : 0;
  }
  s.owner = client.owner;
  const Result<Qpn> qpn = create_qp(h, s, client.sink);
  if (!qpn) return refused(Status::bad_param, Refusal::qp_parameter, refusal::of(qpn.error()));
  if (open_target(h, *qpn, context) != 0) {
    (void)destroy_qp(h, *qpn);
    return noted(Status::bad_param, Refusal::qp_parameter);
  }
  return made(out, qpn->value());
}

Answer query_dct(Hca& h, In in, Out out) {
  namespace d = prm::dctc;
  const wq::Qp* qp = h.qps.at(number_in(in));
  if (qp == nullptr || qp->type != QpType::dct)
    return no_such(Refusal::no_such_qp, "dctn", number_in(in));
  const Out context = out.subspan(d::at, d::bytes);
  const QpAttr& a = qp->attr;
  const uint8_t scattered = qp->spec.scatter_received;
  const std::pair<prm::CapField, uint32_t> fields[] = {
      {d::user_index, qp->spec.uidx},
      {d::cqn, qp->recv_cq->cqn.value()},
      {d::rre, (a.access & access::remote_read) != 0},
      {d::rwe, (a.access & access::remote_write) != 0},
      {d::rae, (a.access & access::remote_atomic) != 0},
      {d::cs_res, scattered == 64   ? prm::qpc::res_64
                  : scattered == 32 ? prm::qpc::res_32
                                    : 0},
      {d::min_rnr_nak, a.min_rnr_timer},
      {d::srqn_xrqn, qp->spec.srqn},
      {d::pd, qp->spec.pd.value()},
      {d::tclass, a.path.traffic_class},
      {d::flow_label, a.path.flow_label},
      {d::mtu, a.path_mtu},
      {d::port, a.port},
      {d::pkey_index, a.pkey_index},
      {d::my_addr_index, a.path.sgid_index},
      {d::hop_limit, a.path.hop_limit},
  };
  for (const auto& [field, value] : fields) prm::cap_set(context, field, value);
  put(context, d::dc_access_key, be64{qp->spec.dc_key});
  return {};
}

Answer end_dct(Hca& h, In in, Out) {
  const wq::Qp* qp = h.qps.at(number_in(in));
  if (qp == nullptr || qp->type != QpType::dct)
    return no_such(Refusal::no_such_qp, "dctn", number_in(in));
  if (destroy_qp(h, qp->qpn) != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  return {};
}

}  // namespace kilim::vhca::hca::commands
