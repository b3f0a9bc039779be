// SPDX-License-Identifier: BSD-3-Clause
// PRM: "2ERR_QP", "2RST_QP", "INIT2INIT_QP", "RTS2RTS_QP", "QUERY_QP" of DevX clients. Adapter's
// lock held.
#include <cstring>

#include "kilim/prm/cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::commands {

namespace {

// A stream that failed may be used again.
Answer reset_stream(Qp& qp, In in) {
  namespace cmd = prm::qp_cmd;
  constexpr std::size_t end = cmd::in_extension + cmd::dci_stream + sizeof(be16);
  if ((read<be32>(in, 8).host() & cmd::has_extension) == 0 || in.size() < end)
    return {Status::bad_input_len, Refusal::input_length};
  if (qp.type != QpType::dci || qp.spec.failing_streams == 0)
    return {Status::bad_param, Refusal::qp_service};
  if (!qp.failed.remove(read<be16>(in, cmd::in_extension + cmd::dci_stream).host()))
    return {Status::bad_param, Refusal::stream_not_failed};
  return {};
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

}  // namespace

// 2ERR_QP and 2RST_QP.
Answer end_qp(Hca& s, In in, Out) {
  Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return {Status::bad_resource, Refusal::no_such_qp};
  QpAttr attr;
  bool reset = read<prm::CmdInHdr>(in).opcode.host() == prm::cmd::qp_2rst;
  attr.state = reset ? QpState::reset : QpState::err;
  if (modify_qp(s, qp->qpn, attr, qp_mask::state) != 0)
    return {Status::bad_res_state, Refusal::qp_state};
  return {};
}

// RTS2RTS_QP: of a queue pair that runs, the UDP source port can be changed, and a DC initiator's
// stream be reset.
Answer change_qp(Hca& s, In in, Out) {
  namespace cmd = prm::qp_cmd;
  Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return {Status::bad_resource, Refusal::no_such_qp};
  if (qp->state != QpState::rts) return {Status::bad_res_state, Refusal::qp_state};
  const uint64_t more = read<be64>(in, cmd::in_mask_95_32).host();
  if (more == cmd::mask_dci_stream && read<be32>(in, cmd::in_mask).host() == 0)
    return reset_stream(*qp, in);
  if (qp->type != QpType::rc && qp->type != QpType::uc)
    return {Status::bad_param, Refusal::qp_service};
  if (read<be32>(in, cmd::in_mask).host() != 0 || (more & ~cmd::mask_udp_sport) != 0 ||
      s.config.profile.lid != 0)
    return {Status::bad_param, Refusal::qp_parameter};
  if (more != 0) qp->attr.path.udp_sport = read<be16>(in, cmd::in_context + cmd::udp_sport).host();
  return {};
}

// INIT2INIT_QP: whether the send queue stops where a signature is wrong.
Answer prepare_qp(Hca& s, In in, Out) {
  namespace cmd = prm::qp_cmd;
  Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return {Status::bad_resource, Refusal::no_such_qp};
  if (qp->state != QpState::init) return {Status::bad_res_state, Refusal::qp_state};
  if (qp->type != QpType::rc) return {Status::bad_param, Refusal::qp_service};
  const uint32_t mask = read<be32>(in, cmd::in_mask).host();
  if ((mask & ~cmd::mask_drain_sigerr) != 0 || !s.config.profile.signature)
    return {Status::bad_param, Refusal::qp_parameter};
  if (mask != 0)
    qp->drains_on_sign_error =
        (read<be32>(in, cmd::in_context + cmd::pd).host() & cmd::drain_sigerr) != 0;
  return {};
}

Answer query_qp(Hca& s, In in, Out out) {
  namespace cmd = prm::qp_cmd;
  constexpr uint8_t migrated = 3;
  const Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return {Status::bad_resource, Refusal::no_such_qp};
  Out context = out.subspan(cmd::out_context, cmd::context_bytes);
  const auto put = [&](std::size_t at, auto v) { std::memcpy(context.data() + at, &v, sizeof v); };
  put(cmd::state, static_cast<uint8_t>(state_codes[static_cast<std::size_t>(qp->state)] << 4));
  put(cmd::service, service_code(qp->type));
  put(cmd::path_migration, static_cast<uint8_t>(migrated << 3));
  put(cmd::pd, be32{qp->spec.pd.value() | (qp->drains_on_sign_error ? cmd::drain_sigerr : 0)});
  put(cmd::sq_counter, be16{qp->sq.ci});
  put(cmd::mtu, static_cast<uint8_t>(qp->attr.path_mtu << 5));
  put(cmd::user_index, be32{qp->spec.uidx});
  put(cmd::remote_qpn, be32{qp->attr.dest_qpn.value()});
  put(cmd::udp_sport, be16{qp->attr.path.udp_sport});
  if (qp->send_cq != nullptr) put(cmd::send_cq, be32{qp->send_cq->cqn.value()});
  return {};
}

}  // namespace kilim::vhca::commands
