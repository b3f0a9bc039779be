// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Ethernet Segment", "Send WQE Format for Ethernet". Executes the send WQEs of raw packet
// queues: the frame is put together, checksums asked for are computed, the wire takes it,
// and so do queues of other clients on the same port. Adapter's lock held. Never allocates.
#include <algorithm>
#include <cstring>

#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca {

namespace {

using prm::Syndrome;

constexpr std::size_t inline_in_segment = sizeof(prm::EthSeg::inline_hdr_start);
constexpr uint32_t longest_inline_header = 0x3ff;  // above are other uses of the word, not offered

Verdict refused(Syndrome s) noexcept {
  return {s, "raw packet refused"};
}

std::size_t limit_of(const EthState& eth, const EthPort& port) noexcept {
  return port.wire != nullptr ? std::min(max_frame(port.wire->mtu()), eth.frame.size())
                              : eth.frame.size();
}

// The inline header's bytes and where the data segments begin; false: the WQE is too short for it.
struct InlineHeader {
  uint32_t bytes = 0;
  std::size_t behind = 0;
};
bool read_inline_header(const prm::EthSeg& seg, std::size_t body, InlineHeader& h) noexcept {
  h.bytes = seg.inline_hdr_sz.host();
  if (h.bytes > longest_inline_header) return false;
  std::size_t spill = h.bytes > inline_in_segment ? h.bytes - inline_in_segment : 0;
  h.behind = sizeof(prm::EthSeg) + (spill + 15) / 16 * 16;
  return h.behind <= body;
}

// The frame in eth.frame: the inline header, then the data segments through their keys.
Verdict put_together(EthState& eth, const Qp& qp, const SendWqe& wqe, std::size_t& bytes) noexcept {
  std::span<const std::byte> body = wqe.body();
  if (body.size() < sizeof(prm::EthSeg)) return refused(Syndrome::local_qp_op);
  prm::EthSeg seg;
  std::memcpy(&seg, body.data(), sizeof(seg));
  InlineHeader head;
  DataList list;
  if (!read_inline_header(seg, body.size(), head) || !decode_data(body, head.behind, list)) {
    return refused(Syndrome::local_qp_op);
  }
  bytes = head.bytes + list.total;
  if (bytes < ether_header_bytes || bytes > limit_of(eth, eth_port(eth, qp.attr.port))) {
    return refused(Syndrome::local_length);
  }
  std::memcpy(eth.frame.data(), body.data() + offsetof(prm::EthSeg, inline_hdr_start), head.bytes);
  SegmentList from{{list.segments.data(), list.count},
                   {qp.spec.pd, qp.qpn.value(), prm::mkey::local_read}};
  Transfer t =
      gather_bytes(eth.context->translator, from, eth.frame.data() + head.bytes, list.total);
  if (!t.ok()) return refused(Syndrome::local_prot);
  eth.context->journal->translated(list.count > 0 ? list.segments[0].key : 0, t.pieces, list.total);
  std::span<std::byte> frame = std::span(eth.frame).first(bytes);
  if ((seg.cs_flags & (prm::eth::l3_csum | prm::eth::l4_csum)) != 0) {
    PacketView v = parse_packet(frame);
    if ((seg.cs_flags & prm::eth::l3_csum) != 0) write_l3_checksum(frame, v);
    if ((seg.cs_flags & prm::eth::l4_csum) != 0) write_l4_checksum(frame, v);
  }
  return {};
}

}  // namespace

Verdict eth_exec_send(EthState& eth, Qp& qp, const SendWqe& wqe) noexcept {
  EthPort& port = eth_port(eth, qp.attr.port);
  std::size_t bytes = 0;
  if (Verdict v = put_together(eth, qp, wqe, bytes); !v.ok()) return v;
  Wire::Sent sent = port.wire != nullptr
                        ? port.wire->send(std::span<const std::byte>(eth.frame).first(bytes))
                        : Wire::Sent::refused;
  if (sent == Wire::Sent::busy) {
    port.counters.tx_waits++;
    return Verdict::wire_full();
  }
  bool looped = eth_loop_back(eth, qp, std::span<const std::byte>(eth.frame).first(bytes));
  if (looped) sent = Wire::Sent::taken;
  switch (sent) {
    case Wire::Sent::taken:
      port.counters.tx_packets++;
      port.counters.tx_bytes += bytes;
      eth.context->journal->frame_out(qp.attr.port, static_cast<uint32_t>(bytes));
      break;
    case Wire::Sent::busy:
      break;
    case Wire::Sent::refused:
      port.counters.tx_drops++;
      eth.context->journal->frame_drop(qp.attr.port, static_cast<uint32_t>(bytes),
                                       port.wire != nullptr ? "not for this wire" : "no wire");
      break;
  }
  return {};
}

}  // namespace kilim::vhca
