// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Striding RQ", "CQE Format". Adapter's lock held. Never allocates.
#include "vhca/ethernet/strides.hh"

#include <algorithm>

#include "kilim/prm/cqe.hh"
#include "vhca/core/journal.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca::ethernet {

namespace {

// Linux drivers/net/ethernet/mellanox/mlx5/core/en_rx.c, mpwrq_is_filler_cqe(): it gives strides
// back and has no data.
bool write_filler(EthState& eth, wq::Qp& qp, uint16_t index) noexcept {
  const uint32_t left = qp.rq.strides() - qp.rq.used;
  prm::Cqe cqe{};
  cqe.srqn_uidx = be32{qp.spec.uidx};
  cqe.wqe_id = be16{index};
  cqe.wqe_counter = be16{static_cast<uint16_t>(qp.rq.used)};
  cqe.byte_cnt = be32{prm::cqe::stride_filler | left << prm::cqe::strides_shift};
  constexpr auto op = prm::CqeOpcode::resp_send;
  eth.context->journal->cqe(qp.recv_cq->cqn, qp.qpn, static_cast<uint8_t>(op), index, 0);
  return wq::write_cqe(*eth.context, *qp.recv_cq, cqe, op, false);
}

// What is left of the WQE behind `bytes`, and no more than its strides are.
void skip(wq::RecvWqe& wqe, uint64_t bytes, uint64_t most) noexcept {
  uint32_t kept = 0;
  wqe.room = 0;
  for (uint32_t i = 0; i < wqe.count; i++) {
    tpt::Segment s = wqe.segments[i];
    const uint64_t gone = std::min(bytes, s.bytes);
    bytes -= gone;
    s.addr += gone;
    s.bytes = std::min(s.bytes - gone, most - wqe.room);
    if (s.bytes == 0) continue;
    wqe.segments[kept++] = s;
    wqe.room += s.bytes;
  }
  wqe.count = kept;
}

}  // namespace

wq::RecvTake peek_for(EthState& eth, wq::Qp& qp, std::size_t bytes, wq::RecvWqe& wqe) noexcept {
  wq::RecvTake take = wq::peek_recv(*eth.context, qp, wqe);
  if (take != wq::RecvTake::ok || !qp.rq.striding()) return take;
  if (needs_next(qp.rq, bytes)) {
    if (!write_filler(eth, qp, wqe.index)) return wq::RecvTake::fault;
    wq::consume_recv(*eth.context, qp);
    take = wq::peek_recv(*eth.context, qp, wqe);
    if (take != wq::RecvTake::ok) return take;
  }
  const uint64_t behind = uint64_t{qp.rq.used} << qp.rq.log_stride;
  const uint64_t whole = uint64_t{qp.rq.strides()} << qp.rq.log_stride;
  const uint64_t shift = qp.rq.two_bytes ? 2 : 0;
  skip(wqe, behind + shift, whole - behind - shift);
  return wq::RecvTake::ok;
}

StridePlace take_strides(EthState& eth, wq::Qp& qp, std::size_t bytes) noexcept {
  const uint32_t count = strides_of(qp.rq, bytes);
  const StridePlace place{
      static_cast<uint16_t>(qp.rq.used),
      count << prm::cqe::strides_shift | (static_cast<uint32_t>(bytes) & 0xffff)};
  qp.rq.used += count;
  if (qp.rq.used >= qp.rq.strides()) wq::consume_recv(*eth.context, qp);
  return place;
}

}  // namespace kilim::vhca::ethernet
