// SPDX-License-Identifier: BSD-3-Clause
// What leaves a transmit queue for a packet and its word, written anew: checksums 16 bits at a time
// (frames_fixture.hh), tags, segments. Test only, pure, any thread.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "../vhca/wire/frames_fixture.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/eth_wqe.hh"

namespace kilim::test {

// A packet before it is sent.
struct Packet {
  FrameSpec spec;
  Bytes frame;  // as it lies in its buffers
  bool asks = false;
  pool::TxWord word;
};

inline void write_l3(Bytes& b, const FrameSpec& s) {
  if (s.ipv6) return;
  put16(b, l3_of(s) + 10, 0);
  put16(b, l3_of(s) + 10, ~folded(sum16(b, l3_of(s), l4_of(s))) & 0xffffu);
}
// UDP says 0 as all ones (RFC 768).
inline void write_l4(Bytes& b, const FrameSpec& s) {
  put16(b, l4_checksum_at(s), 0);
  const unsigned sum = ~l4_check(b, s) & 0xffffu;
  put16(b, l4_checksum_at(s), sum == 0 && !s.tcp ? 0xffffu : sum);
}

// A frame with this payload, and right checksums.
inline Bytes frame_with(FrameSpec s, std::span<const std::byte> payload) {
  s.payload = payload.size();
  Bytes b = make_frame(s);
  std::copy(payload.begin(), payload.end(), b.begin() + static_cast<long>(payload_of(s)));
  write_l4(b, s);
  return b;
}

inline void insert_tag(Bytes& b, pool::TxWord w) {
  if (w.tag == pool::VlanTag::none) return;
  const unsigned type = w.tag == pool::VlanTag::customer ? 0x8100 : 0x88a8;
  const std::byte tag[4] = {static_cast<std::byte>(type >> 8), static_cast<std::byte>(type),
                            static_cast<std::byte>(w.tci >> 8), static_cast<std::byte>(w.tci)};
  b.insert(b.begin() + 12, std::begin(tag), std::end(tag));
}

// Frame `number` of a packet that is segmented, with this part of its payload.
inline Bytes segment_of(const Packet& p, std::size_t number, std::span<const std::byte> part,
                        bool last) {
  FrameSpec s = p.spec;
  const std::size_t at = number * p.word.mss;
  s.seq += static_cast<uint32_t>(at);
  if (!last) s.tcp_flags &= 0xf6;  // neither FIN nor PSH
  if (at > 0) s.tcp_flags &= 0x7f;
  Bytes b = frame_with(s, part);
  if (!s.ipv6) put16(b, l3_of(s) + 4, (0xfffe + number) & 0xffff);
  write_l3(b, s);
  return b;
}

// The frames that come of it.
inline std::vector<Bytes> frames_of(const Packet& p) {
  const pool::TxWord w = p.asks ? p.word : pool::TxWord{};
  std::vector<Bytes> all;
  if (w.mss == 0) {
    all.push_back(p.frame);
    if ((w.checksums & queue::EthOffload::l3) != 0) write_l3(all[0], p.spec);
    if ((w.checksums & queue::EthOffload::l4) != 0) write_l4(all[0], p.spec);
  } else {
    const std::span<const std::byte> payload = std::span(p.frame).subspan(w.headers);
    for (std::size_t at = 0; at < payload.size(); at += w.mss) {
      const std::size_t n = std::min<std::size_t>(w.mss, payload.size() - at);
      all.push_back(segment_of(p, at / w.mss, payload.subspan(at, n), at + n == payload.size()));
    }
  }
  for (Bytes& b : all) insert_tag(b, w);
  return all;
}

// Packets of 60 to 9,000 bytes with anything in them.
class PacketMaker {
 public:
  explicit PacketMaker(unsigned seed) : random_(seed) {}

  uint32_t below(std::size_t n) { return static_cast<uint32_t>(random_() % n); }

  // `words`: it may ask for something, with at most `most` bytes where it is segmented.
  Packet make(bool words, std::size_t most) {
    Packet p;
    p.spec = {.ipv6 = below(2) == 0, .tcp = below(2) == 0};
    p.spec.seq = static_cast<uint32_t>(random_());
    p.asks = words && below(3) != 0;
    const bool segmented = p.asks && below(4) == 0;
    const std::size_t longest = segmented ? most : 9000;
    const std::size_t bytes = 60 + below(below(2) == 0 ? 200 : longest - 59);
    Bytes payload(bytes > payload_of(p.spec) ? bytes - payload_of(p.spec) : 1);
    for (std::byte& b : payload) b = static_cast<std::byte>(random_());
    p.frame = frame_with(p.spec, payload);
    if (words) ask(p, segmented, payload.size());
    return p;
  }

 private:
  void ask(Packet& p, bool segmented, std::size_t payload) {
    constexpr uint8_t l3 = queue::EthOffload::l3, l4 = queue::EthOffload::l4;
    constexpr uint8_t checksums[] = {0, l3, l4, l3 | l4};
    p.word.checksums = checksums[below(4)];
    p.word.tag = static_cast<pool::VlanTag>(below(3));
    p.word.tci = static_cast<uint16_t>(random_());
    if (segmented) segment(p, payload);
    if (!p.asks) return;
    // What the device is to write holds anything.
    if (!p.spec.ipv6 && ((p.word.checksums & l3) != 0 || segmented))
      put16(p.frame, l3_of(p.spec) + 10, random_() & 0xffff);
    if ((p.word.checksums & l4) != 0 || segmented)
      put16(p.frame, l4_checksum_at(p.spec), random_() & 0xffff);
  }
  // The length of UDP is that of each frame, so that there is no shorter one.
  void segment(Packet& p, std::size_t payload) {
    std::size_t mss = 1 + payload / (1 + below(12));
    mss = std::min<std::size_t>(mss, 8900);
    if (!p.spec.tcp) {
      p.frame.resize(p.frame.size() - payload % mss);
      if (p.frame.size() == payload_of(p.spec)) p.frame.resize(p.frame.size() + (mss = 1));
      put16(p.frame, l4_of(p.spec) + 4, mss + 8);
    }
    p.word.mss = static_cast<uint16_t>(mss);
    p.word.headers = static_cast<uint16_t>(payload_of(p.spec));
    put16(p.frame, l3_of(p.spec) + (p.spec.ipv6 ? 4 : 2), random_() & 0xffff);
  }

  std::mt19937_64 random_;
};

}  // namespace kilim::test
