// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Command Interface". The names of the commands that there are, for who tells of one. Any
// thread.
#include "vhca/hca/command_names.hh"

#include <algorithm>
#include <iterator>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/flow_table.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"

namespace kilim::vhca::hca {

namespace {

struct Row {
  uint16_t opcode;
  const char* name;
};
constexpr Row rows[] = {
    {prm::cmd::query_hca_cap, "QUERY_HCA_CAP"},
    {prm::cmd::create_mkey, "CREATE_MKEY"},
    {prm::cmd::destroy_mkey, "DESTROY_MKEY"},
    {prm::cmd::query_mkey, "QUERY_MKEY"},
    {prm::cmd::create_qp, "CREATE_QP"},
    {prm::cmd::destroy_qp, "DESTROY_QP"},
    {prm::cmd::qp_rst2init, "RST2INIT_QP"},
    {prm::cmd::qp_init2rtr, "INIT2RTR_QP"},
    {prm::cmd::qp_rtr2rts, "RTR2RTS_QP"},
    {prm::cmd::create_rmp, "CREATE_RMP"},
    {prm::cmd::destroy_rmp, "DESTROY_RMP"},
    {prm::cmd::query_rmp, "QUERY_RMP"},
    {prm::cmd::create_xrq, "CREATE_XRQ"},
    {prm::cmd::destroy_xrq, "DESTROY_XRQ"},
    {prm::cmd::query_xrq, "QUERY_XRQ"},
    {prm::cmd::arm_xrq, "ARM_XRQ"},
    {prm::cmd::create_dct, "CREATE_DCT"},
    {prm::cmd::destroy_dct, "DESTROY_DCT"},
    {prm::cmd::query_dct, "QUERY_DCT"},
    {prm::cmd::qp_2err, "2ERR_QP"},
    {prm::cmd::qp_2rst, "2RST_QP"},
    {prm::cmd::create_psv, "CREATE_PSV"},
    {prm::cmd::destroy_psv, "DESTROY_PSV"},
    {prm::cmd::qp_init2init, "INIT2INIT_QP"},
    {prm::cmd::qp_rts2rts, "RTS2RTS_QP"},
    {prm::cmd::query_qp, "QUERY_QP"},
    {prm::cmd::query_nic_vport_context, "QUERY_NIC_VPORT_CONTEXT"},
    {prm::cmd::alloc_pd, "ALLOC_PD"},
    {prm::cmd::dealloc_pd, "DEALLOC_PD"},
    {prm::cmd::create_general_object, "CREATE_GENERAL_OBJECT"},
    {prm::cmd::query_general_object, "QUERY_GENERAL_OBJECT"},
    {prm::cmd::destroy_general_object, "DESTROY_GENERAL_OBJECT"},
    {prm::cmd::create_cq, "CREATE_CQ"},
    {prm::cmd::destroy_cq, "DESTROY_CQ"},
    {prm::cmd::modify_cq, "MODIFY_CQ"},
    {prm::cmd::query_cq, "QUERY_CQ"},
    {prm::cmd::create_sq, "CREATE_SQ"},
    {prm::cmd::modify_sq, "MODIFY_SQ"},
    {prm::cmd::destroy_sq, "DESTROY_SQ"},
    {prm::cmd::query_sq, "QUERY_SQ"},
    {prm::cmd::create_rq, "CREATE_RQ"},
    {prm::cmd::modify_rq, "MODIFY_RQ"},
    {prm::cmd::destroy_rq, "DESTROY_RQ"},
    {prm::cmd::query_rq, "QUERY_RQ"},
    {prm::cmd::create_rqt, "CREATE_RQT"},
    {prm::cmd::modify_rqt, "MODIFY_RQT"},
    {prm::cmd::destroy_rqt, "DESTROY_RQT"},
    {prm::cmd::query_rqt, "QUERY_RQT"},
    {prm::cmd::create_tir, "CREATE_TIR"},
    {prm::cmd::modify_tir, "MODIFY_TIR"},
    {prm::cmd::destroy_tir, "DESTROY_TIR"},
    {prm::cmd::query_tir, "QUERY_TIR"},
    {prm::cmd::create_tis, "CREATE_TIS"},
    {prm::cmd::destroy_tis, "DESTROY_TIS"},
    {prm::cmd::query_tis, "QUERY_TIS"},
    {prm::cmd::alloc_transport_domain, "ALLOC_TRANSPORT_DOMAIN"},
    {prm::cmd::dealloc_transport_domain, "DEALLOC_TRANSPORT_DOMAIN"},
    {prm::cmd::alloc_q_counter, "ALLOC_Q_COUNTER"},
    {prm::cmd::dealloc_q_counter, "DEALLOC_Q_COUNTER"},
    {prm::cmd::query_q_counter, "QUERY_Q_COUNTER"},
    {prm::cmd::query_lag, "QUERY_LAG"},
    {prm::cmd::alloc_flow_counter, "ALLOC_FLOW_COUNTER"},
    {prm::cmd::dealloc_flow_counter, "DEALLOC_FLOW_COUNTER"},
    {prm::cmd::query_flow_counter, "QUERY_FLOW_COUNTER"},
    {prm::cmd::create_flow_table, "CREATE_FLOW_TABLE"},
    {prm::cmd::destroy_flow_table, "DESTROY_FLOW_TABLE"},
    {prm::cmd::query_flow_table, "QUERY_FLOW_TABLE"},
    {prm::cmd::create_flow_group, "CREATE_FLOW_GROUP"},
    {prm::cmd::destroy_flow_group, "DESTROY_FLOW_GROUP"},
    {prm::cmd::query_flow_group, "QUERY_FLOW_GROUP"},
    {prm::cmd::set_flow_table_entry, "SET_FLOW_TABLE_ENTRY"},
    {prm::cmd::delete_flow_table_entry, "DELETE_FLOW_TABLE_ENTRY"},
    {prm::cmd::query_flow_table_entry, "QUERY_FLOW_TABLE_ENTRY"},
    {prm::cmd::sync_steering, "SYNC_STEERING"},
    {prm::cmd::alloc_packet_reformat, "ALLOC_PACKET_REFORMAT"},
    {prm::cmd::dealloc_packet_reformat, "DEALLOC_PACKET_REFORMAT"},
    {prm::cmd::query_packet_reformat, "QUERY_PACKET_REFORMAT"},
    {prm::cmd::nop, "NOP"},
};

}  // namespace

const char* command_name(uint16_t opcode) noexcept {
  const auto* row = std::find_if(std::begin(rows), std::end(rows),
                                 [opcode](const Row& r) { return r.opcode == opcode; });
  return row != std::end(rows) ? row->name : "a firmware command that is not known here";
}

}  // namespace kilim::vhca::hca
