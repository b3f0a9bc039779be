// SPDX-License-Identifier: BSD-3-Clause
// Lines and counts as the general way writes them (send_queue.cc, transport/responder.cc,
// ethernet/frame_out.cc). Adapter's lock held. Never allocates; a WQE is untrusted.
#include "vhca/exec/observed.hh"

#include <cstddef>
#include <cstring>
#include <span>

#include "kilim/prm/cqe.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/opcode.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::exec {

namespace {

using prm::Opcode;

// Copies the segment at `offset` behind the control segment; zeros where the WQE is shorter.
template <typename Segment>
Segment segment_at(const wq::SendWqe& wqe, std::size_t offset) noexcept {
  Segment s{};
  const std::span<const std::byte> body = wqe.body();
  if (offset <= body.size() && body.size() - offset >= sizeof(s))
    std::memcpy(&s, body.data() + offset, sizeof(s));
  return s;
}

// The place of the first data segment of a plain request, behind the control segment.
std::size_t data_offset(Opcode opcode) noexcept {
  if (opcode == Opcode::send) return 0;
  const bool atomic = opcode == Opcode::atomic_cs || opcode == Opcode::atomic_fa;
  return sizeof(prm::RaddrSeg) + (atomic ? sizeof(prm::AtomicSeg) : 0);
}

void tell_taken(Engine& e, const wq::Qp& qp) noexcept {
  const wq::SendWqe& wqe = e.scratch;
  e.context.journal->wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
}

// The key that a line names is the remote one, where there is one.
void tell_translated(Engine& e, uint64_t pieces) noexcept {
  const auto opcode = static_cast<Opcode>(e.scratch.opcode);
  const auto data = segment_at<prm::DataSeg>(e.scratch, data_offset(opcode));
  const uint32_t remote =
      opcode == Opcode::send ? 0 : segment_at<prm::RaddrSeg>(e.scratch, 0).rkey.host();
  const uint32_t key = remote != 0 ? remote : data.lkey.host();
  e.context.journal->translated(key, static_cast<uint32_t>(pieces), data.byte_count.host());
}

}  // namespace

bool observe(Engine& e, wq::Qp& qp) noexcept {
  if (due_to_die(e) || e.context.failing.strikes_next(e.context.journal->count(Journal::Kind::wqe)))
    return false;
  if (wq::decode_send(qp, e.scratch) != wq::Decode::ok) return false;
  return qp.watched == nullptr || e.context.observer->executes(qp, e.scratch) == nullptr;
}

void tell_moved(Engine& e, const wq::Qp& qp, uint64_t pieces) noexcept {
  tell_taken(e, qp);
  tell_translated(e, pieces);
}

void tell_sent(Engine& e, const wq::Qp& qp, const wq::Qp& peer, uint32_t room) noexcept {
  Journal& journal = *e.context.journal;
  const uint16_t place = peer.rq.ci;
  const uint32_t bytes = segment_at<prm::DataSeg>(e.scratch, 0).byte_count.host();
  tell_taken(e, qp);
  journal.recv(peer.qpn, place, room);
  tell_translated(e, 2);
  journal.cqe(peer.recv_cq->cqn, peer.qpn, static_cast<uint8_t>(prm::CqeOpcode::resp_send), place,
              bytes);
}

void tell_frames(Engine& e, const wq::Qp& qp) noexcept {
  tell_taken(e, qp);
  wq::DataList list;
  if (!wq::decode_data(e.scratch.body(), sizeof(prm::EthSeg), list)) return;
  for (const tpt::Segment& s : std::span(list.segments).first(list.count)) {
    e.context.journal->translated(s.key, s.immediate ? 0 : 1, s.bytes);
    e.context.journal->frame_out(qp.attr.port, static_cast<uint32_t>(s.bytes));
  }
}

void tell_completed(Engine& e, wq::Qp& qp, uint32_t bytes) noexcept {
  const uint16_t index = e.scratch.index;
  e.context.journal->cqe(qp.send_cq->cqn, qp.qpn, 0, index, bytes);
  if (qp.watched != nullptr) e.context.observer->completed(qp, index);
}

}  // namespace kilim::vhca::exec
