// SPDX-License-Identifier: BSD-3-Clause
// Linux drivers/infiniband/hw/mlx5/devx.c, devx_obj_build_destroy_cmd(). Adapter's lock held.
#include "vhca/uverbs/devx_made.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/flow_table.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"

namespace kilim::vhca::uverbs {

namespace {

// What asks or changes an object, and what made that; a whole row of opcodes belongs to queue
// pairs.
struct Access {
  uint16_t opcode, creator;
};
constexpr Access accesses[] = {
    {prm::cmd::query_xrq, prm::cmd::create_xrq},
    {prm::cmd::arm_xrq, prm::cmd::create_xrq},
    {prm::cmd::query_mkey, prm::cmd::create_mkey},
    {prm::cmd::query_cq, prm::cmd::create_cq},
    {prm::cmd::modify_cq, prm::cmd::create_cq},
    {prm::cmd::query_q_counter, prm::cmd::alloc_q_counter},
    {prm::cmd::modify_tir, prm::cmd::create_tir},
    {prm::cmd::query_tir, prm::cmd::create_tir},
    {prm::cmd::modify_sq, prm::cmd::create_sq},
    {prm::cmd::query_sq, prm::cmd::create_sq},
    {prm::cmd::modify_rq, prm::cmd::create_rq},
    {prm::cmd::query_rq, prm::cmd::create_rq},
    {prm::cmd::modify_tis, prm::cmd::create_tis},
    {prm::cmd::query_tis, prm::cmd::create_tis},
    {prm::cmd::modify_rqt, prm::cmd::create_rqt},
    {prm::cmd::query_rqt, prm::cmd::create_rqt},
    {prm::cmd::query_rmp, prm::cmd::create_rmp},
    {prm::cmd::query_dct, prm::cmd::create_dct},
    {prm::cmd::query_general_object, prm::cmd::create_general_object},
    {prm::cmd::query_flow_counter, prm::cmd::alloc_flow_counter},
    {prm::cmd::query_flow_table, prm::cmd::create_flow_table},
    {prm::cmd::query_flow_group, prm::cmd::create_flow_group},
    {prm::cmd::query_flow_table_entry, prm::cmd::set_flow_table_entry},
    {prm::cmd::query_packet_reformat, prm::cmd::alloc_packet_reformat},
};

using CommandBytes = std::span<const std::byte>;

// What the firmware of this adapter makes: by which command, and by which it ends.
struct DevxKind {
  uint16_t create, destroy;
};
constexpr DevxKind made_kinds[] = {
    {prm::cmd::create_mkey, prm::cmd::destroy_mkey},
    {prm::cmd::create_cq, prm::cmd::destroy_cq},
    {prm::cmd::create_qp, prm::cmd::destroy_qp},
    {prm::cmd::create_rmp, prm::cmd::destroy_rmp},
    {prm::cmd::create_xrq, prm::cmd::destroy_xrq},
    {prm::cmd::create_dct, prm::cmd::destroy_dct},
    {prm::cmd::create_psv, prm::cmd::destroy_psv},
    {prm::cmd::alloc_q_counter, prm::cmd::dealloc_q_counter},
    {prm::cmd::alloc_pd, prm::cmd::dealloc_pd},
    {prm::cmd::alloc_transport_domain, prm::cmd::dealloc_transport_domain},
    {prm::cmd::create_tir, prm::cmd::destroy_tir},
    {prm::cmd::create_sq, prm::cmd::destroy_sq},
    {prm::cmd::create_rq, prm::cmd::destroy_rq},
    {prm::cmd::create_tis, prm::cmd::destroy_tis},
    {prm::cmd::create_rqt, prm::cmd::destroy_rqt},
    {prm::cmd::alloc_flow_counter, prm::cmd::dealloc_flow_counter},
    {prm::cmd::create_general_object, prm::cmd::destroy_general_object},
    {prm::cmd::create_flow_table, prm::cmd::destroy_flow_table},
    {prm::cmd::create_flow_group, prm::cmd::destroy_flow_group},
    {prm::cmd::set_flow_table_entry, prm::cmd::delete_flow_table_entry},
    {prm::cmd::alloc_packet_reformat, prm::cmd::dealloc_packet_reformat},
};
const DevxKind* find_kind(uint16_t create) {
  const auto* at = std::find_if(std::begin(made_kinds), std::end(made_kinds),
                                [=](const DevxKind& k) { return k.create == create; });
  return at != std::end(made_kinds) ? at : nullptr;
}

// Of a table, a group or an entry the command says the table and its type, and the number behind.
bool names_table(uint16_t opcode) {
  return opcode == prm::cmd::create_flow_table || opcode == prm::cmd::create_flow_group ||
         opcode == prm::cmd::set_flow_table_entry;
}
void name_table(uint16_t opcode, CommandBytes in, uint32_t number,
                DevxObject::DestroyCommand& out) {
  namespace f = prm::flow_cmd;
  const bool table = opcode == prm::cmd::create_flow_table;
  prm::cap_set(out, f::table_type, prm::cap_get(in, f::table_type));
  prm::cap_set(out, f::table_id, table ? number : prm::cap_get(in, f::table_id));
  if (opcode == prm::cmd::create_flow_group) prm::cap_set(out, f::group_id, number);
  if (opcode == prm::cmd::set_flow_table_entry) prm::cap_set(out, f::flow_index, number);
}

// The number that the firmware gave: in the same place but for PSVs, of which there could be more,
// and for entries, whose place the client says. What is above the numbers of tables and TIRs is an
// address.
uint32_t number_made(uint16_t opcode, CommandBytes in, CommandBytes out) {
  constexpr std::size_t usual = 8, psv = offsetof(prm::CreatePsvOut, psv);
  if (opcode == prm::cmd::set_flow_table_entry) return prm::cap_get(in, prm::flow_cmd::flow_index);
  if (opcode == prm::cmd::create_flow_table || opcode == prm::cmd::create_tir)
    return word_at(out, usual) & 0xffffff;
  return word_at(out, opcode == prm::cmd::create_psv ? psv : usual);
}

// Linux drivers/infiniband/hw/mlx5/devx.c, flow_counter_bulk_size.
uint32_t counters_made(CommandBytes in) {
  namespace f = prm::flow_counter;
  const uint32_t log = prm::cap_get(in, f::bulk_log_size), bit = prm::cap_get(in, f::bulk);
  return log != 0 ? 1u << log : bit != 0 ? bit * f::bulk_unit : 1;
}

}  // namespace

uint32_t word_at(CommandBytes bytes, std::size_t at) noexcept {
  be32 word{};
  if (at + sizeof word <= bytes.size()) std::memcpy(&word, bytes.data() + at, sizeof word);
  return word.host();
}

void remember_made(DevxObject& made, CommandBytes in, CommandBytes out) {
  struct DestroyIn {
    prm::CmdInHdr hdr;
    be32 number;
    be32 reserved;
  } destroy{};
  static_assert(sizeof destroy == 16);
  prm::CmdInHdr asked;
  std::memcpy(&asked, in.data(), sizeof asked);
  const uint16_t opcode = asked.opcode.host();
  made.created_by = opcode;
  made.number = number_made(opcode, in, out);
  destroy.hdr.opcode = be16{find_kind(opcode)->destroy};
  if (opcode == prm::cmd::create_general_object)
    destroy.hdr.op_mod = asked.op_mod;  // the type of the object
  if (opcode == prm::cmd::alloc_flow_counter) made.count = counters_made(in);
  const bool table = names_table(opcode);
  if (table) {
    name_table(opcode, in, made.number, made.destroy_command);
  } else {
    destroy.number = be32{made.number};
  }
  std::memcpy(made.destroy_command.data(), &destroy, sizeof destroy);
  made.destroy_bytes = table ? made.destroy_command.size() : sizeof destroy;
}

uint16_t creator_for(uint16_t opcode) {
  if (opcode >> 8 == prm::cmd::create_qp >> 8) return prm::cmd::create_qp;
  for (const Access& a : accesses) {
    if (a.opcode == opcode) return a.creator;
  }
  return 0;
}

}  // namespace kilim::vhca::uverbs
