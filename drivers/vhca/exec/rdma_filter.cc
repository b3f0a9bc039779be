// SPDX-License-Identifier: BSD-3-Clause
// What a rule drops is a packet that was lost: a reliable request waits for its answer and is tried
// again, until IBV_WC_RETRY_EXC_ERR; of others nobody hears. Adapter's lock held.
#include "vhca/exec/rdma_filter.hh"

#include <cstring>

#include "vhca/core/address.hh"
#include "vhca/core/journal.hh"
#include "vhca/transport/datagram.hh"
#include "vhca/transport/dynamic.hh"
#include "vhca/transport/loop_packets.hh"
#include "vhca/transport/rendezvous.hh"

namespace kilim::vhca::exec {

namespace {

constexpr const char* rule_drops = "a flow rule of RDMA drops it";

bool pass(Engine& e, const wq::Qp& qp, const transport::LoopPackets& p, bool asks_sent) noexcept {
  ethernet::SoftSteering& soft = *e.eth.soft;
  const ethernet::RdmaRules::Packets packets{p.first, p.count, p.bytes};
  if (p.count == 0) return true;
  const bool sent = asks_sent
                        ? soft.rdma.lets_through(soft, ethernet::TableType::rdma_tx, packets)
                        : soft.rdma.would_let_through(soft, ethernet::TableType::rdma_tx, packets);
  if (sent && soft.rdma.lets_through(soft, ethernet::TableType::rdma_rx, packets)) return true;
  e.context.journal->frame_drop(qp.attr.port, static_cast<uint32_t>(p.bytes), rule_drops);
  return false;
}

// Whether its peer is a queue of this adapter that hears it but for the rules.
bool stays_here(const Engine& e, const wq::Qp& qp, const transport::RequestData& ask) noexcept {
  if (qp.type == QpType::dci) return transport::called_target(e.context, e.qps, ask.to) != nullptr;
  return transport::answering_peer(e.qps, qp) != nullptr;
}

bool request_passes(Engine& e, wq::Qp& qp, const transport::RequestRow& row,
                    const transport::RequestData& ask) noexcept {
  // What the queue's own side objects to never leaves.
  if (!stays_here(e, qp, ask) || !transport::check_own_memory(e.context, qp, row, ask).ok())
    return true;
  return pass(e, qp, transport::loop_packets(e.roce, qp, row, ask), true);
}

// A group's datagram has been asked about where it went out.
bool datagram_passes(void* engine, const wq::Qp& qp, const wq::SendWqe& wqe, const prm::AvSeg& to,
                     uint64_t bytes) noexcept {
  Engine& e = *static_cast<Engine*>(engine);
  Gid gid;
  std::memcpy(gid.data(), to.rgid, gid.size());
  const bool went_out = is_group_gid(gid) && e.roce.wire_of(qp) != nullptr;
  return pass(e, qp, transport::loop_packets(e.roce, qp, wqe, to, bytes), !went_out);
}

}  // namespace

Verdict exec_filtered_request(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe,
                              transport::Answer& answer) noexcept {
  const transport::RequestRow* row = transport::request_row(qp.type, wqe.opcode);
  transport::RequestData ask;
  const bool known = row != nullptr && transport::read_request(qp, *row, wqe, ask).ok();
  if (known && !request_passes(e, qp, *row, ask))
    return qp.type == QpType::uc ? Verdict::done() : Verdict::no_answer(rule_drops);
  return transport::exec_request(e.context, e.qps, qp, wqe, answer);
}

Verdict exec_filtered_datagram(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  const transport::LocalFilter filter{datagram_passes, &e};
  return transport::exec_datagram(e.roce, qp, wqe, &filter);
}

Verdict exec_filtered_rendezvous(Engine& e, wq::Qp& qp) noexcept {
  transport::RequestData ask;
  wq::SendWqe& wqe = e.roce.wqe;
  const transport::RequestRow& row = transport::rendezvous_request(qp, ask, wqe);
  if (!request_passes(e, qp, row, ask)) return Verdict::no_answer(rule_drops);
  return transport::exec_rendezvous(e.context, e.qps, qp);
}

}  // namespace kilim::vhca::exec
