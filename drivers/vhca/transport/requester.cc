// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", requester. Adapter's lock held. Never allocates.
#include "vhca/transport/requester.hh"

#include <array>
#include <cstring>

#include "kilim/prm/av_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "vhca/hca/journal.hh"
#include "vhca/tpt/umr_apply.hh"
#include "vhca/transport/dma_copy.hh"
#include "vhca/transport/responder.hh"

namespace kilim::vhca {

namespace {

using prm::Opcode;
using prm::Syndrome;

enum class Shape : uint8_t { none, send, rdma, atomic };
struct RcRow {
  Opcode op;
  Shape shape;
  bool local_write;  // the data segments are written, not read
  Outcome (*respond)(Works&, Qp&, const Request&) noexcept;
};

// clang-format off
constexpr RcRow rc_rows[] = {
    {Opcode::send,           Shape::send,   false, respond_send},
    {Opcode::send_imm,       Shape::send,   false, respond_send},
    {Opcode::send_inval,     Shape::send,   false, respond_send},
    {Opcode::rdma_write,     Shape::rdma,   false, respond_write},
    {Opcode::rdma_write_imm, Shape::rdma,   false, respond_write},
    {Opcode::rdma_read,      Shape::rdma,   true,  respond_read},
    {Opcode::atomic_cs,      Shape::atomic, true,  respond_atomic},
    {Opcode::atomic_fa,      Shape::atomic, true,  respond_atomic},
};
// clang-format on

const RcRow* row_of(uint8_t opcode) noexcept {
  for (const RcRow& row : rc_rows) {
    if (static_cast<uint8_t>(row.op) == opcode) return &row;
  }
  return nullptr;
}

Outcome malformed(const char* why) noexcept {
  return Outcome::failed(Syndrome::local_qp_op, why);
}

// Reads the segments before the data and counts their bytes; false: the WQE is too short.
bool read_head(Shape shape, std::span<const std::byte> body, Request& r,
               std::size_t& bytes) noexcept {
  bytes = 0;
  if (shape == Shape::send) return true;
  prm::RaddrSeg raddr;
  if (body.size() < sizeof(raddr)) return false;
  std::memcpy(&raddr, body.data(), sizeof(raddr));
  r.remote_addr = raddr.raddr.host();
  r.rkey = raddr.rkey.host();
  bytes = sizeof(raddr);
  if (shape == Shape::rdma) return true;
  prm::AtomicSeg atomic;
  if (body.size() < bytes + sizeof(atomic)) return false;
  std::memcpy(&atomic, body.data() + bytes, sizeof(atomic));
  r.swap_add = atomic.swap_add.host();
  r.compare = atomic.compare.host();
  bytes += sizeof(atomic);
  return true;
}

// Null: nothing to object to.
const char* data_objection(const RcRow& row, const DataList& data) noexcept {
  for (uint32_t i = 0; i < data.count; i++) {
    if (row.local_write && data.segments[i].immediate) return "an answer cannot go into the WQE";
  }
  return nullptr;
}

// The queue at the other end; null: nothing there answers.
Qp* answering_peer(const ObjectTable<Qp>& qps, const Qp& qp) noexcept {
  if (!qp.loopback) return nullptr;
  Qp* peer = qps.at(qp.attr.dest_qpn.value());
  QpType wanted = qp.type == QpType::xrc_ini ? QpType::xrc_tgt : qp.type;
  if (peer == nullptr || peer->type != wanted || peer->attr.dest_qpn != qp.qpn) return nullptr;
  bool receives =
      peer->state == QpState::rtr || peer->state == QpState::rts || peer->state == QpState::sqd;
  return receives && peer->loopback ? peer : nullptr;
}

// A request to an XRC target names the shared queue on whose behalf it is answered.
bool aim_at_srq(Works& works, Qp& target, std::span<const std::byte> body) noexcept {
  prm::XrcSeg xrc;
  std::memcpy(&xrc, body.data(), sizeof(xrc));
  Srq* srq = works.srqs->at(xrc.srqn.host());
  if (srq == nullptr || !srq->spec.xrc || srq->spec.xrcd != target.spec.xrcd) return false;
  target.srq = srq;
  target.recv_cq = srq->cq;
  return true;
}

Outcome exec_umr(Works& works, Qp& qp, const SendWqe& wqe) noexcept {
  UmrRequest request{be32::from_raw(wqe.imm_raw).host(), wqe.body(), qp.spec.pd, qp.qpn.value()};
  UmrOutcome got = umr_apply(*works.keys, works.translator, *works.profile, request);
  if (got.syndrome != Syndrome::none) return Outcome::failed(got.syndrome, got.why);
  if (got.freed && got.octowords == 0)
    works.journal->invalidate(got.new_key);
  else
    works.journal->umr(got.new_key, got.octowords, got.bytes, got.mask);
  return Outcome::done();
}

Outcome exec_local_inval(Works& works, Qp& qp, const SendWqe& wqe) noexcept {
  uint32_t key = be32::from_raw(wqe.imm_raw).host();
  Deny d = invalidate_key(*works.keys, key, qp.spec.pd, qp.qpn.value());
  if (d != Deny::none) return Outcome::failed(Syndrome::mw_bind, deny_name(d));
  works.journal->invalidate(key);
  return Outcome::done();
}

Outcome exec_transfer(Works& works, const ObjectTable<Qp>& qps, Qp& qp, const SendWqe& wqe,
                      const RcRow& row) noexcept {
  Request r{wqe, qp.qpn.value(), {}, 0, 0, 0, 0, 0};
  std::size_t head = 0;
  DataList data;
  std::span<const std::byte> body = wqe.body();
  if (qp.type == QpType::xrc_ini) {
    if (body.size() < sizeof(prm::XrcSeg)) return malformed("WQE shorter than its opcode");
    body = body.subspan(sizeof(prm::XrcSeg));
  }
  if (!read_head(row.shape, body, r, head)) return malformed("WQE shorter than its opcode");
  if (!decode_data(body, head, data)) return malformed("data segments beyond the WQE");
  if (const char* why = data_objection(row, data)) return malformed(why);
  if (row.local_write && qp.attr.max_rd_atomic == 0)
    return malformed("the queue issues neither READ nor atomics");
  r.bytes = row.shape == Shape::atomic ? 8 : data.total;
  if (data.total > max_message_bytes || data.total < (row.shape == Shape::atomic ? 8u : 0u))
    return Outcome::failed(Syndrome::local_length, "length of a message");
  uint8_t right = row.local_write ? prm::mkey::local_write : prm::mkey::local_read;
  r.local = {{data.segments.data(), data.count}, {qp.spec.pd, qp.qpn.value(), right}};
  Qp* peer = answering_peer(qps, qp);
  if (peer != nullptr && qp.type == QpType::xrc_ini && !aim_at_srq(works, *peer, wqe.body()))
    return Outcome::failed(Syndrome::remote_inval_req, "no such XRC queue");
  if (peer != nullptr) return row.respond(works, *peer, r);
  uint32_t bad_key = 0;
  Deny d = row.local_write ? Deny::none : check_list(works.translator, r.local, r.bytes, bad_key);
  if (d != Deny::none) return Outcome::failed(Syndrome::local_prot, deny_name(d));
  return Outcome::no_answer(qp.loopback ? "the peer does not answer" : "no way to that address");
}

// Nobody tells the sender of an unreliable connection what became of its message.
Outcome forget_remote(const Outcome& o) noexcept {
  bool local = o.kind == Outcome::Kind::failed && o.syndrome != Syndrome::remote_inval_req &&
               o.syndrome != Syndrome::remote_access && o.syndrome != Syndrome::remote_op;
  return local ? o : Outcome::done();
}

bool knows(QpType type, const RcRow& row) noexcept {
  return type != QpType::uc || (!row.local_write && row.op != Opcode::send_inval);
}

}  // namespace

Outcome exec_rc(Works& works, const ObjectTable<Qp>& qps, Qp& qp, const SendWqe& wqe) noexcept {
  const RcRow* row = row_of(wqe.opcode);
  if (row != nullptr && knows(qp.type, *row)) {
    Outcome o = exec_transfer(works, qps, qp, wqe, *row);
    return qp.type == QpType::uc ? forget_remote(o) : o;
  }
  switch (static_cast<Opcode>(wqe.opcode)) {
    case Opcode::nop:
      return Outcome::done();
    case Opcode::umr:
      return exec_umr(works, qp, wqe);
    case Opcode::local_inval:
      return exec_local_inval(works, qp, wqe);
    case Opcode::mmo:
      if (qp.type == QpType::rc) return exec_dma_copy(works, qp, wqe);
      break;
    default:
      break;
  }
  return malformed("an opcode that the queue does not know");
}

uint64_t timeout_ns(uint8_t timeout) noexcept {
  // 0 means for ever: the engine looks again from time to time and never gives up.
  return timeout == 0 ? 100'000'000 : uint64_t{4096} << (timeout & 31);
}

uint64_t rnr_timer_ns(uint8_t timer) noexcept {
  // InfiniBand's table, in units of 10 microseconds.
  static constexpr std::array<uint32_t, 32> table = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t{table[timer & 31]} * 10'000;
}

}  // namespace kilim::vhca
