// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_QP", "DESTROY_QP", "RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP" of DevX clients; what
// changes a queue pair that runs is qp_commands.cc, what asks one devx_qp_query.cc. Adapter's lock
// held. Contexts are untrusted.
#include <array>
#include <cstring>
#include <optional>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/ports.hh"

namespace kilim::vhca::hca::commands {

namespace {

constexpr uint32_t wqebb_shift = 6, least_rq_shift = 4;

// Services of queue pairs that commands make; those of XRC come by verbs.
std::optional<QpType> service_of(In context) {
  constexpr QpType types[] = {QpType::rc, QpType::uc, QpType::ud};
  constexpr uint32_t initiator = 5;
  const uint32_t st = prm::cap_get(context, prm::qpc::st);
  if (st == initiator) return QpType::dci;
  if (st >= std::size(types)) return std::nullopt;
  return types[st];
}

// The longest data that come in an entry.
uint8_t scattered(uint32_t code, uint32_t of_32, uint32_t of_64) {
  if (code == of_32) return 32;
  return code == of_64 ? 64 : 0;
}

struct QpSizes {
  uint32_t rq_wqes = 0, rq_shift = 0, sq_wqebbs = 0;
  [[nodiscard]] uint64_t bytes() const {
    return (uint64_t{rq_wqes} << rq_shift) + (uint64_t{sq_wqebbs} << wqebb_shift);
  }
};
QpSizes sizes_of(In context, QpType type) {
  namespace q = prm::qpc;
  QpSizes s;
  if (prm::cap_get(context, q::rq_type) == q::own_rq && type != QpType::dci) {
    s.rq_wqes = 1u << prm::cap_get(context, q::log_rq_size);
    s.rq_shift = least_rq_shift + prm::cap_get(context, q::log_rq_stride);
  }
  if (prm::cap_get(context, q::no_sq) == 0)
    s.sq_wqebbs = 1u << prm::cap_get(context, q::log_sq_size);
  return s;
}

QpSpec spec_of(const Hca& h, In context, QpType type, const QpSizes& sizes) {
  namespace q = prm::qpc;
  QpSpec s;
  s.type = type;
  s.pd = Pdn{prm::cap_get(context, q::pd)};
  const Cqn send{prm::cap_get(context, q::cqn_snd)}, recv{prm::cap_get(context, q::cqn_rcv)};
  const bool receives = prm::cap_get(context, q::rq_type) != q::no_rq;
  // What a queue pair does not have needs no completion queue: DPDK 22.11
  // (mlx5_devx_cmd_create_qp()) names none.
  s.send_cq = sizes.sq_wqebbs != 0 ? send : recv;
  s.recv_cq = receives ? recv : send;
  s.sq_wqebbs = sizes.sq_wqebbs;
  s.rq_wqes = sizes.rq_wqes;
  s.rq_wqe_shift = sizes.rq_shift;
  s.uar_page = prm::cap_get(context, q::uar_page);
  s.uidx = prm::cap_get(context, q::user_index);
  if (prm::cap_get(context, q::rq_type) == q::shared_rq)
    s.srqn = prm::cap_get(context, q::srqn_rmpn_xrqn);
  s.max_message = uint64_t{1} << h.config.profile.log_max_msg;
  if (h.config.profile.scatter_to_cqe && type != QpType::ud) {
    s.scatter_received = scattered(prm::cap_get(context, q::cs_res), q::res_32, q::res_64);
    s.scatter_answers = scattered(prm::cap_get(context, q::cs_req), q::req_32, q::req_64);
  }
  return s;
}

// Where the rings and the record lie.
std::optional<std::array<uint32_t, 2>> place(const Hca& h, const Client& client, In in,
                                             const QpSizes& sizes, QpSpec& s) {
  constexpr uint64_t record_bytes = 8;
  namespace c = prm::create_qp_in;
  const In context = in.subspan(prm::qp_cmd::in_context, prm::qp_cmd::context_bytes);
  if (prm::cap_get(in, c::wq_umem_valid) == 0 ||
      prm::cap_get(context, prm::qpc::dbr_umem_valid) == 0)
    return std::nullopt;
  const std::array<uint32_t, 2> umems{prm::cap_get(in, c::wq_umem_id),
                                      prm::cap_get(context, prm::qpc::dbr_umem_id)};
  const auto rings = h.umems.find(
      client.sink, {umems[0], read<be64>(in, c::wq_umem_offset).host(), sizes.bytes()});
  const auto record = h.umems.find(
      client.sink, {umems[1], read<be64>(context, prm::qpc::dbr_addr).host(), record_bytes});
  if (!rings || !record) {
    refusal::absent(rings ? "qpc.dbr_umem_id" : "wq_umem_id", rings ? umems[1] : umems[0]);
    return std::nullopt;
  }
  s.buf = *rings;
  s.record = *record;
  return umems;
}

In context_in(In in) {
  return in.subspan(prm::qp_cmd::in_context, prm::qp_cmd::context_bytes);
}
In path_in(In context) {
  return context.subspan(prm::qpc::primary_address_path, prm::qpc::address_path_bytes);
}

uint32_t access_of(In context) {
  return (prm::cap_get(context, prm::qpc::rre) != 0 ? access::remote_read : 0) |
         (prm::cap_get(context, prm::qpc::rwe) != 0 ? access::remote_write : 0) |
         (prm::cap_get(context, prm::qpc::rae) != 0 ? access::remote_atomic : 0);
}

// The address vector. With "force loopback" the peer is a queue of the same port, whatever it says.
QpAttr::Path address_of(const Hca& h, In path) {
  QpAttr::Path p;
  p.port = static_cast<uint8_t>(prm::cap_get(path, prm::ads::vhca_port_num));
  p.sl = static_cast<uint8_t>(prm::cap_get(path, prm::ads::sl));
  p.is_global = h.config.profile.lid == 0 || prm::cap_get(path, prm::ads::grh) != 0;
  if (prm::cap_get(path, prm::ads::fl) != 0) {
    p.dlid = h.config.profile.lid;
    (void)port_gid(h.addresses, 0, p.dgid);
    return p;
  }
  p.dlid = static_cast<uint16_t>(prm::cap_get(path, prm::ads::rlid));
  p.sgid_index = static_cast<uint8_t>(prm::cap_get(path, prm::ads::src_addr_index));
  p.hop_limit = static_cast<uint8_t>(prm::cap_get(path, prm::ads::hop_limit));
  p.traffic_class = static_cast<uint8_t>(prm::cap_get(path, prm::ads::tclass));
  p.flow_label = prm::cap_get(path, prm::ads::flow_label);
  p.udp_sport = static_cast<uint16_t>(prm::cap_get(path, prm::ads::udp_sport));
  std::memcpy(p.dgid.data(), path.data() + prm::ads::rgid_rip, p.dgid.size());
  std::memcpy(p.dmac.data(), path.data() + prm::ads::rmac, p.dmac.size());
  return p;
}

// What each transition takes from the context; the firmware requires what ib_core's table does.
void to_init(In context, QpType type, QpAttr& a, uint32_t& mask) {
  const In path = path_in(context);
  a.port = static_cast<uint8_t>(prm::cap_get(path, prm::ads::vhca_port_num));
  a.pkey_index = static_cast<uint16_t>(prm::cap_get(path, prm::ads::pkey_index));
  a.access = access_of(context);
  a.qkey = prm::cap_get(context, prm::qpc::q_key);
  mask |= qp_mask::port | qp_mask::pkey_index |
          (type == QpType::ud    ? qp_mask::qkey
           : type == QpType::dci ? 0
                                 : qp_mask::access);
}

// NOLINTNEXTLINE(readability-function-size): what 2RTR_QP has, and where it goes
void to_rtr(const Hca& h, In context, uint32_t optional, QpType type, QpAttr& a, uint32_t& mask) {
  namespace q = prm::qpc;
  if (type == QpType::ud) return;
  a.path_mtu = static_cast<uint8_t>(prm::cap_get(context, q::mtu));
  mask |= qp_mask::path_mtu;
  if (type == QpType::dci) return;  // each request has a way of its own
  a.path = address_of(h, path_in(context));
  a.dest_qpn = Qpn{prm::cap_get(context, q::remote_qpn)};
  a.rq_psn = prm::cap_get(context, q::next_rcv_psn);
  mask |= qp_mask::path | qp_mask::dest_qpn | qp_mask::rq_psn;
  constexpr uint32_t rights = prm::qp_optional::rre | prm::qp_optional::rae | prm::qp_optional::rwe;
  if ((optional & rights) == rights) {
    a.access = access_of(context);
    mask |= qp_mask::access;
  }
  if (type != QpType::rc) return;
  a.max_dest_rd_atomic = static_cast<uint8_t>(1u << prm::cap_get(context, q::log_rra_max));
  a.min_rnr_timer = static_cast<uint8_t>(prm::cap_get(context, q::min_rnr_nak));
  mask |= qp_mask::max_dest_rd_atomic | qp_mask::min_rnr_timer;
}

void to_rts(In context, QpType type, QpAttr& a, uint32_t& mask) {
  namespace q = prm::qpc;
  a.sq_psn = prm::cap_get(context, q::next_send_psn);
  mask |= qp_mask::sq_psn;
  if (type != QpType::rc && type != QpType::dci) return;
  a.timeout = static_cast<uint8_t>(prm::cap_get(path_in(context), prm::ads::ack_timeout));
  a.retry_cnt = static_cast<uint8_t>(prm::cap_get(context, q::retry_count));
  a.rnr_retry = static_cast<uint8_t>(prm::cap_get(context, q::rnr_retry));
  a.max_rd_atomic = static_cast<uint8_t>(1u << prm::cap_get(context, q::log_sra_max));
  mask |= qp_mask::timeout | qp_mask::retry_cnt | qp_mask::rnr_retry | qp_mask::max_rd_atomic;
}

}  // namespace

Answer make_qp(Hca& h, const Client& client, In in, Out out) {
  const In context = context_in(in);
  const auto type = service_of(context);
  if (!type || (*type == QpType::dci && !h.config.profile.dynamic))
    return refused(Status::bad_param, Refusal::qp_service, refusal::lacks("qpc.st"));
  const uint32_t rq_type = prm::cap_get(context, prm::qpc::rq_type);
  const QpSizes sizes = sizes_of(context, *type);
  const bool shares =
      rq_type == prm::qpc::shared_rq && prm::cap_get(context, prm::qpc::srqn_rmpn_xrqn) != 0;
  const bool known = rq_type == prm::qpc::own_rq || shares || rq_type == prm::qpc::no_rq;
  // Without a ring of its own it takes receives from a shared queue alone (UCX's for rendezvous).
  const bool idle = sizes.bytes() == 0 && !shares;
  if (!known || prm::cap_get(in, prm::create_qp_in::extension) != 0 || idle)
    return refused(Status::bad_param, Refusal::qp_parameter,
                   refusal::clash("qpc.rq_type", rq_type, sizes.bytes()));
  QpSpec spec = spec_of(h, context, *type, sizes);
  spec.owner = client.owner;
  const auto umems = place(h, client, in, sizes, spec);
  if (!umems) return noted(Status::bad_resource, Refusal::no_such_umem);
  if (!owns_cq(h, client, spec.send_cq) || !owns_cq(h, client, spec.recv_cq))
    return no_such(Refusal::no_such_cq, "qpc.cqn_snd or qpc.cqn_rcv",
                   owns_cq(h, client, spec.send_cq) ? spec.recv_cq.value() : spec.send_cq.value());
  if (!owns_pd(h, client, spec.pd)) return no_such(Refusal::no_such_pd, "pd", spec.pd.value());
  if (!owns_uar(h, client, spec.uar_page))
    return refused(Status::bad_param, Refusal::no_such_uar,
                   refusal::absent("uar_page", spec.uar_page));
  if (shares && find_own(h.srqs, client, spec.srqn) == nullptr)
    return no_such(Refusal::no_such_queue, "qpc.srqn_rmpn_xrqn", spec.srqn);
  const Result<Qpn> qpn = create_qp(h, spec, client.sink);
  if (!qpn) return refused(Status::bad_param, Refusal::qp_parameter, refusal::of(qpn.error()));
  h.umems.hold({prm::cmd::destroy_qp, qpn->value()}, *umems);
  return made(out, qpn->value());
}

Answer destroy_made_qp(Hca& h, In in, Out) {
  const uint32_t number = number_in(in);
  if (h.qps.at(number) == nullptr) return no_such(Refusal::no_such_qp, "qpn", number_in(in));
  if (destroy_qp(h, Qpn{number}) != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  h.umems.let_go({prm::cmd::destroy_qp, number});
  return {};
}

// RST2INIT_QP, INIT2RTR_QP, RTR2RTS_QP.
Answer step_qp(Hca& h, In in, Out) {
  const wq::Qp* qp = h.qps.at(number_in(in));
  if (qp == nullptr) return no_such(Refusal::no_such_qp, "qpn", number_in(in));
  const In context = context_in(in);
  QpAttr a;
  uint32_t mask = qp_mask::state | qp_mask::cur_state;
  switch (read<prm::CmdInHdr>(in).opcode.host()) {
    case prm::cmd::qp_rst2init:
      a.cur_state = QpState::reset;
      a.state = QpState::init;
      to_init(context, qp->type, a, mask);
      break;
    case prm::cmd::qp_init2rtr:
      a.cur_state = QpState::init;
      a.state = QpState::rtr;
      to_rtr(h, context, read<be32>(in, prm::qp_cmd::in_mask).host(), qp->type, a, mask);
      break;
    default:
      a.cur_state = QpState::rtr;
      a.state = QpState::rts;
      to_rts(context, qp->type, a, mask);
  }
  if (qp->state != a.cur_state) return wrong_state(*qp, a.state);
  if (modify_qp(h, qp->qpn, a, mask & ~qp_mask::cur_state) != 0)
    return noted(Status::bad_param, Refusal::qp_parameter);
  return {};
}

}  // namespace kilim::vhca::hca::commands
