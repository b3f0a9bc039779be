// SPDX-License-Identifier: BSD-3-Clause
// The table of firmware commands, and those of capabilities, keys, protection domains and other
// objects. Adapter's lock held.
#include "vhca/hca/commands.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/flow_table.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "kilim/prm/text.hh"
#include "kilim/prm/vport_mac.hh"
#include "kilim/prm/vport_mtu.hh"
#include "vhca/core/journal.hh"
#include "vhca/hca/caps.hh"
#include "vhca/hca/command_names.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::hca {

namespace commands {

namespace {

Answer query_hca_cap(Hca& s, In in, Out out) {
  constexpr std::size_t header = 16;
  // Maximum and current values are the same: nothing is negotiated.
  auto group = static_cast<uint16_t>(read<prm::CmdInHdr>(in).op_mod.host() >> 1);
  std::byte caps[prm::cmd::hca_cap_bytes]{};
  if (!fill_caps(s.config.profile, group, caps))
    return refused(Status::bad_param, Refusal::cap_group, refusal::absent("op_mod", group));
  // Who asks for a group's beginning gets that (rdma-core v44, tests/mlx5_base.py, is_eth()).
  std::memcpy(out.data() + header, caps, std::min(sizeof caps, out.size() - header));
  return {};
}

// The context tells what send WQEs must have, whether the port speaks RoCE, its address, and the
// longest frame of the first port's wire, as a kernel's driver sets it (Linux en_main.c,
// mlx5e_set_mtu()).
Answer query_nic_vport_context(Hca& s, In, Out out) {
  const wire::Wire* const wire = s.eth.ports.empty() ? nullptr : s.eth.ports.front().wire;
  if (wire != nullptr)
    prm::cap_set(out.subspan(16), prm::nic_vport::mtu,
                 std::min(wire->mtu() + prm::nic_vport::around_mtu, uint32_t{UINT16_MAX}));
  prm::cap_set(out.subspan(16), prm::nic_vport::min_wqe_inline_mode, s.config.profile.min_inline);
  prm::cap_set(out.subspan(16), prm::nic_vport::roce_en,
               s.config.profile.lid == 0 && s.config.profile.roce);
  const Mac& m = s.config.mac;
  prm::cap_set(out.subspan(16), prm::nic_vport::mac_47_32, uint32_t{m[0]} << 8 | m[1]);
  prm::cap_set(out.subspan(16), prm::nic_vport::mac_31_0,
               uint32_t{m[2]} << 24 | uint32_t{m[3]} << 16 | uint32_t{m[4]} << 8 | m[5]);
  return {};
}

Answer create_mkey(Hca& s, const Client& client, In in, Out out) {
  auto cmd = read<prm::CreateMkeyIn>(in);
  if (cmd.flags.host() != 0)
    return refused(Status::bad_param, Refusal::umem_key,
                   refusal::bits("mkey_umem_valid", cmd.flags.host(), 0));
  const bool reserves = cmd.op_mod.host() != 0 || cmd.reserved_8.host() != 0 ||
                        std::any_of(std::begin(cmd.reserved_50), std::end(cmd.reserved_50),
                                    [](be32 w) { return w.host() != 0; });
  if (reserves)
    return refused(
        Status::bad_param, Refusal::reserved,
        refusal::equal("a reserved field", cmd.op_mod.host() | cmd.reserved_8.host(), 0));
  std::size_t list = std::size_t{cmd.translations_octword_actual_size.host()} * 16;
  if (list > in.size() - sizeof cmd)
    return refused(Status::bad_input_len, Refusal::list_length,
                   refusal::bytes("klm_pas_mtt", in.size() - sizeof cmd, list));
  if (!owns_pd(s, client, Pdn{prm::mkc::pd::get(cmd.mkc)}))
    return no_such(Refusal::no_such_pd, "mkc.pd", prm::mkc::pd::get(cmd.mkc));
  Result<tpt::Mkey*> key =
      s.keys.create_mkey(cmd.mkc, in.subspan(sizeof cmd, list), s.config.profile);
  if (!key && key.error().code == ENOMEM)
    return refused(Status::no_resources, Refusal::no_more_keys, refusal::full("mkey_index"));
  if (!key) return refused(Status::bad_param, Refusal::key_context, refusal::of(key.error()));
  prm::CreateMkeyOut made{};
  made.mkey_index = be32{(*key)->index()};
  std::memcpy(out.data(), &made, sizeof made);
  return {};
}

Answer destroy_mkey(Hca& s, In in, Out) {
  uint32_t index = read<be32>(in, 8).host() & 0xffffff;
  const tpt::Mkey* m = s.keys.at(index);
  if (s.explainer && m != nullptr) s.explainer->key_ends(*m);
  if (s.keys.destroy(MkeyIndex{index}) != 0)
    return no_such(Refusal::no_such_key, "mkey_index", index);
  return {};
}

prm::Mkc context_of(const tpt::Mkey& m) {
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
  mkc::bsf_en::set(c, uint32_t{m.signature != nullptr || m.crypto != nullptr});
  mkc::crypto_en::set(c, uint32_t{m.crypto != nullptr});
  c.bsf_octword_size = be32{(m.signature != nullptr ? prm::bsf::octowords : 0) +
                            (m.crypto != nullptr ? prm::crypto::octowords : 0)};
  return c;
}

Answer query_mkey(Hca& s, In in, Out out) {
  constexpr std::size_t header = 16;
  const tpt::Mkey* key = s.keys.at(read<be32>(in, 8).host() & 0xffffff);
  if (key == nullptr) return no_such(Refusal::no_such_key, "mkey_index", number_in(in));
  prm::Mkc c = context_of(*key);
  std::memcpy(out.data() + header, &c, sizeof c);
  return {};
}

Answer create_psv(Hca& s, const Client& client, In in, Out out) {
  if (!s.config.profile.signature)
    return refused(Status::bad_op, Refusal::no_signatures, refusal::lacks("a signature"));
  const uint32_t count_pd = read<prm::CreatePsvIn>(in).count_pd.host();
  const Pdn pd{count_pd & 0xffffff};
  if (count_pd >> 28 != 1)
    return refused(Status::bad_param, Refusal::psv_count,
                   refusal::equal("num_psv", count_pd >> 28, 1));
  if (!owns_pd(s, client, pd)) return no_such(Refusal::no_such_pd, "pd", pd.value());
  uint32_t number = 0;
  tpt::Psv* psv = s.keys.psvs().create(number);
  if (psv == nullptr)
    return refused(Status::no_resources, Refusal::no_more_psvs, refusal::full("psv0_index"));
  psv->pd = pd;
  prm::CreatePsvOut made{};
  made.psv[0] = be32{number};
  std::memcpy(out.data(), &made, sizeof made);
  return {};
}

Answer destroy_psv(Hca& s, In in, Out) {
  const uint32_t number = read<be32>(in, 8).host() & 0xffffff;
  if (s.keys.psvs().at(number) == nullptr) return no_such(Refusal::no_such_psv, "psvn", number);
  s.keys.psvs().destroy(number);
  return {};
}

Answer alloc_pd(Hca& s, const Client& client, In, Out out) {
  const Result<Pdn> made = vhca::hca::alloc_pd(s, client.sink);
  if (!made) return refused(Status::no_resources, Refusal::no_more_pds, refusal::of(made.error()));
  const be32 pd{made->value()};
  std::memcpy(out.data() + 8, &pd, sizeof pd);
  return {};
}

Answer dealloc_pd(Hca& s, In in, Out) {
  const int rc = vhca::hca::dealloc_pd(s, Pdn{read<be32>(in, 8).host() & 0xffffff});
  if (rc == -EINVAL) return no_such(Refusal::no_such_pd, "pd", number_in(in));
  if (rc != 0) return noted(Status::bad_res_state, Refusal::pd_in_use);
  return {};
}

Answer nop(Hca&, In, Out) {
  return {};
}

struct Command {
  uint16_t opcode;
  std::size_t in_bytes;  // least
  std::size_t out_bytes;
  Answer (*run)(Hca&, In, Out);
  // In its place, of a command that makes something, or names more than what its handle stands for:
  // that is the client's own.
  Answer (*run_for)(Hca&, const Client&, In, Out) = nullptr;
};

constexpr std::size_t queue_in = prm::queue_cmd::bytes, queue_out = prm::queue_cmd::bytes;

constexpr std::size_t step_in = prm::qp_cmd::in_context + prm::qp_cmd::context_bytes;

constexpr Command rows[] = {
    {prm::cmd::query_hca_cap, 16, 16, query_hca_cap},
    {prm::cmd::create_mkey, sizeof(prm::CreateMkeyIn), sizeof(prm::CreateMkeyOut), nullptr,
     create_mkey},
    {prm::cmd::destroy_mkey, 16, 16, destroy_mkey},
    {prm::cmd::query_mkey, 16, 16 + sizeof(prm::Mkc), query_mkey},
    {prm::cmd::create_qp, prm::create_qp_in::bytes, 16, nullptr, make_qp},
    {prm::cmd::destroy_qp, 16, 16, destroy_made_qp},
    {prm::cmd::qp_rst2init, step_in, 16, step_qp},
    {prm::cmd::qp_init2rtr, step_in, 16, step_qp},
    {prm::cmd::qp_rtr2rts, step_in, 16, step_qp},
    {prm::cmd::create_rmp, queue_in, 16, nullptr, make_rmp},
    {prm::cmd::destroy_rmp, 16, 16, end_rmp},
    {prm::cmd::query_rmp, 16, queue_out, query_rmp},
    {prm::cmd::create_xrq, prm::xrqc::command_bytes, 16, nullptr, make_xrq},
    {prm::cmd::destroy_xrq, 16, 16, end_xrq},
    {prm::cmd::query_xrq, 16, prm::xrqc::at + prm::xrqc::bytes, query_xrq},
    {prm::cmd::arm_xrq, 16, 16, arm_xrq},
    {prm::cmd::create_dct, prm::dctc::command_bytes, 16, nullptr, make_dct},
    {prm::cmd::destroy_dct, 16, 16, end_dct},
    {prm::cmd::query_dct, 16, prm::dctc::command_bytes, query_dct},
    {prm::cmd::qp_2err, 16, 16, end_qp},
    {prm::cmd::qp_2rst, 16, 16, end_qp},
    {prm::cmd::create_psv, sizeof(prm::CreatePsvIn), sizeof(prm::CreatePsvOut), nullptr,
     create_psv},
    {prm::cmd::destroy_psv, 16, 16, destroy_psv},
    {prm::cmd::qp_init2init, prm::qp_cmd::in_context + prm::qp_cmd::context_bytes, 16, prepare_qp},
    {prm::cmd::qp_rts2rts, prm::qp_cmd::in_bytes, 16, change_qp},
    {prm::cmd::query_qp, 16, prm::qp_cmd::out_context + prm::qp_cmd::context_bytes, query_qp},
    {prm::cmd::query_nic_vport_context, 16, 16 + prm::nic_vport::context_bytes,
     query_nic_vport_context},
    {prm::cmd::alloc_pd, 16, 16, nullptr, alloc_pd},
    {prm::cmd::dealloc_pd, 16, 16, dealloc_pd},
    {prm::cmd::create_general_object, 16, 16, nullptr, create_object},
    {prm::cmd::query_general_object, 16, 16, query_object},
    {prm::cmd::destroy_general_object, 16, 16, destroy_object},
    {prm::cmd::create_cq, prm::cq_cmd::bytes, 16, nullptr, make_cq},
    {prm::cmd::destroy_cq, 16, 16, end_cq},
    {prm::cmd::modify_cq, prm::cq_cmd::bytes, 16, change_cq},
    {prm::cmd::query_cq, 16, prm::cq_cmd::context + prm::cq_cmd::context_bytes, query_cq},
    {prm::cmd::create_sq, queue_in, 16, nullptr, make_sq},
    {prm::cmd::modify_sq, queue_in, 16, change_sq},
    {prm::cmd::destroy_sq, 16, 16, end_sq},
    {prm::cmd::query_sq, 16, queue_out, query_sq},
    {prm::cmd::create_rq, queue_in, 16, nullptr, make_rq},
    {prm::cmd::modify_rq, queue_in, 16, nullptr, change_rq},
    {prm::cmd::destroy_rq, 16, 16, end_rq},
    {prm::cmd::query_rq, 16, queue_out, query_rq},
    {prm::cmd::create_rqt, queue_in, 16, nullptr, make_rqt},
    {prm::cmd::modify_rqt, queue_in, 16, nullptr, change_rqt},
    {prm::cmd::destroy_rqt, 16, 16, end_rqt},
    {prm::cmd::query_rqt, 16, queue_out, query_rqt},
    {prm::cmd::create_tir, queue_in, 16, nullptr, make_tir},
    {prm::cmd::modify_tir, queue_in, 16, nullptr, change_tir},
    {prm::cmd::destroy_tir, 16, 16, end_tir},
    {prm::cmd::query_tir, 16, queue_out, query_tir},
    {prm::cmd::create_tis, prm::tisc::command_bytes, 16, nullptr, make_tis},
    {prm::cmd::destroy_tis, 16, 16, end_tis},
    {prm::cmd::query_tis, 16, prm::tisc::answer + prm::tisc::bytes, query_tis},
    {prm::cmd::alloc_transport_domain, 16, 16, nullptr, make_domain},
    {prm::cmd::dealloc_transport_domain, 16, 16, end_domain},
    {prm::cmd::alloc_q_counter, 16, 16, nullptr, make_counter},
    {prm::cmd::dealloc_q_counter, 16, 16, end_counter},
    {prm::cmd::query_q_counter, prm::q_counter::command_bytes, prm::q_counter::answer_bytes,
     query_counter},
    {prm::cmd::query_lag, 16, 16, nop},  // its state, 0: no port is bonded with another
    {prm::cmd::alloc_flow_counter, 16, 16, nullptr, make_flow_counter},
    {prm::cmd::dealloc_flow_counter, 16, 16, end_flow_counter},
    {prm::cmd::query_flow_counter, prm::flow_counter::command_bytes,
     prm::flow_counter::answer_bytes, nullptr, query_flow_counter},
    {prm::cmd::create_flow_table, prm::flow_cmd::table_bytes, 16, nullptr, make_flow_table},
    {prm::cmd::destroy_flow_table, 24, 16, nullptr, end_flow_table},
    {prm::cmd::query_flow_table, 24, prm::flow_cmd::context + prm::flow_table_context::bytes,
     nullptr, query_flow_table},
    {prm::cmd::create_flow_group, prm::flow_cmd::group_bytes, 16, nullptr, make_flow_group},
    {prm::cmd::destroy_flow_group, 28, 16, nullptr, end_flow_group},
    {prm::cmd::query_flow_group, prm::flow_cmd::query_bytes, prm::flow_cmd::group_bytes, nullptr,
     query_flow_group},
    {prm::cmd::set_flow_table_entry, prm::flow_cmd::entry_bytes, 16, nullptr, set_flow_entry},
    {prm::cmd::delete_flow_table_entry, 36, 16, nullptr, delete_flow_entry},
    {prm::cmd::query_flow_table_entry, prm::flow_cmd::query_bytes, prm::flow_cmd::entry_bytes,
     nullptr, query_flow_entry},
    {prm::cmd::sync_steering, 16, 16, sync_steering},
    {prm::cmd::alloc_packet_reformat, prm::reformat_cmd::data, 16, make_reformat},
    {prm::cmd::dealloc_packet_reformat, 16, 16, end_reformat},
    {prm::cmd::query_packet_reformat, 16, prm::reformat_cmd::data, query_reformat},
    {prm::cmd::nop, 8, 8, nop},
};

Answer run_command(Hca& s, const Client& client, In in, Out out) {
  uint16_t opcode = read<prm::CmdInHdr>(in).opcode.host();
  const auto* c = std::find_if(std::begin(rows), std::end(rows),
                               [=](const Command& row) { return row.opcode == opcode; });
  if (c == std::end(rows))
    return refused(Status::bad_op, Refusal::unknown_opcode, refusal::lacks("this command"));
  if (in.size() < c->in_bytes)
    return refused(Status::bad_input_len, Refusal::input_length,
                   refusal::bytes("the input", in.size(), c->in_bytes));
  if (out.size() < c->out_bytes)
    return refused(Status::bad_output_len, Refusal::output_length,
                   refusal::bytes("the output", out.size(), c->out_bytes));
  return c->run_for != nullptr ? c->run_for(s, client, in, out) : c->run(s, in, out);
}

}  // namespace

}  // namespace commands

namespace {

// mlx5_ib answers EREMOTEIO, and status and syndrome with it.
void tell_refused(Hca& h, uint16_t opcode, const prm::CmdOutHdr& answer) noexcept {
  std::array<char, 64> buffer;
  prm::Text t{buffer};
  t.put("status ").hex(answer.status).put(", syndrome ").hex(answer.syndrome.host());
  tell_refusal(h, command_name(opcode), -EREMOTEIO, t.view());
}

}  // namespace

int command(Hca& h, std::span<const std::byte> in, std::span<std::byte> out, const Client& client) {
  using commands::read;
  if (in.size() < sizeof(prm::CmdInHdr) || out.size() < sizeof(prm::CmdOutHdr))
    return refusal::bytes("a firmware command's input or output", std::min(in.size(), out.size()),
                          sizeof(prm::CmdInHdr));
  refusal::forget();
  std::fill(out.begin(), out.end(), std::byte{0});
  const commands::Answer o = commands::run_command(h, client, in, out);
  prm::CmdOutHdr header{};
  header.status = static_cast<uint8_t>(o.status);
  header.syndrome = be32{static_cast<uint32_t>(o.why)};
  std::memcpy(out.data(), &header, sizeof header);
  h.context.journal->command(read<prm::CmdInHdr>(in).opcode.host(), header.status,
                             static_cast<uint32_t>(o.why), in);
  if (o.why != commands::Refusal::none)
    tell_refused(h, read<prm::CmdInHdr>(in).opcode.host(), header);
  return 0;
}

}  // namespace kilim::vhca::hca
