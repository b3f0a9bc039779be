// SPDX-License-Identifier: BSD-3-Clause
// Mode txonly: UDP packets between two addresses of the benchmarking range 198.18.0.0/15, without
// a UDP checksum.
#include <cstring>

#include "forward.hh"
#include "layers.hh"

namespace kilim::testpmd {
namespace {

// `from_ip` differs from packet to packet with --txonly-multi-flow.
void write_headers(std::byte* f, uint32_t length, uint32_t from_ip, const Stream& s) noexcept {
  const Mac& from = own_mac(s);
  const Mac& to = s.peer;
  std::memset(f, 0, udp_header_bytes);
  std::memcpy(f, to.data(), 6);
  std::memcpy(f + 6, from.data(), 6);
  put16(f + 12, 0x0800);
  std::byte* ip = f + 14;
  ip[0] = std::byte{0x45};
  put16(ip + 2, length - 14);
  ip[8] = std::byte{64};
  ip[9] = std::byte{17};
  put32(ip + 12, from_ip);
  put32(ip + 16, 0xc6120002);
  put16(ip + 10, fold(sum_of({ip, 20})));
  std::byte* udp = ip + 20;
  put16(udp, 9);
  put16(udp + 2, 9);
  put16(udp + 4, length - 34);
}

uint32_t next_source(Stream& s) noexcept {
  constexpr uint32_t source = 0xc6120001;  // 198.18.0.1
  if (s.modes == nullptr || !s.modes->multi_flow) return source;
  return source + (s.flow++ & 0xff) * 256;
}

// A device puts a tag in where `tx_vlan set` asked for one.
void ask_for_tag(const Stream& s, pool::Handle& h) noexcept {
  if (s.modes == nullptr || s.tx == nullptr || s.tx_port >= s.modes->tag.size()) return;
  const uint32_t tag = s.modes->tag[s.tx_port];
  if (tag == 0) return;
  s.cache->arena().side(h).tx = {.tag = pool::VlanTag::customer, .tci = static_cast<uint16_t>(tag)};
  h.meta |= pool::Handle::offload;
}

// Gives handles for whole packets, in pieces where --txpkts has several lengths.
uint32_t make_packets(Stream& s, std::span<pool::Handle> out) noexcept {
  const uint32_t n = s.cache->alloc(out, static_cast<uint16_t>(s.tx_length));
  const auto pieces = static_cast<uint32_t>(s.tx_segments.size());
  if (pieces == 0) return n;
  const uint32_t whole = n / pieces * pieces;
  for (uint32_t i = 0; i < whole; i++) {
    out[i].length = static_cast<uint16_t>(s.tx_segments[i % pieces]);
    if (i % pieces + 1 != pieces) out[i].meta |= pool::Handle::more;
  }
  s.cache->free(out.subspan(whole, n - whole));
  return whole;
}

uint32_t run_txonly(Stream& s) noexcept {
  const auto pieces = std::max<uint32_t>(1, static_cast<uint32_t>(s.tx_segments.size()));
  const uint32_t want = wanted(s, sendable(s) / pieces);
  if (want == 0) {
    reclaim(s);
    return 0;
  }
  const std::span<pool::Handle> packets = std::span(s.packets).first(want * pieces);
  const uint32_t n = make_packets(s, packets);
  for (uint32_t i = 0; i < n; i += pieces) {
    write_headers(s.cache->arena().data(packets[i]), s.tx_length, next_source(s), s);
    ask_for_tag(s, packets[i]);
  }
  send_or_drop(s, packets.first(n));
  return n;
}

}  // namespace

const Engine txonly_engine{.name = "txonly",
                           .help = "UDP packets are made and sent",
                           .receives = false,
                           .transmits = true,
                           .gathered = false,
                           .run = run_txonly,
                           .makes = true};

}  // namespace kilim::testpmd
