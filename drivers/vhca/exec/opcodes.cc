// SPDX-License-Identifier: BSD-3-Clause
// PRM: "WQE Opcodes". The table of executors. Adapter's lock held. Never allocates.
#include "vhca/exec/opcodes.hh"

#include <array>

#include "vhca/ethernet/eth.hh"
#include "vhca/exec/plain.hh"
#include "vhca/exec/rdma_filter.hh"
#include "vhca/exec/umr.hh"
#include "vhca/transport/datagram.hh"
#include "vhca/transport/dma_copy.hh"
#include "vhca/transport/requester.hh"
#include "vhca/transport/tag_match.hh"

namespace kilim::vhca::exec {

namespace {

using prm::Opcode;

Verdict nothing(Engine&, wq::Qp&, const wq::SendWqe&, transport::Answer&) noexcept {
  return Verdict::done();
}

Verdict request(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer& answer) noexcept {
  if (filters_rdma(e)) [[unlikely]]
    return exec_filtered_request(e, qp, wqe, answer);
  return transport::exec_request(e.context, e.qps, qp, wqe, answer);
}

Verdict datagram(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  if (filters_rdma(e)) [[unlikely]]
    return exec_filtered_datagram(e, qp, wqe);
  return transport::exec_datagram(e.roce, qp, wqe);
}

Verdict frame(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return ethernet::eth_exec_send(e.eth, qp, wqe);
}

Verdict frames(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return ethernet::eth_exec_packets(e.eth, qp, wqe);
}

Verdict large_send(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return ethernet::eth_exec_large_send(e.eth, qp, wqe);
}

Verdict umr(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return exec_umr(e.context, qp, wqe);
}

Verdict local_inval(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return exec_local_inval(e.context, qp, wqe);
}

Verdict set_psv(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return exec_set_psv(e.context, qp, wqe);
}

Verdict tag_operation(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return transport::exec_tag_operation(e.context, qp, wqe);
}

Verdict dma_copy(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer&) noexcept {
  return transport::exec_dma_copy(e.context, qp, wqe);
}

constexpr uint8_t bit(QpType t) noexcept {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(t));
}
constexpr uint8_t rc = bit(QpType::rc), uc = bit(QpType::uc), ud = bit(QpType::ud),
                  raw = bit(QpType::raw_packet), xrc = bit(QpType::xrc_ini), dc = bit(QpType::dci);
constexpr uint8_t reliable = rc | xrc | dc, connected = reliable | uc, every = connected | ud | raw;

// clang-format off
constexpr OpcodeRow rows[] = {
    {Opcode::nop,            every,     nothing,       nullptr},
    {Opcode::send,           connected, request,       run_plain_sends},
    {Opcode::send_imm,       connected, request,       nullptr},
    {Opcode::send_inval,     reliable,  request,       nullptr},
    {Opcode::rdma_write,     connected, request,       run_plain_writes},
    {Opcode::rdma_write_imm, connected, request,       nullptr},
    {Opcode::rdma_read,      reliable,  request,       run_plain_reads},
    {Opcode::atomic_cs,      reliable,  request,       run_plain_swaps},
    {Opcode::atomic_fa,      reliable,  request,       run_plain_adds},
    {Opcode::umr,            connected, umr,           run_plain_umr},
    {Opcode::local_inval,    connected, local_inval,   run_plain_local_inval},
    {Opcode::set_psv,        rc | xrc,  set_psv,       nullptr},
    {Opcode::tag_matching,   connected, tag_operation, nullptr},
    {Opcode::mmo,            rc | dc,   dma_copy,      nullptr},
    {Opcode::send,           ud,        datagram,      nullptr},
    {Opcode::send_imm,       ud,        datagram,      nullptr},
    {Opcode::send,           raw,       frame,         nullptr},
    {Opcode::enhanced_mpsw,  raw,       frames,        nullptr},
    {Opcode::tso,            raw,       large_send,    nullptr},
};
// clang-format on

// By type and opcode, 1 more than the row's place; 0: there is none.
constexpr unsigned types = 8, opcodes = 64;
using Places = std::array<std::array<uint8_t, opcodes>, types>;

constexpr Places find_places() noexcept {
  Places places{};
  uint8_t place = 0;
  for (const OpcodeRow& row : rows) {
    place++;
    for (unsigned type = 0; type < types; type++) {
      if ((row.services >> type & 1) != 0) places[type][static_cast<uint8_t>(row.opcode)] = place;
    }
  }
  return places;
}
constexpr Places places = find_places();

}  // namespace

const OpcodeRow* opcode_row(QpType type, uint8_t opcode) noexcept {
  const uint8_t place = opcode < opcodes ? places[static_cast<uint8_t>(type)][opcode] : 0;
  return place != 0 ? &rows[place - 1] : nullptr;
}

Verdict execute_here(void* engine, wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  const OpcodeRow* row = opcode_row(qp.type, wqe.opcode);
  transport::Answer none;
  if (row == nullptr) return malformed("an opcode that the queue does not know");
  return row->execute(*static_cast<Engine*>(engine), qp, wqe, none);
}

}  // namespace kilim::vhca::exec
