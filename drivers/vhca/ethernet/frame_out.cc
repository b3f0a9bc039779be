// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Ethernet Segment". The way of one frame to the wire. Adapter's lock held. Never allocates.
#include "vhca/ethernet/frame_out.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/journal.hh"
#include "vhca/ethernet/layers.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::ethernet {

namespace {

using prm::Syndrome;

// In front of the frame's type. There is room for it in front of the frame.
void insert_tag(std::byte* frame, uint32_t tag) noexcept {
  constexpr std::size_t addresses = 12;
  const be32 bytes{tag};
  std::memmove(frame - sizeof(bytes), frame, addresses);
  std::memcpy(frame - sizeof(bytes) + addresses, &bytes, sizeof(bytes));
}

// The frame in eth.frame: what lies in the WQE, then the data segments through their keys.
Verdict put_together(EthState& eth, const wq::Qp& qp, const FrameParts& parts) noexcept {
  std::byte* to = eth.frame.data() + (parts.tag != 0 ? sizeof(parts.tag) : 0);
  std::copy(parts.head.begin(), parts.head.end(), to);
  tpt::SegmentList from{parts.segments, {qp.spec.pd, qp.qpn.value(), prm::mkey::local_read}};
  tpt::Transfer t =
      tpt::gather_bytes(eth.context->translator, from, to + parts.head.size(), parts.segment_bytes);
  if (!t.ok()) return refuse_packet(Syndrome::local_prot, t.source.hardware);
  eth.context->journal->translated(parts.segments.empty() ? 0 : parts.segments[0].key, t.pieces,
                                   parts.segment_bytes);
  if (parts.tag != 0) insert_tag(to, parts.tag);
  write_checksums(std::span(eth.frame).first(parts.bytes()), asked_by(qp, parts.ask));
  return {};
}

// Of a frame that neither the wire nor another client takes.
void count_lost(EthState& eth, const wq::Qp& qp, EthPort& port, uint32_t bytes) noexcept {
  port.counters.tx_drops++;
  eth.context->journal->frame_drop(qp.attr.port, bytes,
                                   port.wire != nullptr ? "not for this wire" : "no wire");
}

}  // namespace

std::size_t longest_frame(const EthState& eth, const EthPort& port) noexcept {
  return port.wire != nullptr ? std::min(wire::max_frame(port.wire->mtu()), eth.frame.size())
                              : eth.frame.size();
}

void write_checksums(std::span<std::byte> frame, EthAsk ask) noexcept {
  if (ask.checksums() == 0) return;
  const wire::PacketView outer = find_outer(frame, ask);
  const wire::PacketView inner = find_inner(frame, outer, ask);
  if (ask.has(prm::eth::l3_inner_csum)) wire::write_l3_checksum(frame, inner);
  if (ask.has(prm::eth::l4_inner_csum)) wire::write_l4_checksum(frame, inner);
  if (ask.has(prm::eth::l3_csum)) wire::write_l3_checksum(frame, outer);
  if (ask.has(prm::eth::l4_csum)) wire::write_l4_checksum(frame, outer);
}

Verdict send_frame(EthState& eth, wq::Qp& qp, const FrameParts& parts) noexcept {
  EthPort& port = eth_port(eth, qp.attr.port);
  const uint64_t bytes = parts.bytes();
  if (parts.head.size() + parts.segment_bytes < wire::ether_header_bytes ||
      bytes > longest_frame(eth, port))
    return refuse_packet(Syndrome::local_length);
  if (Verdict v = put_together(eth, qp, parts); !v.ok()) return v;
  auto frame = std::span<const std::byte>(eth.frame).first(bytes);
  if (eth.egress_rules != 0) [[unlikely]] {
    frame = eth_leave(eth, port, qp, frame);
    if (frame.empty()) {
      port.counters.tx_filtered++;
      eth.context->journal->frame_drop(qp.attr.port, static_cast<uint32_t>(bytes),
                                       "a rule of what leaves drops it");
      return {};
    }
  }
  wire::Wire::Sent sent = port.wire != nullptr ? port.wire->send(frame) : wire::Wire::Sent::refused;
  if (sent == wire::Wire::Sent::busy) {
    port.counters.tx_waits++;
    return Verdict::wire_full();
  }
  const bool looped = eth_loop_back(eth, qp, frame);
  if (sent == wire::Wire::Sent::refused && !looped) {
    count_lost(eth, qp, port, static_cast<uint32_t>(frame.size()));
    return {};
  }
  if (eth.egress_rules != 0) [[unlikely]] {
    port.egress.count_hits(frame.size());
    if (eth.soft) eth.soft->count(true);
  }
  port.counters.tx_packets++;
  port.counters.tx_bytes += frame.size();
  if (port.counts_casts) [[unlikely]]
    port.tx_casts.add(frame);
  eth.context->journal->frame_out(qp.attr.port, static_cast<uint32_t>(frame.size()));
  return {};
}

}  // namespace kilim::vhca::ethernet
