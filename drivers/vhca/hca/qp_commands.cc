// SPDX-License-Identifier: BSD-3-Clause
// PRM: "2ERR_QP", "2RST_QP", "INIT2INIT_QP", "RTS2RTS_QP" of DevX clients; what asks one is
// devx_qp_query.cc. Adapter's lock held.
#include "kilim/prm/cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

namespace {

// A stream that failed may be used again.
Answer reset_stream(wq::Qp& qp, In in) {
  namespace cmd = prm::qp_cmd;
  constexpr std::size_t end = cmd::in_extension + cmd::dci_stream + sizeof(be16);
  if ((read<be32>(in, 8).host() & cmd::has_extension) == 0 || in.size() < end)
    return refused(Status::bad_input_len, Refusal::input_length,
                   refusal::bytes("the input with qpc_ext", in.size(), end));
  if (qp.type != QpType::dci || qp.spec.failing_streams == 0)
    return refused(Status::bad_param, Refusal::qp_service, refusal::lacks("a DCI stream"));
  if (!qp.failed.remove(read<be16>(in, cmd::in_extension + cmd::dci_stream).host()))
    return refused(Status::bad_param, Refusal::stream_not_failed,
                   refusal::absent("a failed stream: qpc_ext.dci_stream_channel_id",
                                   read<be16>(in, cmd::in_extension + cmd::dci_stream).host()));
  return {};
}

}  // namespace

// 2ERR_QP and 2RST_QP.
Answer end_qp(Hca& s, In in, Out) {
  wq::Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return no_such(Refusal::no_such_qp, "qpn", number_in(in));
  QpAttr attr;
  bool reset = read<prm::CmdInHdr>(in).opcode.host() == prm::cmd::qp_2rst;
  attr.state = reset ? QpState::reset : QpState::err;
  if (modify_qp(s, qp->qpn, attr, qp_mask::state) != 0)
    return noted(Status::bad_res_state, Refusal::qp_state);
  return {};
}

// RTS2RTS_QP: of a queue pair that runs, the UDP source port can be changed, and a DC initiator's
// stream be reset.
Answer change_qp(Hca& s, In in, Out) {
  namespace cmd = prm::qp_cmd;
  wq::Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return no_such(Refusal::no_such_qp, "qpn", number_in(in));
  if (qp->state != QpState::rts) return wrong_state(*qp, QpState::rts);
  const uint64_t more = read<be64>(in, cmd::in_mask_95_32).host();
  if (more == cmd::mask_dci_stream && read<be32>(in, cmd::in_mask).host() == 0)
    return reset_stream(*qp, in);
  if (qp->type != QpType::rc && qp->type != QpType::uc)
    return refused(Status::bad_param, Refusal::qp_service,
                   refusal::clash("qpc.st", static_cast<uint64_t>(qp->type), more));
  if (read<be32>(in, cmd::in_mask).host() != 0 || (more & ~cmd::mask_udp_sport) != 0 ||
      s.config.profile.lid != 0)
    return refused(Status::bad_param, Refusal::qp_parameter,
                   refusal::bits("opt_param_mask_95_32", more, cmd::mask_udp_sport));
  if (more != 0) qp->attr.path.udp_sport = read<be16>(in, cmd::in_context + cmd::udp_sport).host();
  return {};
}

// INIT2INIT_QP: whether the send queue stops where a signature is wrong.
Answer prepare_qp(Hca& s, In in, Out) {
  namespace cmd = prm::qp_cmd;
  wq::Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return no_such(Refusal::no_such_qp, "qpn", number_in(in));
  if (qp->state != QpState::init) return wrong_state(*qp, QpState::init);
  if (qp->type != QpType::rc)
    return refused(Status::bad_param, Refusal::qp_service,
                   refusal::clash("qpc.st", static_cast<uint64_t>(qp->type), 0));
  const uint32_t mask = read<be32>(in, cmd::in_mask).host();
  if ((mask & ~cmd::mask_drain_sigerr) != 0 || !s.config.profile.signature)
    return refused(Status::bad_param, Refusal::qp_parameter,
                   refusal::bits("opt_param_mask", mask,
                                 s.config.profile.signature ? cmd::mask_drain_sigerr : 0));
  if (mask != 0)
    qp->drains_on_sign_error =
        (read<be32>(in, cmd::in_context + cmd::pd).host() & cmd::drain_sigerr) != 0;
  return {};
}

}  // namespace kilim::vhca::hca::commands
