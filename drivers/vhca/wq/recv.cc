// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Receive Work Queue". Adapter's lock held. Never allocates.
#include "vhca/wq/recv.hh"

#include <algorithm>

#include "kilim/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/hca/dma.hh"
#include "vhca/hca/journal.hh"

namespace kilim::vhca {

namespace {

bool posted(const Qp& qp, uint16_t& count) noexcept {
  uint32_t raw = 0;
  if (!dma::load(Va{qp.spec.record.value() + 4 * prm::record_receive}, raw)) return false;
  auto head = static_cast<uint16_t>(be32::from_raw(raw).host());
  count = static_cast<uint16_t>(head - qp.rq.ci);
  return true;
}

}  // namespace

RecvTake peek_recv(Works& works, const Qp& qp, RecvWqe& wqe) noexcept {
  if (qp.rq.wqes == 0) return RecvTake::empty;
  uint16_t count = 0;
  if (!posted(qp, count)) return RecvTake::fault;
  if (count == 0) return RecvTake::empty;
  std::array<prm::DataSeg, max_recv_segments> raw;
  std::size_t bytes = std::min(std::size_t{1} << qp.rq.shift, sizeof(raw));
  uint64_t at = qp.rq.base + (uint64_t{qp.rq.ci & (qp.rq.wqes - 1)} << qp.rq.shift);
  if (!dma::copy_in(raw.data(), Va{at}, bytes)) return RecvTake::fault;
  wqe.index = qp.rq.ci;
  wqe.count = 0;
  wqe.room = 0;
  for (std::size_t i = qp.spec.rq_signature ? 1 : 0; i < bytes / sizeof(raw[0]); i++) {
    uint32_t key = raw[i].lkey.host();
    if (key == prm::list_end_lkey) break;
    uint64_t n = raw[i].byte_count.host() & ~prm::inline_flag;
    if (n == 0) n = uint64_t{1} << 31;
    wqe.segments[wqe.count++] = {raw[i].addr.host(), n, key, false};
    wqe.room += n;
  }
  works.journal->recv(qp.qpn, wqe.index, static_cast<uint32_t>(wqe.room));
  return RecvTake::ok;
}

uint32_t recv_waiting(const Qp& qp) noexcept {
  uint16_t count = 0;
  if (qp.rq.wqes == 0 || !posted(qp, count)) return 0;
  return count;
}

Access recv_access(const Qp& qp) noexcept {
  return {qp.spec.pd, qp.qpn.value(), prm::mkey::local_write};
}

prm::Syndrome scatter_to_recv(Works& works, const Qp& qp, const RecvWqe& wqe,
                              const std::byte* payload, uint64_t bytes) noexcept {
  if (bytes > wqe.room) return prm::Syndrome::local_length;
  SegmentList to{{wqe.segments.data(), wqe.count}, recv_access(qp)};
  Transfer t = scatter_bytes(works.translator, payload, bytes, to);
  if (t.ok()) {
    works.journal->translated(wqe.count > 0 ? wqe.segments[0].key : 0, t.pieces, bytes);
    return prm::Syndrome::none;
  }
  works.journal->error(qp.qpn, prm::Syndrome::local_prot, 0, wqe.index, deny_name(t.target));
  return prm::Syndrome::local_prot;
}

}  // namespace kilim::vhca
