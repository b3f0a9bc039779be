// SPDX-License-Identifier: BSD-3-Clause
// Segmentation of TCP and UDP, as a card's large send does it.
#include "vhca/wire/segment.hh"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vhca/wire/tunnel.hh"

namespace kilim::vhca::wire {

namespace {
constexpr uint32_t tcp_seq_at = 4, tcp_flags_at = 13, udp_length_at = 4, outer_sum_at = 6;
constexpr uint16_t gre_of_each_packet = 0x9000;  // a sum, a sequence number (RFC 2784, 2890)
// Flags of TCP (RFC 9293).
constexpr std::byte tcp_fin{0x01}, tcp_psh{0x08}, tcp_cwr{0x80};
}  // namespace

bool Segmenter::open(std::span<const std::byte> frame, const Cut& cut) noexcept {
  *this = Segmenter{};
  view_ = parse_packet(frame);
  if (cut.l4_at != 0 && cut.l4_at != view_.l4_at) {
    const TunnelView tunnel = parse_tunnel(frame, view_);
    if (tunnel.kind == TunnelKind::none || tunnel.inner.l4_at != cut.l4_at ||
        (tunnel.gre_flags & gre_of_each_packet) != 0)
      return false;
    outer_ = view_;
    view_ = tunnel.inner;
  }
  const bool fits = cut.l4 == L4::none || cut.l4 == view_.l4;
  if (view_.l4 == L4::none || !fits || cut.payload_bytes == 0) return false;
  frame_ = frame;
  headers_ = view_.l4_at + view_.l4_header;
  end_ = view_.l3_end - headers_;
  piece_ = std::min(cut.payload_bytes, end_);
  return end_ > 0;
}

std::size_t Segmenter::next(std::span<std::byte> out) noexcept {
  uint32_t bytes = std::min(piece_, end_ - at_);
  if (bytes == 0 || out.size() < headers_ + bytes) return 0;
  std::memcpy(out.data(), frame_.data(), headers_);
  std::memcpy(out.data() + headers_, frame_.data() + headers_ + at_, bytes);
  adjust(out.first(headers_ + bytes), bytes);
  at_ += bytes;
  count_++;
  return headers_ + bytes;
}

// As tcp_gso_segment() and inet_gso_segment() of the kernel: FIN and PSH in the last piece only,
// CWR in the first only (RFC 3168), the identification counts up.
void write_segment_headers(std::span<std::byte> headers, const PacketView& v,
                           const SegmentPlace& s) noexcept {
  auto length = static_cast<uint16_t>(s.bytes - v.l3_at);
  if (v.l3 == L3::ipv4) {
    put_be<uint16_t>(headers, v.l3_at + 2, length);
    auto id = static_cast<uint16_t>(get_be<uint16_t>(headers, v.l3_at + 4) + s.number);
    put_be<uint16_t>(headers, v.l3_at + 4, id);
  } else {
    put_be<uint16_t>(headers, v.l3_at + 4, static_cast<uint16_t>(length - 40));
  }
  if (v.l4 != L4::tcp) return;
  put_be<uint32_t>(headers, v.l4_at + tcp_seq_at,
                   get_be<uint32_t>(headers, v.l4_at + tcp_seq_at) + s.at);
  std::byte& flags = headers[v.l4_at + tcp_flags_at];
  if (!s.last) flags &= ~(tcp_fin | tcp_psh);
  if (s.at > 0) flags &= ~tcp_cwr;
}

void Segmenter::adjust(std::span<std::byte> out, uint32_t bytes) noexcept {
  PacketView v = view_;
  v.l3_end = static_cast<uint32_t>(out.size());
  const SegmentPlace place{at_, count_, at_ + bytes == end_, out.size()};
  write_segment_headers(out, v, place);
  if (v.l4 == L4::udp)
    put_be<uint16_t>(out, v.l4_at + udp_length_at, static_cast<uint16_t>(v.l3_end - v.l4_at));
  write_l3_checksum(out, v);
  write_l4_checksum(out, v);
  if (outer_.l3 != L3::none) adjust_outer(out, place);
}

// Lengths and identification of what is in front of the inner packet, and its sums: that of UDP
// where there was one (as skb_udp_tunnel_segment() of the kernel).
void Segmenter::adjust_outer(std::span<std::byte> out, const SegmentPlace& place) noexcept {
  PacketView v = outer_;
  v.l3_end = static_cast<uint32_t>(out.size());
  const L4 l4 = std::exchange(v.l4, L4::none);
  write_segment_headers(out, v, place);
  write_l3_checksum(out, v);
  if (l4 != L4::udp) return;
  v.l4 = l4;
  put_be<uint16_t>(out, v.l4_at + udp_length_at, static_cast<uint16_t>(v.l3_end - v.l4_at));
  if (get_be<uint16_t>(out, v.l4_at + outer_sum_at) != 0) write_l4_checksum(out, v);
}

}  // namespace kilim::vhca::wire
