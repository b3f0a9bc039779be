// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Send Work Queue". Adapter's lock held. Never allocates; a WQE is untrusted.
#include "vhca/wq/sq_decode.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/data_seg.hh"
#include "vhca/memory/dma.hh"

namespace kilim::vhca::wq {

namespace {

// Copies basic blocks [from, from + count) of the WQE, around the end of the ring.
bool copy_blocks(const SendRing& sq, SendWqe& w, uint32_t from, uint32_t count) noexcept {
  uint32_t at = (sq.ci + from) & (sq.wqebbs - 1);
  std::byte* to = w.bytes.data() + std::size_t{from} * wqebb_bytes;
  uint32_t straight = std::min(count, sq.wqebbs - at);
  if (!memory::dma::copy_in(to, Va{sq.base + uint64_t{at} * wqebb_bytes},
                            std::size_t{straight} * wqebb_bytes))
    return false;
  if (straight == count) return true;
  return memory::dma::copy_in(to + std::size_t{straight} * wqebb_bytes, Va{sq.base},
                              std::size_t{count - straight} * wqebb_bytes);
}

// What the format reserves, and an opcode modifier that the opcode does not have: only memory
// operations (MMO) have some.
bool reserves(const prm::CtrlSeg& ctrl, const SendWqe& w) noexcept {
  const bool modified = w.opmod != 0 && w.opcode != static_cast<uint8_t>(prm::Opcode::mmo);
  return modified || (ctrl.qpn_ds.host() & prm::ctrl::reserved_beside_ds) != 0 ||
         (ctrl.fm_ce_se & prm::ctrl::reserved_in_fm_ce_se) != 0;
}

}  // namespace

Decode decode_send(const Qp& qp, SendWqe& w) noexcept {
  w.index = qp.sq.ci;
  w.wqebbs = 1;
  w.ds = 0;
  if (!copy_blocks(qp.sq, w, 0, 1)) return Decode::fault;
  prm::CtrlSeg ctrl;
  std::memcpy(&ctrl, w.bytes.data(), sizeof(ctrl));
  uint32_t first = ctrl.opmod_idx_opcode.host();
  w.opcode = static_cast<uint8_t>(prm::ctrl::opcode::of(first));
  w.opmod = static_cast<uint8_t>(prm::ctrl::opmod::of(first));
  w.fm_ce_se = ctrl.fm_ce_se;
  w.imm_raw = ctrl.imm.raw();
  // Only an initiator's WQE names a stream: elsewhere UCX 1.13 (uct_ib_mlx5_set_ctrl_seg without
  // SSE4.2) leaves what lay in the ring, and cards take it.
  w.stream = qp.type == QpType::dci ? prm::ctrl::stream_of(ctrl) : uint16_t{0};
  uint32_t ds = prm::ctrl::ds::get(ctrl);
  uint32_t blocks = wqebbs_for(Octowords{ds}).value();
  auto posted = static_cast<uint16_t>(qp.sq.pi - qp.sq.ci);
  if (ds == 0 || blocks > posted || blocks > qp.sq.wqebbs) return Decode::malformed;
  w.ds = ds;
  w.wqebbs = static_cast<uint16_t>(blocks);
  if (prm::ctrl::qpn::get(ctrl) != qp.qpn.value() || prm::ctrl::wqe_index::of(first) != qp.sq.ci)
    return Decode::malformed;
  if (reserves(ctrl, w)) return Decode::malformed;
  if (blocks > 1 && !copy_blocks(qp.sq, w, 1, blocks - 1)) return Decode::fault;
  return Decode::ok;
}

Decode decode_send_at(Qp& qp, uint16_t at, SendWqe& w) noexcept {
  const uint16_t oldest = qp.sq.ci;
  qp.sq.ci = at;
  const Decode d = decode_send(qp, w);
  qp.sq.ci = oldest;
  return d;
}

bool decode_data(std::span<const std::byte> body, std::size_t offset, DataList& list) noexcept {
  list.count = 0;
  list.total = 0;
  while (offset < body.size()) {
    prm::DataSeg seg;
    if (body.size() - offset < sizeof(seg) || list.count == list.segments.size()) return false;
    std::memcpy(&seg, body.data() + offset, sizeof(seg));
    uint32_t count = seg.byte_count.host();
    tpt::Segment& s = list.segments[list.count++];
    if ((count & prm::inline_flag) != 0) {
      uint64_t bytes = count & prm::inline_length_mask;
      std::size_t whole = round_up(static_cast<uint32_t>(bytes + sizeof(prm::InlineSeg)), 16);
      if (whole > body.size() - offset) return false;
      const std::byte* data = body.data() + offset + sizeof(prm::InlineSeg);
      s = {reinterpret_cast<uint64_t>(data), bytes, 0, true};
      offset += whole;
    } else {
      s = {seg.addr.host(), count == 0 ? uint64_t{1} << 31 : count, seg.lkey.host(), false};
      offset += sizeof(seg);
    }
    list.total += s.bytes;
  }
  return true;
}

}  // namespace kilim::vhca::wq
