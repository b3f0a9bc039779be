// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes RoCEv2 frames.
#include "vhca/transport/roce_frame.hh"

#include <algorithm>
#include <cstring>

#include "vhca/core/address.hh"
#include "vhca/transport/icrc.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::transport {

namespace {

using namespace roce;

constexpr std::size_t ether = 14, ipv4 = 20, ipv6 = 40, udp = 8;
constexpr uint16_t default_pkey = 0xffff;
constexpr uint8_t protocol_udp = 17;

// Extended headers in the order in which they follow the base header.
std::size_t header_bytes(uint16_t flags) noexcept {
  return ((flags & flag::xrceth) != 0 ? sizeof(XrcEth) : 0) +
         ((flags & flag::dceth) != 0 ? sizeof(DcEth) : 0) +
         ((flags & flag::deth) != 0 ? sizeof(Deth) : 0) +
         ((flags & flag::reth) != 0 ? sizeof(Reth) : 0) +
         ((flags & flag::atomic) != 0 ? sizeof(AtomicEth) : 0) +
         ((flags & flag::aeth) != 0 ? sizeof(Aeth) : 0) +
         ((flags & flag::atomic_ack) != 0 ? sizeof(AtomicAckEth) : 0) +
         ((flags & (flag::imm | flag::ieth)) != 0 ? sizeof(ImmDt) : 0);
}

uint64_t joined(be32 high, be32 low) noexcept {
  return uint64_t{high.host()} << 32 | low.host();
}
void split(uint64_t v, be32& high, be32& low) noexcept {
  high = be32{static_cast<uint32_t>(v >> 32)};
  low = be32{static_cast<uint32_t>(v)};
}

template <typename T>
T take(const std::byte*& p) noexcept {
  T v;
  std::memcpy(&v, p, sizeof(v));
  p += sizeof(v);
  return v;
}
template <typename T>
void put(std::byte*& p, const T& v) noexcept {
  std::memcpy(p, &v, sizeof(v));
  p += sizeof(v);
}

void read_dceth(const DcEth& h, RocePacket& r) noexcept {
  r.dc_key = joined(h.key_high, h.key_low);
  r.src_qpn = dceth::src_qpn::get(h);
  r.base_psn = dceth::base_psn::get(h);
  r.session = uint64_t{dceth::session_47_40::get(h)} << 40 |
              uint64_t{dceth::session_39_32::get(h)} << 32 | h.session_low.host();
}

DcEth dceth_of(const RocePacket& r) noexcept {
  DcEth h;
  split(r.dc_key, h.key_high, h.key_low);
  h.session_src_qpn =
      be32{dceth::session_47_40::at(r.session >> 40 & 0xff) | dceth::src_qpn::at(r.src_qpn)};
  h.session_base_psn =
      be32{dceth::session_39_32::at(r.session >> 32 & 0xff) | dceth::base_psn::at(r.base_psn)};
  h.session_low = be32{static_cast<uint32_t>(r.session)};
  return h;
}

void read_headers(const std::byte* p, RocePacket& r) noexcept {
  if ((r.flags & flag::xrceth) != 0) r.srqn = xrceth::srqn::get(take<XrcEth>(p));
  if ((r.flags & flag::dceth) != 0) read_dceth(take<DcEth>(p), r);
  if ((r.flags & flag::deth) != 0) {
    Deth h = take<Deth>(p);
    r.qkey = h.qkey.host();
    r.src_qpn = deth::src_qpn::get(h);
  }
  if ((r.flags & flag::reth) != 0) {
    Reth h = take<Reth>(p);
    r.va = joined(h.va_high, h.va_low);
    r.rkey = h.rkey.host();
    r.length = h.length.host();
  }
  if ((r.flags & flag::atomic) != 0) {
    AtomicEth h = take<AtomicEth>(p);
    r.va = joined(h.va_high, h.va_low);
    r.rkey = h.rkey.host();
    r.swap_add = joined(h.swap_high, h.swap_low);
    r.compare = joined(h.compare_high, h.compare_low);
  }
  if ((r.flags & flag::aeth) != 0) {
    Aeth h = take<Aeth>(p);
    r.ack_kind = static_cast<uint8_t>(aeth::kind::get(h));
    r.ack_value = static_cast<uint8_t>(aeth::value::get(h));
    r.msn = aeth::msn::get(h);
  }
  if ((r.flags & flag::atomic_ack) != 0) {
    AtomicAckEth h = take<AtomicAckEth>(p);
    r.original = joined(h.original_high, h.original_low);
  }
  if ((r.flags & (flag::imm | flag::ieth)) != 0) r.imm_raw = take<ImmDt>(p).data.raw();
}

void write_headers(std::byte* p, const RocePacket& r) noexcept {
  if ((r.flags & flag::xrceth) != 0) put(p, XrcEth{be32{xrceth::srqn::at(r.srqn)}});
  if ((r.flags & flag::dceth) != 0) put(p, dceth_of(r));
  if ((r.flags & flag::deth) != 0) put(p, Deth{be32{r.qkey}, be32{deth::src_qpn::at(r.src_qpn)}});
  if ((r.flags & flag::reth) != 0) {
    Reth h{{}, {}, be32{r.rkey}, be32{r.length}};
    split(r.va, h.va_high, h.va_low);
    put(p, h);
  }
  if ((r.flags & flag::atomic) != 0) {
    AtomicEth h{};
    h.rkey = be32{r.rkey};
    split(r.va, h.va_high, h.va_low);
    split(r.swap_add, h.swap_high, h.swap_low);
    split(r.compare, h.compare_high, h.compare_low);
    put(p, h);
  }
  if ((r.flags & flag::aeth) != 0) {
    put(p, Aeth{be32{aeth::kind::at(r.ack_kind) | aeth::value::at(r.ack_value) |
                     aeth::msn::at(r.msn & psn_mask)}});
  }
  if ((r.flags & flag::atomic_ack) != 0) {
    AtomicAckEth h;
    split(r.original, h.original_high, h.original_low);
    put(p, h);
  }
  if ((r.flags & (flag::imm | flag::ieth)) != 0) put(p, r.imm_raw);
}

void write_ipv4(const RocePath& path, std::size_t l4_bytes, std::span<std::byte> ip) noexcept {
  constexpr uint16_t dont_fragment = 0x4000;
  wire::put_be<uint16_t>(ip, 0, static_cast<uint16_t>(0x4500 | path.traffic_class));
  wire::put_be<uint16_t>(ip, 2, static_cast<uint16_t>(ipv4 + l4_bytes));
  wire::put_be<uint16_t>(ip, 4, 0);
  wire::put_be<uint16_t>(ip, 6,
                         dont_fragment);  // as rxe's prepare_ipv4_hdr() in the kernel's rxe_net.c
  wire::put_be<uint16_t>(ip, 8, static_cast<uint16_t>(path.hop_limit << 8 | protocol_udp));
  wire::put_be<uint16_t>(ip, 10, 0);
  std::memcpy(ip.data() + 12, path.sgid.data() + 12, 4);
  std::memcpy(ip.data() + 16, path.dgid.data() + 12, 4);
  const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_to_sum(0, ip.first(ipv4))));
  std::memcpy(ip.data() + 10, &sum, sizeof(sum));
}

void write_ipv6(const RocePath& path, std::size_t l4_bytes, std::span<std::byte> ip) noexcept {
  wire::put_be<uint32_t>(
      ip, 0, 6u << 28 | uint32_t{path.traffic_class} << 20 | (path.flow_label & 0xfffff));
  wire::put_be<uint16_t>(ip, 4, static_cast<uint16_t>(l4_bytes));
  ip[6] = std::byte{protocol_udp};
  ip[7] = std::byte{path.hop_limit};
  std::memcpy(ip.data() + 8, path.sgid.data(), path.sgid.size());
  std::memcpy(ip.data() + 24, path.dgid.data(), path.dgid.size());
}

// All that stands before the base header; `l4_bytes` begin with the UDP header.
void write_ip(const RocePath& path, std::size_t l4_bytes, std::span<std::byte> out) noexcept {
  const bool four = is_ipv4(path.dgid);
  const std::size_t l4 = ether + (four ? ipv4 : ipv6);
  std::memcpy(out.data(), path.dst.data(), path.dst.size());
  std::memcpy(out.data() + 6, path.src.data(), path.src.size());
  wire::put_be<uint16_t>(out, 12, four ? 0x0800 : 0x86dd);
  (four ? write_ipv4 : write_ipv6)(path, l4_bytes, out.subspan(ether));
  wire::put_be<uint16_t>(out, l4, path.src_port);
  wire::put_be<uint16_t>(out, l4 + 2, udp_port);
  wire::put_be<uint16_t>(out, l4 + 4, static_cast<uint16_t>(l4_bytes));
  wire::put_be<uint16_t>(out, l4 + 6, 0);  // the ICRC does its work
}

Gid mapped(const std::byte* address) noexcept {
  Gid gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::memcpy(gid.data() + 12, address, 4);
  return gid;
}

// Both GIDs, out of a header of either version.
void read_ip(std::span<const std::byte> frame, const wire::PacketView& v, RocePacket& r) noexcept {
  r.ip = frame.subspan(v.l3_at, v.l3 == wire::L3::ipv4 ? ipv4 : ipv6);
  if (v.l3 == wire::L3::ipv4) {
    r.sgid = mapped(r.ip.data() + 12);
    r.dgid = mapped(r.ip.data() + 16);
    return;
  }
  std::memcpy(r.sgid.data(), r.ip.data() + 8, r.sgid.size());
  std::memcpy(r.dgid.data(), r.ip.data() + 24, r.dgid.size());
}

}  // namespace

RoceParse parse_roce(std::span<const std::byte> frame, RocePacket& r) noexcept {
  wire::PacketView v = wire::parse_packet(frame);
  if (v.l3 == wire::L3::none || v.l4 != wire::L4::udp ||
      wire::get_be<uint16_t>(frame, v.l4_at + 2) != udp_port)
    return RoceParse::not_roce;
  if (!wire::l3_checksum_good(frame, v)) return RoceParse::bad;
  std::size_t at = v.l4_at + v.l4_header;
  // Extension headers would lie before what the ICRC covers in one piece.
  if (v.ip_options || v.l3_end - at < sizeof(Bth) + icrc_bytes) return RoceParse::bad;
  if (wire::get_be<uint16_t>(frame, v.l4_at + 4) != v.l3_end - v.l4_at) return RoceParse::bad;
  Bth h;
  std::memcpy(&h, frame.data() + at, sizeof(h));
  auto opcode = static_cast<uint8_t>(bth::opcode::get(h));
  const OpRow* row = op_row(opcode);
  r = {};
  r.service = static_cast<Service>(opcode >> 5);
  r.flags = row != nullptr ? flags_of(r.service, *row) : uint16_t{0};
  if (r.flags == 0 || bth::version::get(h) != 0) return RoceParse::bad;
  if ((bth::pkey::get(h) & 0x7fff) != (default_pkey & 0x7fff)) return RoceParse::bad;
  r.op = row->op;
  at += sizeof(h);
  std::size_t tail = icrc_bytes + bth::pad::get(h);
  std::size_t headers = header_bytes(r.flags);
  if (v.l3_end - at < headers + tail || !icrc_good(frame, v)) return RoceParse::bad;
  std::size_t bytes = v.l3_end - at - headers - tail;
  if (bytes != 0 && (r.flags & flag::payload) == 0) return RoceParse::bad;
  r.solicited = bth::solicited::get(h) != 0;
  r.ack_request = bth::ack_request::get(h) != 0;
  r.dest_qpn = bth::dest_qpn::get(h);
  r.psn = bth::psn::get(h);
  std::memcpy(r.smac.data(), frame.data() + r.smac.size(), r.smac.size());
  read_ip(frame, v, r);
  read_headers(frame.data() + at, r);
  r.payload = frame.subspan(at + headers, bytes);
  return RoceParse::ok;
}

std::size_t roce_payload_at(uint16_t flags) noexcept {
  return ether + ipv6 + udp + sizeof(Bth) + header_bytes(flags);
}

std::size_t build_roce(const RocePath& path, const RocePacket& r, std::size_t payload_bytes,
                       std::span<std::byte> out) noexcept {
  const bool four = is_ipv4(path.dgid);
  const std::size_t ip = four ? ipv4 : ipv6, place = roce_payload_at(r.flags);
  std::size_t end = place - ipv6 + ip + payload_bytes;
  // The payload was put behind the longer header: its place is known before the path is.
  if (four) std::memmove(out.data() + end - payload_bytes, out.data() + place, payload_bytes);
  std::size_t pad = (4 - payload_bytes % 4) % 4;
  std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(end), pad, std::byte{0});
  end += pad + icrc_bytes;
  write_ip(path, end - ether - ip, out);
  Bth h;
  h.opcode_flags_pkey =
      be32{bth::opcode::at(opcode_of(r.service, r.op)) | bth::solicited::at(r.solicited) |
           bth::migrated::at(1u) | bth::pad::at(pad) | bth::pkey::at(default_pkey)};
  h.fecn_dest_qpn = be32{bth::dest_qpn::at(r.dest_qpn)};
  h.ack_psn = be32{bth::ack_request::at(r.ack_request) | bth::psn::at(r.psn)};
  std::byte* p = out.data() + ether + ip + udp;
  put(p, h);
  write_headers(p, r);
  std::span<std::byte> frame = out.first(end);
  wire::PacketView v;
  v.l3 = four ? wire::L3::ipv4 : wire::L3::ipv6;
  v.l3_at = ether;
  v.l4_at = static_cast<uint32_t>(ether + ip);
  v.l3_end = static_cast<uint32_t>(end);
  write_icrc(frame, v);
  return end;
}

bool mac_of_gid(const Gid& gid, Mac& mac) noexcept {
  static constexpr uint8_t prefix[8] = {0xfe, 0x80};
  if (std::memcmp(gid.data(), prefix, sizeof(prefix)) != 0) return false;
  if (gid[11] != 0xff || gid[12] != 0xfe) return false;
  mac = {static_cast<uint8_t>(gid[8] ^ 2), gid[9], gid[10], gid[13], gid[14], gid[15]};
  return true;
}

}  // namespace kilim::vhca::transport
