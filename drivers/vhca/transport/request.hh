// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send Work Queue", requests of connected queues. What a send WQE asks of the peer, and what
// the queue's own side objects to, the same for a peer on this adapter and one on the wire.
// Adapter's lock held. Never allocates; a WQE is untrusted.
#pragma once

#include <cstdint>

#include "kilim/prm/av_seg.hh"
#include "vhca/core/verdict.hh"
#include "vhca/transport/roce.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::transport {

using RequestKind = wq::RcMessage::Kind;

struct RequestRow {
  prm::Opcode opcode;
  RequestKind kind;
  bool unreliable;  // unreliable connections know it too
  roce::Op first, middle, last, only;
};
// The row of an opcode; null: a queue of this type knows no such request.
const RequestRow* request_row(QpType, uint8_t opcode) noexcept;

// READ and atomics: the data segments are written, not read.
constexpr bool is_answered(RequestKind kind) noexcept {
  return kind == RequestKind::read || kind == RequestKind::atomic;
}

// What the segments of a WQE say.
struct RequestData {
  uint64_t remote_addr = 0;
  uint64_t swap_add = 0, compare = 0;  // host order
  uint64_t bytes = 0;                  // of the message
  uint32_t rkey = 0;
  uint32_t srqn = 0;        // of an XRC initiator: the shared queue it names
  bool rendezvous = false;  // the adapter's own, for a tagged buffer
  prm::AvSeg to{};          // of a DC initiator: the target, its key and the way there
  wq::DataList data;
};
// Reads the segments. Keys are not looked at: check_own_memory() does, the responder for its own.
Verdict read_request(const wq::Qp&, const RequestRow&, const wq::SendWqe&, RequestData&) noexcept;

constexpr uint8_t paged_op_of(RequestKind kind) noexcept {
  if (kind == RequestKind::send) return paged_op::send;
  if (kind == RequestKind::write) return paged_op::write;
  return kind == RequestKind::read ? paged_op::read : paged_op::atomic;
}

// The queue's own memory behind a request.
inline tpt::SegmentList own_memory(const wq::Qp& qp, RequestKind kind,
                                   const RequestData& ask) noexcept {
  const wq::DataList& data = ask.data;
  const Pdn pd = ask.rendezvous ? qp.srq->spec.pd : qp.spec.pd;
  uint8_t right = is_answered(kind) ? prm::mkey::local_write : prm::mkey::local_read;
  return {{data.segments.data(), data.count},
          {pd, qp.qpn.value(), right, wq::may_fault(qp, paged_op_of(kind))}};
}
// Whether its keys allow it, and its pages are there; stall: they are coming.
Verdict check_own_memory(const wq::EngineContext&, const wq::Qp&, const RequestRow&,
                         const RequestData&) noexcept;

}  // namespace kilim::vhca::transport
