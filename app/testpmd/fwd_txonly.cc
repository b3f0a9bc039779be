// SPDX-License-Identifier: BSD-3-Clause
// Mode txonly: UDP packets between two addresses of the benchmarking range 198.18.0.0/15, without
// a UDP checksum.
#include <cstring>

#include "forward.hh"
#include "kilim/base/be.hh"

namespace kilim::testpmd {
namespace {

constexpr uint32_t header_bytes = 14 + 20 + 8;

void put16(std::byte* at, uint32_t v) noexcept {
  const be16 b{static_cast<uint16_t>(v)};
  std::memcpy(at, &b, 2);
}
void put32(std::byte* at, uint32_t v) noexcept {
  const be32 b{v};
  std::memcpy(at, &b, 4);
}

uint32_t ip_checksum(const std::byte* ip) noexcept {
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2)
    sum += static_cast<uint32_t>(ip[i]) << 8 | static_cast<uint32_t>(ip[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

void write_headers(std::byte* f, uint32_t length, const Mac& from, const Mac& to) noexcept {
  std::memset(f, 0, header_bytes);
  std::memcpy(f, to.data(), 6);
  std::memcpy(f + 6, from.data(), 6);
  put16(f + 12, 0x0800);
  std::byte* ip = f + 14;
  ip[0] = std::byte{0x45};
  put16(ip + 2, length - 14);
  ip[8] = std::byte{64};
  ip[9] = std::byte{17};
  put32(ip + 12, 0xc6120001);
  put32(ip + 16, 0xc6120002);
  put16(ip + 10, ip_checksum(ip));
  std::byte* udp = ip + 20;
  put16(udp, 9);
  put16(udp + 2, 9);
  put16(udp + 4, length - 34);
}

uint32_t run(Stream& s) noexcept {
  uint32_t want = sendable(s);
  if (s.tx_limit != 0) {
    const uint64_t left = s.tx_limit - s.forwarded.read();
    want = left < want ? static_cast<uint32_t>(left) : want;
  }
  if (want == 0) {
    s.tx->reclaim(s.tx_queue);
    return 0;
  }
  const std::span<pool::Handle> packets = std::span(s.packets).first(want);
  const uint32_t n = s.cache->alloc(packets, static_cast<uint16_t>(s.tx_length));
  for (uint32_t i = 0; i < n; i++)
    write_headers(s.cache->arena().data(packets[i]), s.tx_length, s.tx->info().mac, s.peer);
  send_or_drop(s, packets.first(n));
  return n;
}

}  // namespace

const Engine txonly_engine{"txonly", "UDP packets are made and sent", false, true, false, run};

}  // namespace kilim::testpmd
