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

namespace kilim::vhca {

namespace {

constexpr std::size_t longest_headers = 1024;  // more than an inline header can have
constexpr uint32_t udp_header_bytes = 8;
constexpr uint8_t ip_protocol_udp = 17;

// The headers of the packet, without its payload.
struct SegmentHeaders {
  std::array<std::byte, longest_headers> bytes;
  std::size_t count = 0;
  PacketView view;
  [[nodiscard]] std::span<std::byte> span() noexcept { return std::span(bytes).first(count); }
};

// Whether the headers end with those of TCP or UDP. Lengths in them mean nothing: Linux has 0 there
// for packets that are too long to say theirs (IPv4 and IPv6 "BIG TCP").
bool read_headers(std::span<const std::byte> head, SegmentHeaders& h) noexcept {
  h.count = head.size();
  std::copy(head.begin(), head.end(), h.bytes.begin());
  const PacketView outer = parse_packet(head);  // finds the IP header whatever its length says
  if (outer.ether_type == 0x0800 && head.size() >= outer.l3_at + 20)
    put_be<uint16_t>(h.span(), outer.l3_at + 2, static_cast<uint16_t>(head.size() - outer.l3_at));
  if (outer.ether_type == 0x86dd && head.size() >= outer.l3_at + 40)
    put_be<uint16_t>(h.span(), outer.l3_at + 4,
                     static_cast<uint16_t>(head.size() - outer.l3_at - 40));
  h.view = parse_packet(h.span());
  if (h.view.l3 == L3::none || h.view.fragment) return false;
  // The length of UDP is the client's: that of every frame (Linux mlx5e_udp_gso_handle_tx_skb).
  if (h.view.l4 == L4::none && h.view.protocol == ip_protocol_udp) {
    h.view.l4 = L4::udp;
    h.view.l4_header = udp_header_bytes;
  }
  return h.view.l4 != L4::none && h.view.l4_at + h.view.l4_header == h.count;
}

// Walks the payload's segments, a frame at a time.
class Payload {
 public:
  explicit Payload(const DataList& list) noexcept : list_(list) {}

  void skip(uint64_t bytes) noexcept {
    while (bytes > 0 && index_ < list_.count) {
      const uint64_t here = std::min(bytes, list_.segments[index_].bytes - used_);
      step(here);
      bytes -= here;
    }
  }
  // The next `bytes` bytes, of which the list has as many at least.
  std::span<const Segment> take(uint64_t bytes) noexcept {
    std::size_t count = 0;
    while (bytes > 0 && index_ < list_.count) {
      const Segment& s = list_.segments[index_];
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

  const DataList& list_;
  uint32_t index_ = 0;
  uint64_t used_ = 0;  // bytes of the segment at `index_`
  std::array<Segment, 64> taken_;
};

// The frame behind `number` others, with headers of its own.
Verdict send_segment(EthState& eth, Qp& qp, const EthForm& form, const SegmentHeaders& of_packet,
                     std::pair<uint32_t, std::span<const Segment>> part) noexcept {
  SegmentHeaders h = of_packet;
  const auto [number, segments] = part;
  const uint64_t at = uint64_t{number} * form.mss;
  const uint64_t bytes = std::min<uint64_t>(form.mss, form.data.total - at);
  write_segment_headers(h.span(), h.view,
                        {static_cast<uint32_t>(at), static_cast<uint16_t>(number),
                         at + bytes == form.data.total, h.count + bytes});
  return send_frame(eth, qp, {h.span(), segments, bytes, form.cs_flags});
}

}  // namespace

Verdict eth_exec_large_send(EthState& eth, Qp& qp, const SendWqe& wqe) noexcept {
  const uint32_t log_most = eth.context->profile->log_max_tso;
  if (log_most == 0) return malformed("the profile offers no segmentation");
  EthForm form;
  SegmentHeaders headers;
  if (!read_form(*eth.context, wqe, form) || form.tag != 0 || form.mss == 0 ||
      form.data.total == 0 || !read_headers(form.head, headers))
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

}  // namespace kilim::vhca
