// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Command Interface". Firmware commands of DevX clients: capabilities, memory keys,
// protection domains, queue pairs. Bytes are the client's; what is wrong becomes a status and a
// syndrome, never an error of ours. Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/journal.hh"
#include "vhca/hca/caps.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/modify_qp.hh"
#include "vhca/hca/state.hh"

namespace kilim::vhca {

namespace {

using prm::cmd::Status;

// One number for each place where a command is refused.
enum class Refusal : uint32_t {
  none = 0,
  unknown_opcode = 0x56a001,
  input_length = 0x56a002,
  output_length = 0x56a003,
  cap_group = 0x56a004,
  umem_key = 0x56a005,
  list_length = 0x56a006,
  no_such_pd = 0x56a007,
  key_context = 0x56a008,
  no_more_keys = 0x56a009,
  no_such_key = 0x56a00a,
  no_such_qp = 0x56a00b,
  qp_state = 0x56a00c,
  no_more_pds = 0x56a00d,
  pd_in_use = 0x56a00e,
  qp_parameter = 0x56a00f,
  qp_service = 0x56a010,
  stream_not_failed = 0x56a011,
  object_type = 0x56a012,
  no_more_objects = 0x56a013,
  no_such_object = 0x56a014,
  no_signatures = 0x56a015,
  psv_count = 0x56a016,
  no_more_psvs = 0x56a017,
  no_such_psv = 0x56a018,
  reserved = 0x56a019,
};

struct Answer {
  Status status = Status::ok;
  Refusal why = Refusal::none;
};

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

template <typename T>
T read(In in, std::size_t at = 0) {
  T v;
  std::memcpy(&v, in.data() + at, sizeof v);
  return v;
}

Answer query_hca_cap(HcaState& s, In in, Out out) {
  constexpr std::size_t header = 16;
  // Maximum and current values are the same: nothing is negotiated.
  auto group = static_cast<uint16_t>(read<prm::CmdInHdr>(in).op_mod.host() >> 1);
  std::byte caps[prm::cmd::hca_cap_bytes]{};
  if (!fill_caps(s.config.profile, group, caps)) return {Status::bad_param, Refusal::cap_group};
  std::memcpy(out.data() + header, caps, sizeof caps);
  return {};
}

Answer create_mkey(HcaState& s, In in, Out out) {
  auto cmd = read<prm::CreateMkeyIn>(in);
  if (cmd.flags.host() != 0) return {Status::bad_param, Refusal::umem_key};
  const bool reserves = cmd.op_mod.host() != 0 || cmd.reserved_8.host() != 0 ||
                        std::any_of(std::begin(cmd.reserved_50), std::end(cmd.reserved_50),
                                    [](be32 w) { return w.host() != 0; });
  if (reserves) return {Status::bad_param, Refusal::reserved};
  std::size_t list = std::size_t{cmd.translations_octword_actual_size.host()} * 16;
  if (list > in.size() - sizeof cmd) return {Status::bad_input_len, Refusal::list_length};
  if (!s.pd_exists(Pdn{prm::mkc::pd::get(cmd.mkc)}))
    return {Status::bad_resource, Refusal::no_such_pd};
  Result<Mkey*> key = s.keys.create_mkey(cmd.mkc, in.subspan(sizeof cmd, list), s.config.profile);
  if (!key && key.error().code == ENOMEM) return {Status::no_resources, Refusal::no_more_keys};
  if (!key) return {Status::bad_param, Refusal::key_context};
  prm::CreateMkeyOut made{};
  made.mkey_index = be32{(*key)->index()};
  std::memcpy(out.data(), &made, sizeof made);
  return {};
}

Answer destroy_mkey(HcaState& s, In in, Out) {
  uint32_t index = read<be32>(in, 8).host() & 0xffffff;
  if (s.keys.destroy(MkeyIndex{index}) != 0) return {Status::bad_resource, Refusal::no_such_key};
  return {};
}

prm::Mkc context_of(const Mkey& m) {
  namespace mkc = prm::mkc;
  constexpr uint32_t modes[] = {mkc::access_mode_mtt, mkc::access_mode_klm, mkc::access_mode_ksm};
  auto may = [&](uint8_t right) { return uint32_t{(m.rights & right) != 0}; };
  prm::Mkc c{};
  mkc::free::set(c, uint32_t{m.free});
  mkc::umr_en::set(c, uint32_t{m.umr_enabled});
  mkc::access_mode_1_0::set(c, modes[static_cast<std::size_t>(m.mode)]);
  mkc::atomic::set(c, may(prm::mkey::atomic));
  mkc::remote_write::set(c, may(prm::mkey::remote_write));
  mkc::remote_read::set(c, may(prm::mkey::remote_read));
  mkc::local_write::set(c, may(prm::mkey::local_write));
  mkc::local_read::set(c, may(prm::mkey::local_read));
  mkc::qpn::set(c, m.qpn);
  mkc::tag::set(c, uint32_t{m.tag()});
  mkc::length64::set(c, uint32_t{m.length64});
  mkc::en_rinval::set(c, uint32_t{m.remote_invalidates});
  mkc::pd::set(c, m.pd.value());
  mkc::log_entity_size::set(c, uint32_t{m.log_entity_size});
  c.start_addr = be64{m.start};
  c.len = be64{m.len};
  c.translations_octword_size = be32{m.capacity};
  mkc::bsf_en::set(c, uint32_t{m.signature != nullptr});
  c.bsf_octword_size = be32{m.signature != nullptr ? prm::bsf::octowords : 0};
  return c;
}

Answer query_mkey(HcaState& s, In in, Out out) {
  constexpr std::size_t header = 16;
  const Mkey* key = s.keys.at(read<be32>(in, 8).host() & 0xffffff);
  if (key == nullptr) return {Status::bad_resource, Refusal::no_such_key};
  prm::Mkc c = context_of(*key);
  std::memcpy(out.data() + header, &c, sizeof c);
  return {};
}

Answer create_psv(HcaState& s, In in, Out out) {
  if (!s.config.profile.signature) return {Status::bad_op, Refusal::no_signatures};
  const uint32_t count_pd = read<prm::CreatePsvIn>(in).count_pd.host();
  const Pdn pd{count_pd & 0xffffff};
  if (count_pd >> 28 != 1) return {Status::bad_param, Refusal::psv_count};
  if (!s.pd_exists(pd)) return {Status::bad_resource, Refusal::no_such_pd};
  uint32_t number = 0;
  Psv* psv = s.keys.psvs().create(number);
  if (psv == nullptr) return {Status::no_resources, Refusal::no_more_psvs};
  psv->pd = pd;
  prm::CreatePsvOut made{};
  made.psv[0] = be32{number};
  std::memcpy(out.data(), &made, sizeof made);
  return {};
}

Answer destroy_psv(HcaState& s, In in, Out) {
  const uint32_t number = read<be32>(in, 8).host() & 0xffffff;
  if (s.keys.psvs().at(number) == nullptr) return {Status::bad_resource, Refusal::no_such_psv};
  s.keys.psvs().destroy(number);
  return {};
}

// 2ERR_QP and 2RST_QP.
Answer end_qp(HcaState& s, In in, Out) {
  Qp* qp = s.qps.at(read<be32>(in, 8).host() & 0xffffff);
  if (qp == nullptr) return {Status::bad_resource, Refusal::no_such_qp};
  QpAttr attr;
  bool reset = read<prm::CmdInHdr>(in).opcode.host() == prm::cmd::qp_2rst;
  attr.state = reset ? QpState::reset : QpState::err;
  if (modify_qp(s, *qp, attr, qp_mask::state) != 0)
    return {Status::bad_res_state, Refusal::qp_state};
  return {};
}

Answer alloc_pd(HcaState& s, In, Out out) {
  uint32_t number = 0;
  if (s.pds.create(number) == nullptr) return {Status::no_resources, Refusal::no_more_pds};
  const be32 pd{number};
  std::memcpy(out.data() + 8, &pd, sizeof pd);
  return {};
}

Answer dealloc_pd(HcaState& s, In in, Out) {
  const uint32_t number = read<be32>(in, 8).host() & 0xffffff;
  const Pd* pd = s.pds.at(number);
  if (pd == nullptr) return {Status::bad_resource, Refusal::no_such_pd};
  if (pd->users != 0 || s.keys.uses(Pdn{number}))
    return {Status::bad_res_state, Refusal::pd_in_use};
  s.pds.destroy(number);
  return {};
}

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

// RTS2RTS_QP: of a queue pair that runs, the UDP source port can be changed, and a DC initiator's
// stream be reset.
Answer change_qp(HcaState& s, In in, Out) {
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
Answer prepare_qp(HcaState& s, In in, Out) {
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

Answer query_qp(HcaState& s, In in, Out out) {
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

// The object that says: what goes to this address goes where that queue's peer is. Nothing here
// follows from it; a card shares the congestion state.
Answer create_object(HcaState& s, In in, Out out) {
  if (read<prm::CmdInHdr>(in).op_mod.host() != prm::cmd::object_av_qp_mapping ||
      !s.config.profile.dynamic)
    return {Status::bad_param, Refusal::object_type};
  if (in.size() < prm::cmd::av_qp_mapping_bytes)
    return {Status::bad_input_len, Refusal::input_length};
  const uint32_t qpn = read<be32>(in, prm::cmd::av_qp_mapping_qpn).host();
  if (s.qps.at(qpn & 0xffffff) == nullptr) return {Status::bad_resource, Refusal::no_such_qp};
  uint32_t number = 0;
  if (s.mappings.create(number) == nullptr) return {Status::no_resources, Refusal::no_more_objects};
  const be32 id{number};
  std::memcpy(out.data() + 8, &id, sizeof id);
  return {};
}

Answer destroy_object(HcaState& s, In in, Out) {
  const uint32_t number = read<be32>(in, 8).host();
  if (read<prm::CmdInHdr>(in).op_mod.host() != prm::cmd::object_av_qp_mapping)
    return {Status::bad_param, Refusal::object_type};
  if (s.mappings.at(number) == nullptr) return {Status::bad_resource, Refusal::no_such_object};
  s.mappings.destroy(number);
  return {};
}

Answer nop(HcaState&, In, Out) {
  return {};
}

struct Command {
  uint16_t opcode;
  std::size_t in_bytes;  // least
  std::size_t out_bytes;
  Answer (*run)(HcaState&, In, Out);
};

constexpr Command commands[] = {
    {prm::cmd::query_hca_cap, 16, 16 + prm::cmd::hca_cap_bytes, query_hca_cap},
    {prm::cmd::create_mkey, sizeof(prm::CreateMkeyIn), sizeof(prm::CreateMkeyOut), create_mkey},
    {prm::cmd::destroy_mkey, 16, 16, destroy_mkey},
    {prm::cmd::query_mkey, 16, 16 + sizeof(prm::Mkc), query_mkey},
    {prm::cmd::qp_2err, 16, 16, end_qp},
    {prm::cmd::qp_2rst, 16, 16, end_qp},
    {prm::cmd::create_psv, sizeof(prm::CreatePsvIn), sizeof(prm::CreatePsvOut), create_psv},
    {prm::cmd::destroy_psv, 16, 16, destroy_psv},
    {prm::cmd::qp_init2init, prm::qp_cmd::in_context + prm::qp_cmd::context_bytes, 16, prepare_qp},
    {prm::cmd::qp_rts2rts, prm::qp_cmd::in_bytes, 16, change_qp},
    {prm::cmd::query_qp, 16, prm::qp_cmd::out_context + prm::qp_cmd::context_bytes, query_qp},
    {prm::cmd::alloc_pd, 16, 16, alloc_pd},
    {prm::cmd::dealloc_pd, 16, 16, dealloc_pd},
    {prm::cmd::create_general_object, 16, 16, create_object},
    {prm::cmd::destroy_general_object, 16, 16, destroy_object},
    {prm::cmd::nop, 8, 8, nop},
};

Answer run_command(HcaState& s, In in, Out out) {
  uint16_t opcode = read<prm::CmdInHdr>(in).opcode.host();
  const auto* c = std::find_if(std::begin(commands), std::end(commands),
                               [=](const Command& row) { return row.opcode == opcode; });
  if (c == std::end(commands)) return {Status::bad_op, Refusal::unknown_opcode};
  if (in.size() < c->in_bytes) return {Status::bad_input_len, Refusal::input_length};
  if (out.size() < c->out_bytes) return {Status::bad_output_len, Refusal::output_length};
  return c->run(s, in, out);
}

}  // namespace

int Hca::command(std::span<const std::byte> in, std::span<std::byte> out) {
  if (in.size() < sizeof(prm::CmdInHdr) || out.size() < sizeof(prm::CmdOutHdr)) return -EINVAL;
  if (state_->context.dead && !done_by_the_dead(read<prm::CmdInHdr>(in).opcode.host())) return -EIO;
  std::fill(out.begin(), out.end(), std::byte{0});
  Answer o = run_command(*state_, in, out);
  prm::CmdOutHdr header{};
  header.status = static_cast<uint8_t>(o.status);
  header.syndrome = be32{static_cast<uint32_t>(o.why)};
  std::memcpy(out.data(), &header, sizeof header);
  journal().command(read<prm::CmdInHdr>(in).opcode.host(), header.status,
                    static_cast<uint32_t>(o.why), in);
  return 0;
}

}  // namespace kilim::vhca
