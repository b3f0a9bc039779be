// SPDX-License-Identifier: BSD-3-Clause
// Mode csum: addresses become the port's and the peer's, and the checksums of IPv4, TCP and UDP are
// written anew, by this lcore or, where `csum set ... hw` says so, by the device, which cuts long
// TCP packets too (`tso set`). A UDP checksum of 0 stays: there is none.
#include <cstring>

#include <rte_mbuf_core.h>

#include "csum_bits.hh"
#include "forward.hh"
#include "kilim/packet.hh"
#include "kilim/queue.hh"
#include "layers.hh"

namespace kilim::testpmd {
namespace {

using queue::EthOffload;

// What the device found out when the packet came.
void count_bad(Stream& s, const pool::Handle& h) noexcept {
  if (!h.has(pool::Handle::side)) return;
  const uint32_t flags = s.cache->arena().side(h).flags;
  s.bad_ip.add((flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD);
  s.bad_l4.add((flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD);
}

// From `at` to `end` of a packet in pieces; a piece may end within a word.
uint64_t sum_pieces(Stream& s, std::span<const pool::Handle> packet, uint32_t at,
                    uint32_t end) noexcept {
  uint64_t sum = 0;
  uint32_t begin = 0;
  for (const pool::Handle h : packet) {
    const std::span<std::byte> bytes = s.cache->arena().bytes(h);
    const uint32_t from = std::max(at, begin), to = std::min(end, begin + h.length);
    if (from < to) {
      const uint64_t part = sum_of(bytes.subspan(from - begin, to - from));
      const auto folded = static_cast<uint16_t>(~fold(part));
      sum += (from - at) % 2 == 0 ? folded : __builtin_bswap16(folded);
    }
    begin += h.length;
  }
  return sum;
}

uint64_t pseudo_sum(const std::byte* ip, const Layers& l) noexcept {
  const std::size_t at = l.type == type_ipv4 ? 12 : 8, n = l.type == type_ipv4 ? 8 : 32;
  return sum_of({ip + at, n}) + l.protocol + (l.end - l.l4);
}

void write_l4(Stream& s, std::span<const pool::Handle> packet, const Layers& l,
              std::byte* field) noexcept {
  put16(field, 0);
  const std::byte* ip = s.cache->arena().data(packet[0]) + l.l3;
  uint16_t sum = fold(pseudo_sum(ip, l) + sum_pieces(s, packet, l.l4, l.end));
  if (sum == 0 && l.protocol == protocol_udp) sum = 0xffff;
  put16(field, sum);
}

// The field of a TCP or UDP checksum that counts; null: there is none.
std::byte* l4_field(std::span<std::byte> frame, const Layers& l, uint32_t length) noexcept {
  const bool tcp = l.protocol == protocol_tcp;
  if (l.l3 == 0 || l.fragment || (!tcp && l.protocol != protocol_udp)) return nullptr;
  if (frame.size() < l.l4 + (tcp ? 20 : 8) || l.end > length || l.end < l.l4 + (tcp ? 20 : 8))
    return nullptr;
  std::byte* field = frame.data() + l.l4 + (tcp ? 16 : 6);
  return tcp || get16(field) != 0 ? field : nullptr;
}

// Bytes of all headers of a TCP packet that is longer than `mss` behind them; 0: it is not.
uint16_t tso_headers(std::span<const std::byte> frame, const Layers& l, uint16_t mss) noexcept {
  if (mss == 0 || l.protocol != protocol_tcp || l.fragment || frame.size() < l.l4 + 20) return 0;
  const uint32_t headers = l.l4 + (static_cast<uint32_t>(frame[l.l4 + 12]) >> 4) * 4;
  if (headers < l.l4 + 20 || frame.size() < headers || l.end <= headers + mss) return 0;
  return static_cast<uint16_t>(headers);
}

void address(Stream& s, std::span<std::byte> frame) noexcept {
  if (s.modes != nullptr && s.modes->csum_keeps_addresses) return;
  std::memcpy(frame.data(), s.peer.data(), 6);
  std::memcpy(frame.data() + 6, own_mac(s).data(), 6);
}

// Ports beyond the table have nothing done by the device.
pool::TxWord word_of(const Stream& s) noexcept {
  pool::TxWord w;
  if (s.modes == nullptr || s.tx == nullptr || s.tx_port >= s.modes->mss.size()) return w;
  w.checksums = wqe_checksums(s.modes->csum_by_device[s.tx_port]);
  w.mss = s.modes->mss[s.tx_port];
  w.tci = static_cast<uint16_t>(s.modes->tag[s.tx_port]);
  if (s.modes->tag[s.tx_port] != 0) w.tag = pool::VlanTag::customer;
  return w;
}

bool by_device(const Stream& s, uint8_t protocol) noexcept {
  if (s.modes == nullptr || s.tx_port >= s.modes->csum_by_device.size()) return false;
  const uint8_t bit = protocol == protocol_tcp ? CsumBy::tcp : CsumBy::udp;
  return (s.modes->csum_by_device[s.tx_port] & bit) != 0;
}

void handle(Stream& s, std::span<pool::Handle> packet, pool::TxWord word) noexcept {
  count_bad(s, packet[0]);
  const std::span<std::byte> frame = s.cache->arena().bytes(packet[0]);
  const Layers l = layers_of(frame);
  if (l.l2 == 0) return;
  address(s, frame);
  uint32_t length = 0;
  for (const pool::Handle h : packet) length += h.length;
  // Joined segments leave as they came, unless `tso set` says otherwise.
  if (word.mss == 0 && packet[0].has(pool::Handle::offload))
    word.mss = s.cache->arena().side(packet[0]).tx.mss;
  word.headers = tso_headers(frame, l, word.mss);
  if (word.headers == 0) word.mss = 0;
  const bool v4 = l.l3 != 0 && l.type == type_ipv4;
  std::byte* field = l4_field(frame, l, length);
  if (!v4) word.checksums &= static_cast<uint8_t>(~EthOffload::l3);
  if (field == nullptr || !by_device(s, l.protocol))
    word.checksums &= static_cast<uint8_t>(~EthOffload::l4);
  if (field != nullptr && word.mss == 0 && (word.checksums & EthOffload::l4) == 0)
    write_l4(s, packet, l, field);
  if (v4 && word.mss == 0 && (word.checksums & EthOffload::l3) == 0) {
    std::byte* ip = frame.data() + l.l3;
    put16(ip + 10, 0);
    put16(ip + 10, fold(sum_of({ip, l.l4 - l.l3})));
  }
  if (word == pool::TxWord{}) return;
  s.cache->arena().side(packet[0]).tx = word;
  packet[0].meta |= pool::Handle::offload;
}

uint32_t run_csum(Stream& s) noexcept {
  const uint32_t limit = sendable(s);
  if (limit == 0) return 0;
  const uint32_t n = receive(s, std::span(s.packets).first(limit));
  if (n == 0) {
    reclaim(s);
    return 0;
  }
  const pool::TxWord word = word_of(s);
  const std::span<pool::Handle> all = std::span(s.packets).first(n);
  for (std::size_t i = 0, pieces; i < n; i += pieces) {
    pieces = burst::chain_length(all.subspan(i));
    handle(s, all.subspan(i, pieces), word);
  }
  send_or_drop(s, all);
  return n;
}

}  // namespace

const Engine csum_engine{
    "csum", "checksums are written anew, by the lcore or the device", true, true, false, run_csum};

}  // namespace kilim::testpmd
