// SPDX-License-Identifier: BSD-3-Clause
// What DPDK makes of a large receive (drivers/net/mlx5/mlx5_rx.c, mlx5_lro_update_hdr()) says what
// a card leaves to do: headers are the first segment's; time to live, acknowledgement, window and
// PSH are in the completion, and the sum of the payload. Segments with options are not joined
// (lro_time_stamp is not offered). Adapter's lock held. Never allocates but in eth_use_large().
#include "vhca/ethernet/lro.hh"

#include <algorithm>
#include <cstring>

#include "vhca/ethernet/delivery.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr uint32_t plain_tcp = 20, seq_at = 4, ack_at = 8, tcp_bits_at = 13, window_at = 14;
constexpr uint8_t flag_push = 0x08, flag_ack = 0x10;

uint8_t byte_of(std::span<const std::byte> f, std::size_t at) noexcept {
  return std::to_integer<uint8_t>(f[at]);
}

uint32_t payload_at(const wire::PacketView& v) noexcept {
  return v.l4_at + v.l4_header;
}

uint8_t ttl_of(std::span<const std::byte> f, const wire::PacketView& v) noexcept {
  return byte_of(f, v.l3_at + (v.l3 == wire::L3::ipv4 ? 8 : 7));
}

// Data with nothing but ACK and PSH, and no error.
bool can_join(const TirSpec& s, std::span<const std::byte> frame,
              const wire::PacketView& v) noexcept {
  const uint8_t version = v.l3 == wire::L3::ipv4   ? lro::ipv4
                          : v.l3 == wire::L3::ipv6 ? lro::ipv6
                                                   : 0;
  if ((s.lro_versions & version) == 0 || v.l4 != wire::L4::tcp || v.tags != 0 || v.ip_options)
    return false;
  const uint8_t flags = byte_of(frame, v.l4_at + tcp_bits_at);
  return v.l4_header == plain_tcp && (flags | flag_push) == (flag_push | flag_ack) &&
         payload_at(v) + s.lro_min_mss <= v.l3_end && wire::l3_checksum_good(frame, v) &&
         wire::l4_checksum_good(frame, v);
}

// Addresses and ports; `v` of both.
bool same_stream(const LargeReceive& kept, std::span<const std::byte> frame,
                 const wire::PacketView& v) noexcept {
  if (kept.view.l3 != v.l3 || v.l4 != wire::L4::tcp || kept.view.l3_at != v.l3_at) return false;
  const bool four = v.l3 == wire::L3::ipv4;
  const uint32_t addresses = v.l3_at + (four ? 12 : 8);
  return std::memcmp(kept.bytes.data() + addresses, frame.data() + addresses, four ? 8 : 32) == 0 &&
         std::memcmp(kept.bytes.data() + kept.view.l4_at, frame.data() + v.l4_at, 4) == 0;
}

// The longest that is received at once: as the TIR says, and as the next receive WQE has room.
uint64_t limit_of(EthState& eth, const LargeReceive& kept) noexcept {
  const TirSpec& s = kept.to->tir->spec;
  uint64_t most = std::min<uint64_t>(s.lro_bytes, LargeReceives::longest);
  RxHash hash;
  const wq::Qp& qp = pick_queue(*kept.to->tir, std::span(kept.bytes).first(kept.used), hash);
  if (qp.rq.striding()) return std::min(most, uint64_t{qp.rq.strides()} << qp.rq.log_stride);
  if (qp.rq.wqes != 0 && wq::peek_recv(*eth.context, qp, eth.recv) == wq::RecvTake::ok)
    most = std::min(most, eth.recv.room);
  return most;
}

void deliver_kept(EthState& eth, LargeReceive& kept) noexcept {
  const auto frame = std::span<const std::byte>(kept.bytes).first(kept.used);
  JoinedMarks marks{static_cast<uint8_t>(kept.segments),
                    kept.min_ttl,
                    kept.push,
                    be16{kept.last_window},
                    be32{kept.last_ack},
                    {}};
  marks.payload_sum =
      be16::from_raw(wire::fold_sum(wire::add_to_sum(0, frame.subspan(payload_at(kept.view)))));
  EthPort& port = eth.ports[kept.port - 1];
  bool first = true;
  count_delivered(port, deliver(eth, {const_cast<wq::Qp*>(kept.to), kept.tag}, frame, &marks),
                  kept.segments, kept.wire_bytes, first);
  kept.to = nullptr;
  eth.large->count--;
}

void append(LargeReceive& kept, std::span<const std::byte> frame, const wire::PacketView& v,
            std::size_t from) noexcept {
  const auto more = frame.subspan(from, v.l3_end - from);
  std::copy(more.begin(), more.end(), kept.bytes.begin() + kept.used);
  kept.used += static_cast<uint32_t>(more.size());
  kept.segments++;
  kept.wire_bytes += frame.size();
  kept.next_seq = wire::get_be<uint32_t>(frame, v.l4_at + seq_at) + (v.l3_end - payload_at(v));
  kept.min_ttl = std::min(kept.min_ttl, ttl_of(frame, v));
  kept.push |= (byte_of(frame, v.l4_at + tcp_bits_at) & flag_push) != 0;
  kept.last_ack = wire::get_be<uint32_t>(frame, v.l4_at + ack_at);
  kept.last_window = wire::get_be<uint16_t>(frame, v.l4_at + window_at);
}

bool goes_on_with(EthState& eth, const LargeReceive& kept, std::span<const std::byte> frame,
                  const wire::PacketView& v) noexcept {
  constexpr uint32_t most_segments = 255;  // lro_num_seg
  return wire::get_be<uint32_t>(frame, v.l4_at + seq_at) == kept.next_seq &&
         kept.segments < most_segments &&
         kept.used + (v.l3_end - payload_at(v)) <= limit_of(eth, kept);
}

LargeReceive& free_place(EthState& eth) noexcept {
  LargeReceives& all = *eth.large;
  LargeReceive* oldest = all.open.data();
  for (LargeReceive& l : all.open) {
    if (l.to == nullptr) return l;
    if (l.due_ns < oldest->due_ns) oldest = &l;
  }
  deliver_kept(eth, *oldest);
  return *oldest;
}

LargeReceive* find_stream(EthState& eth, const wq::Qp* to, std::span<const std::byte> frame,
                          const wire::PacketView& v) noexcept {
  for (LargeReceive& l : eth.large->open)
    if (l.to == to && same_stream(l, frame, v)) return &l;
  return nullptr;
}

}  // namespace

void eth_use_large(EthState& eth) {
  if (eth.large) return;
  eth.large = std::make_shared<LargeReceives>();
  for (LargeReceive& l : eth.large->open) l.bytes.resize(LargeReceives::longest);
}

bool eth_join(EthState& eth, uint32_t port, FlowTarget to,
              std::span<const std::byte> frame) noexcept {
  if (!eth.large || to.qp->tir == nullptr || to.qp->tir->spec.lro_versions == 0) return false;
  const TirSpec& s = to.qp->tir->spec;
  const wire::PacketView v = wire::parse_packet(frame);
  LargeReceive* kept = find_stream(eth, to.qp, frame, v);
  RxHash hash;
  const bool joins = can_join(s, frame, v) && v.l3_end <= std::min(s.lro_bytes, 65535u) &&
                     !pick_queue(*to.qp->tir, frame, hash).spec.scatter_fcs;
  if (kept != nullptr && !(joins && kept->tag == to.tag && goes_on_with(eth, *kept, frame, v))) {
    deliver_kept(eth, *kept);
    kept = nullptr;
  }
  if (!joins) return false;
  if (kept != nullptr) {
    append(*kept, frame, v, payload_at(v));
  } else {
    kept = &free_place(eth);
    kept->to = to.qp;
    kept->tag = to.tag;
    kept->port = port;
    kept->due_ns = eth.context->now_ns + uint64_t{s.lro_timeout_us} * 1000;
    kept->view = v;
    kept->used = kept->segments = 0;
    kept->wire_bytes = 0;
    kept->min_ttl = 0xff;
    kept->push = false;
    eth.large->count++;
    append(*kept, frame, v, 0);
  }
  if (kept->push) deliver_kept(eth, *kept);
  return true;
}

void eth_deliver_due(EthState& eth) noexcept {
  for (LargeReceive& l : eth.large->open)
    if (l.to != nullptr && l.due_ns <= eth.context->now_ns) deliver_kept(eth, l);
}

void eth_deliver_kept(EthState& eth, const wq::Qp& to) noexcept {
  if (!eth.large) return;
  for (LargeReceive& l : eth.large->open)
    if (l.to == &to) deliver_kept(eth, l);
}

}  // namespace kilim::vhca::ethernet
