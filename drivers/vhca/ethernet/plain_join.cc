// SPDX-License-Identifier: BSD-3-Clause
// How a queue joins a row of frames that goes the straight way (plain_rx.cc): whether it takes
// frames as they are, and what is the same for all that it takes. Adapter's lock held. Never
// allocates.
#include <algorithm>
#include <cstring>

#include "vhca/ethernet/plain_taking.hh"
#include "vhca/memory/dma.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca::ethernet {

namespace {

bool takes_plainly(const wq::Qp& qp) noexcept {
  const bool receives =
      qp.rq.wqes > 0 && qp.state != QpState::reset && qp.state != QpState::err && !qp.broken;
  const wq::Cq& cq = *qp.recv_cq;
  return receives && qp.rq.shift == 4 && !qp.rq.striding() && qp.srq == nullptr &&
         !qp.spec.rq_signature && !qp.spec.tunnels && !qp.spec.scatter_fcs && cq.plain_entries &&
         !cq.error && !cq.armed;
}

// What all entries of a row have, and where they go.
void begin_entries(const wq::EngineContext& context, Taking& t, const wq::Qp& qp) noexcept {
  const wq::Cq& cq = *qp.recv_cq;
  t.entry = {};
  t.entry.srqn_uidx = be32{qp.spec.uidx};
  t.entry.timestamp = be64{context.now_ns};
  t.entry.sop_drop_qpn = be32{qp.alone ? 0 : qp.qpn.value()};
  t.entry.op_own =
      prm::cqe::op_own(prm::CqeOpcode::resp_send, false, (cq.producer & cq.spec.cqe_count) != 0);
  std::memcpy(&t.first_last, &t.entry.sop_drop_qpn, sizeof t.first_last);
  t.stamp = t.entry.timestamp.raw();
  const uint32_t slot = cq.producer & (cq.spec.cqe_count - 1);
  t.slot = t.known = cq.spec.buf.value() + uint64_t{slot} * sizeof(prm::Cqe);
  t.holds = cq.block != nullptr;
  t.hashed = false;
}

// Another queue of the same completion queue counts its room when it joins again. Its place, or
// null.
Taking* part_from(Row& row, const wq::Cq* cq) noexcept {
  Taking* place = nullptr;
  for (Taking& t : row.taken()) {
    if (t.qp == nullptr || t.qp->recv_cq != cq) continue;
    settle(t);
    place = &t;
  }
  return place;
}

// Where one more queue goes: in the place of the one that has been there longest.
Taking* next_place(Row& row) noexcept {
  Taking* place = &row.takings[row.joined % Row::places];
  if (row.joined >= Row::places) settle(*place);
  row.joined++;
  return place;
}

}  // namespace

Taking* join_row(Row& row, wq::Qp& qp) noexcept {
  Taking* place = part_from(row, qp.recv_cq);
  uint32_t raw = 0;
  if (!takes_plainly(qp) ||
      !memory::dma::load(Va{qp.spec.record.value() + 4 * prm::record_receive}, raw))
    return nullptr;
  if (place == nullptr) place = next_place(row);
  Taking& t = *place;
  const uint32_t wqes = static_cast<uint16_t>(be32::from_raw(raw).host() - qp.rq.ci);
  t.qp = &qp;
  t.ci = qp.rq.ci;
  t.end = static_cast<uint16_t>(t.ci + std::min(wqes, wq::straight_room(*qp.recv_cq)));
  t.mask = static_cast<uint16_t>(qp.rq.wqes - 1);
  t.wqes = qp.rq.base;
  tpt::KeyMemos& m = qp.memos;
  if (m.generation != row.context.keys->generation()) {
    m = {};
    m.generation = row.context.keys->generation();
  }
  recall_key(t, m.remote);
  begin_entries(row.context, t, qp);
  next_run(t);
  qp.taking = &t;
  return &t;
}

}  // namespace kilim::vhca::ethernet
