// SPDX-License-Identifier: BSD-3-Clause
// Mode flowgen: UDP packets to many IP addresses, one after another, are made and sent; what comes
// is counted and freed. The addresses are testpmd's.
#include "forward.hh"
#include "layers.hh"

namespace kilim::testpmd {
namespace {

constexpr Mac ether_src{0, 1, 2, 3, 4, 0}, ether_dst{0, 1, 2, 3, 4, 1};
constexpr uint32_t ip_src = 0x0afe0000, ip_dst = 0x0afd0000;  // 10.254.0.0, 10.253.0.0
constexpr uint16_t udp_src = 1000, udp_dst = 1001;
constexpr uint32_t crc_bytes = 4;  // the length that is asked for counts them

void write_packet(std::byte* f, uint32_t length, uint32_t flow) noexcept {
  std::memset(f, 0, udp_header_bytes);
  std::memcpy(f, ether_dst.data(), 6);
  std::memcpy(f + 6, ether_src.data(), 6);
  put16(f + 12, type_ipv4);
  std::byte* ip = f + 14;
  ip[0] = std::byte{0x45};
  put16(ip + 2, length - 14);
  ip[8] = std::byte{64};
  ip[9] = std::byte{protocol_udp};
  put32(ip + 12, ip_src);
  put32(ip + 16, ip_dst + flow);
  put16(ip + 10, fold(sum_of({ip, 20})));
  std::byte* udp = ip + 20;
  put16(udp, udp_src);
  put16(udp + 2, udp_dst);
  put16(udp + 4, length - 34);
}

uint32_t terminate(Stream& s) noexcept {
  const uint32_t n =
      receive(s, std::span(s.packets).first(std::min(s.burst * s.pieces, max_burst)));
  if (n != 0) s.cache->free(std::span(s.packets).first(n));
  return n;
}

uint32_t run_flowgen(Stream& s) noexcept {
  if (s.draining) {
    reclaim(s);
    return 0;
  }
  const uint32_t came = terminate(s);
  const uint32_t want = wanted(s, sendable(s) / s.pieces);
  if (want == 0) {
    reclaim(s);
    return came;
  }
  const uint32_t flows = s.modes != nullptr ? std::max(1u, s.modes->flows) : 1024;
  const uint32_t length = s.tx_length - crc_bytes;
  const std::span<pool::Handle> packets = std::span(s.packets).first(want);
  const uint32_t n = s.cache->alloc(packets, static_cast<uint16_t>(length));
  for (uint32_t i = 0; i < n; i++) {
    write_packet(s.cache->arena().data(packets[i]), length, s.flow);
    s.flow = (s.flow + 1) % flows;
  }
  send_or_drop(s, packets.first(n));
  return came + n;
}

}  // namespace

const Engine flowgen_engine{.name = "flowgen",
                            .help = "UDP packets to many addresses are made and sent",
                            .receives = true,
                            .transmits = true,
                            .gathered = false,
                            .run = run_flowgen,
                            .makes = true};

}  // namespace kilim::testpmd
