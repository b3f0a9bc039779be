// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Large Send Offload". The headers of a packet lie in the WQE, its payload behind the data
// segments; it leaves as frames of `mss` bytes of payload each. Adapter's lock held. Never
// allocates; a WQE is untrusted.
#include <algorithm>
#include <array>

#include "vhca/ethernet/eth_form.hh"
#include "vhca/ethernet/frame_out.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/segment.hh"
#include "vhca/wire/tunnel.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr std::size_t longest_headers = 1024;  // more than an inline header can have
constexpr uint32_t udp_header_bytes = 8;
constexpr uint8_t ip_protocol_udp = 17;

// The headers of the packet, without its payload.
struct SegmentHeaders {
  std::array<std::byte, longest_headers> bytes;
  std::size_t count = 0;
  wire::PacketView view;   // whose payload is cut: of a packet in a tunnel the inner headers
  wire::PacketView outer;  // L3::none: there is no tunnel
  [[nodiscard]] std::span<std::byte> span() noexcept { return std::span(bytes).first(count); }
};

// Makes the length of the IP header at `v` that of the headers alone. A header is found whatever
// its length says.
void set_ip_length(std::span<std::byte> h, const wire::PacketView& v) noexcept {
  const std::size_t bytes = h.size() - v.l3_at;
  if (v.ether_type == 0x0800 && bytes >= 20)
    wire::put_be<uint16_t>(h, v.l3_at + 2, static_cast<uint16_t>(bytes));
  if (v.ether_type == 0x86dd && bytes >= 40)
    wire::put_be<uint16_t>(h, v.l3_at + 4, static_cast<uint16_t>(bytes - 40));
}

// The outer header of UDP, by which VXLAN is known.
void set_udp_length(std::span<std::byte> h, const wire::PacketView& v) noexcept {
  if (v.l3 != wire::L3::none && v.protocol == ip_protocol_udp &&
      v.l4_at + udp_header_bytes <= h.size())
    wire::put_be<uint16_t>(h, v.l4_at + 4, static_cast<uint16_t>(h.size() - v.l4_at));
}

// Where the inner IP header is: behind a tunnel's, or where the WQE says; L3 and lengths of the
// view mean nothing yet. `l3_at` 0: there is none.
wire::PacketView place_inner(std::span<const std::byte> h, const wire::PacketView& outer,
                             EthAsk ask) noexcept {
  const wire::TunnelView t = wire::parse_tunnel(h, outer);
  if (t.kind != wire::TunnelKind::none) return t.inner;
  wire::PacketView v;
  v.l3_at = ask.place(offsetof(prm::EthSeg, swp_inner_l3));
  v.ether_type = (ask.parser_flags() & prm::eth::swp_inner_ipv6) != 0 ? 0x86dd : 0x0800;
  return v;
}

// The inner headers, if there are any that end with TCP's; else nothing changes.
void read_inner(SegmentHeaders& h, EthAsk ask) noexcept {
  if (h.view.l4 == wire::L4::tcp) return;  // most packets: no tunnel
  const std::array<std::byte, longest_headers> kept = h.bytes;
  set_udp_length(h.span(), h.view);
  const wire::PacketView outer = wire::parse_packet(h.span());
  const wire::PacketView place = place_inner(h.span(), outer, ask);
  wire::PacketView inner;
  if (place.l3_at != 0 && place.l3_at < h.count) {
    set_ip_length(h.span(), place);
    inner = wire::parse_ip_at(h.span(), place.ether_type, place.l3_at);
  }
  if (inner.l4 == wire::L4::tcp && inner.l4_at + inner.l4_header == h.count) {
    h.outer = outer;
    h.view = inner;
  } else {
    h.bytes = kept;
  }
}

// Whether the headers end with those of TCP or UDP. Lengths in them mean nothing: Linux has 0 there
// for packets that are too long to say theirs (IPv4 and IPv6 "BIG TCP").
bool read_headers(std::span<const std::byte> head, EthAsk ask, bool tunnels,
                  SegmentHeaders& h) noexcept {
  h.count = head.size();
  std::copy(head.begin(), head.end(), h.bytes.begin());
  set_ip_length(h.span(), wire::parse_packet(head));
  h.view = wire::parse_packet(h.span());
  if (h.view.l3 == wire::L3::none || h.view.fragment) return false;
  if (tunnels) read_inner(h, ask);
  if (h.outer.l3 != wire::L3::none) return true;
  // The length of UDP is the client's: that of every frame (Linux mlx5e_udp_gso_handle_tx_skb).
  if (h.view.l4 == wire::L4::none && h.view.protocol == ip_protocol_udp) {
    h.view.l4 = wire::L4::udp;
    h.view.l4_header = udp_header_bytes;
  }
  return h.view.l4 != wire::L4::none && h.view.l4_at + h.view.l4_header == h.count;
}

// Walks the payload's segments, a frame at a time.
class Payload {
 public:
  explicit Payload(const wq::DataList& list) noexcept : list_(list) {}

  void skip(uint64_t bytes) noexcept {
    while (bytes > 0 && index_ < list_.count) {
      const uint64_t here = std::min(bytes, list_.segments[index_].bytes - used_);
      step(here);
      bytes -= here;
    }
  }
  // The next `bytes` bytes, of which the list has as many at least.
  std::span<const tpt::Segment> take(uint64_t bytes) noexcept {
    std::size_t count = 0;
    while (bytes > 0 && index_ < list_.count) {
      const tpt::Segment& s = list_.segments[index_];
      const uint64_t here = std::min(bytes, s.bytes - used_);
      if (here != 0) taken_[count++] = {s.addr + used_, here, s.key, s.immediate};
      step(here);
      bytes -= here;
    }
    return std::span(taken_).first(count);
  }

 private:
  void step(uint64_t bytes) noexcept {
    used_ += bytes;
    if (used_ < list_.segments[index_].bytes) return;
    used_ = 0;
    index_++;
  }

  const wq::DataList& list_;
  uint32_t index_ = 0;
  uint64_t used_ = 0;  // bytes of the segment at `index_`
  std::array<tpt::Segment, 64> taken_;
};

// Lengths and identification, which counts up as the inner one does (the capability
// tunnel_lso_const_out_ip_id is not offered). A sum of UDP stays the client's unless it is asked
// for.
void write_outer_headers(SegmentHeaders& h, const wire::SegmentPlace& place) noexcept {
  wire::PacketView ip = h.outer;
  ip.l4 = wire::L4::none;
  wire::write_segment_headers(h.span(), ip, place);
  if (h.outer.protocol == ip_protocol_udp)
    wire::put_be<uint16_t>(h.span(), h.outer.l4_at + 4,
                           static_cast<uint16_t>(place.bytes - h.outer.l4_at));
}

// The frame behind `number` others, with headers of its own.
Verdict send_segment(EthState& eth, wq::Qp& qp, const EthForm& form,
                     const SegmentHeaders& of_packet,
                     std::pair<uint32_t, std::span<const tpt::Segment>> part) noexcept {
  SegmentHeaders h = of_packet;
  const auto [number, segments] = part;
  const uint64_t at = uint64_t{number} * form.mss;
  const uint64_t bytes = std::min<uint64_t>(form.mss, form.data.total - at);
  const wire::SegmentPlace place{static_cast<uint32_t>(at), static_cast<uint16_t>(number),
                                 at + bytes == form.data.total, h.count + bytes};
  wire::write_segment_headers(h.span(), h.view, place);
  if (h.outer.l3 != wire::L3::none) write_outer_headers(h, place);
  return send_frame(eth, qp, {h.span(), segments, bytes, form.ask});
}

}  // namespace

Verdict eth_exec_large_send(EthState& eth, wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  const uint32_t log_most = eth.context->profile->log_max_tso;
  if (log_most == 0) return malformed("the profile offers no segmentation");
  EthForm form;
  SegmentHeaders headers;
  if (!read_form(*eth.context, wqe, form) || form.tag != 0 || form.mss == 0 ||
      form.data.total == 0 ||
      !read_headers(form.head, asked_by(qp, form.ask), eth.context->profile->tunnels, headers))
    return malformed("a packet to be segmented that cannot be read");
  if (form.data.total > uint64_t{1} << log_most)
    return {prm::Syndrome::local_length, "longer than what can be segmented"};
  uint32_t next = qp.retrying ? qp.sq.packets_out : 0;
  Payload payload(form.data);
  payload.skip(uint64_t{next} * form.mss);
  for (; uint64_t{next} * form.mss < form.data.total; next++) {
    const uint64_t left = form.data.total - uint64_t{next} * form.mss;
    const auto segments = payload.take(std::min<uint64_t>(form.mss, left));
    const Verdict v = send_segment(eth, qp, form, headers, {next, segments});
    if (v.ok()) continue;
    qp.sq.packets_out = next;
    return v;
  }
  return {};
}

}  // namespace kilim::vhca::ethernet
