// SPDX-License-Identifier: BSD-3-Clause
#include "perf/race/check.hh"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <random>

#include "kilim/detail/burst/packet_words.hh"
#include "kilim/prm/syndrome.hh"

namespace kilim::race {
namespace {

using Random = std::mt19937;

uint32_t below(Random& random, uint32_t n) {
  return static_cast<uint32_t>(random() % n);
}

constexpr uint8_t type_of(uint8_t l3, uint8_t l4) {
  return static_cast<uint8_t>(l3 << prm::cqe::l3_type_shift | l4 << prm::cqe::l4_type_shift);
}

// What no mini says: types and checksums.
Packet random_title(Random& random) {
  using namespace prm::cqe;
  static constexpr uint8_t types[] = {
      type_of(l3_ipv4, l4_tcp),     type_of(l3_ipv4, l4_udp),
      type_of(l3_ipv6, l4_tcp),     type_of(l3_ipv6, l4_udp),
      type_of(l3_ipv4, l4_none),    type_of(l3_none, l4_none),
      type_of(l3_ipv6, l4_tcp_ack), type_of(l3_ipv4, l4_none) | ip_fragment};
  Packet p;
  p.types = types[below(random, std::size(types))];
  p.sums = l2_ok;
  if (below(random, 8) != 0) p.sums |= l3_ok;
  if (below(random, 8) != 0) p.sums |= l4_ok;
  return p;
}

Packet with_own(Packet p, Random& random) {
  p.bytes = 64 + below(random, 1455);
  p.hash = below(random, 8) != 0 ? static_cast<uint32_t>(random()) : 0;
  return p;
}

struct Expected {
  Packet packet;
  uint32_t frame;
};

// A stream of packets for one side, and what it must deliver.
class Stream {
 public:
  Stream(const Racer& r, const Setting& s) : racer_(r), setting_(s) {}
  // Packets one by one, or a block; false: there is no room.
  bool deliver();
  // Empty, or how `seen` is not the oldest packet that was delivered.
  std::string take(const Seen& seen);
  [[nodiscard]] std::size_t waiting() const { return expected_.size(); }
  Random& random() { return random_; }

 private:
  void deliver_single();
  bool deliver_block(uint32_t most);

  const Racer& racer_;
  const Setting& setting_;
  Random random_{34};
  std::deque<Expected> expected_;
  uint32_t frames_ = 0;
  bool begun_ = false;
};

void Stream::deliver_single() {
  Packet p = with_own(random_title(random_), random_);
  // An error stops net_mlx5's queue until the device was asked to take it back to work.
  if (!racer_.is_peer && below(random_, 40) == 0)
    p.syndrome = static_cast<uint8_t>(below(random_, 2) != 0 ? prm::Syndrome::local_length
                                                             : prm::Syndrome::local_prot);
  racer_.nic->receive(p);
  if (p.syndrome == 0) expected_.push_back({p, frames_});
  frames_++;
}

// A block of one has no room for its mini. net_mlx5 expands a block into a row of its ring, four at
// a time and without a look for its end (DPDK mlx5_rxtx_vec_sse.h, rxq_cq_decompress_v()): a card's
// blocks do not cross it.
bool Stream::deliver_block(uint32_t most) {
  std::array<Packet, 64> block;
  const uint32_t limit = racer_.is_peer ? std::min(most, racer_.nic->to_end()) : most;
  if (limit < 2) return false;
  const uint32_t n = 2 + below(random_, std::min<uint32_t>(limit, block.size()) - 1);
  const bool hashes = setting_.reception == Reception::hash_minis;
  const Packet title = random_title(random_);
  for (uint32_t i = 0; i < n; i++) block[i] = with_own(title, random_);
  racer_.nic->receive_block(std::span(block).first(n), hashes);
  for (uint32_t i = 0; i < n; i++) {
    if (!hashes && i != 0) block[i].hash = 0;
    expected_.push_back({block[i], frames_++});
  }
  return true;
}

bool Stream::deliver() {
  if (!begun_) frames_ = racer_.nic->filled();
  begun_ = true;
  const uint32_t room = racer_.nic->room();
  if (room < 64) return false;
  if (!setting_.is_single() && below(random_, 2) != 0 && deliver_block(64)) return true;
  for (uint32_t n = 1 + below(random_, 9); n != 0; n--) deliver_single();
  return true;
}

std::string Stream::take(const Seen& seen) {
  if (expected_.empty()) return "a packet that did not come";
  const auto [p, frame] = expected_.front();
  expected_.pop_front();
  uint64_t flags = p.hash != 0 || racer_.always_hash ? RTE_MBUF_F_RX_RSS_HASH : 0;
  if ((p.sums & prm::cqe::l3_ok) != 0) flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD;
  if ((p.sums & prm::cqe::l4_ok) != 0) flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  const auto differs = [&](const char* what, uint64_t got, uint64_t wanted) {
    return "frame " + std::to_string(frame) + ": " + what + " " + std::to_string(got) + ", not " +
           std::to_string(wanted);
  };
  if (seen.frame != frame) return differs("another frame, number", seen.frame, frame);
  if (seen.bytes != p.bytes) return differs("length", seen.bytes, p.bytes);
  if (seen.hash != p.hash) return differs("hash", seen.hash, p.hash);
  if (seen.type != burst::packet_types[p.types])
    return differs("packet type", seen.type, burst::packet_types[p.types]);
  // Among the flags are those of a tag and a mark, which nobody asked for.
  if (seen.flags != flags) return differs("flags", seen.flags, flags);
  return seen.is_whole ? "" : "frame " + std::to_string(frame) + ": not one fresh buffer";
}

}  // namespace

std::string check_fields(const Racer& r, const Setting& s, uint32_t packets) {
  Stream stream(r, s);
  std::array<Seen, burst_packets> seen;
  uint32_t done = 0, idle = 0;
  while (done < packets) {
    r.nic->complete();
    for (uint32_t n = below(stream.random(), 4); n != 0 && stream.deliver(); n--) {
    }
    // net_mlx5's vectors want bursts of whole rows (mlx5.rst, "Limitations").
    const uint32_t want = r.is_peer ? burst_packets : 1 + below(stream.random(), burst_packets);
    const uint32_t n = r.receive(r.self.get(), std::span(seen).first(want));
    for (uint32_t i = 0; i < n; i++)
      if (std::string why = stream.take(seen[i]); !why.empty()) return r.name + ": " + why;
    done += n;
    idle = n == 0 && stream.waiting() != 0 ? idle + 1 : 0;
    if (idle > 100) return r.name + ": " + std::to_string(stream.waiting()) + " packets stay away";
  }
  for (uint32_t i = 0; i < 100 && stream.waiting() != 0; i++) {
    const uint32_t n = r.receive(r.self.get(), seen);
    for (uint32_t k = 0; k < n; k++)
      if (std::string why = stream.take(seen[k]); !why.empty()) return r.name + ": " + why;
  }
  return stream.waiting() == 0 ? "" : r.name + ": the last packets stay away";
}

std::string check_sends(const std::vector<Racer>& racers, const Setting& s) {
  constexpr uint32_t rounds = 70;  // more than two laps
  Sent first;
  for (const Racer& r : racers) {
    Sent sent;
    r.nic->complete();
    for (uint32_t i = 0; i < rounds; i++) {
      if (turn(*r.nic, s) != burst_packets) return r.name + ": posts no receives";
      if (r.forward(r.self.get()) != burst_packets) return r.name + ": does not send a burst";
      r.nic->complete();
      sent += r.nic->sent();
    }
    if (&r == racers.data()) first = sent;
    if (sent != first)
      return r.name + " sends " + sent.text() + ", " + racers[0].name + " " + first.text();
    if (sent.packets != rounds * burst_packets) return r.name + " sends " + sent.text();
  }
  return "";
}

uint32_t turn(Nic& nic, const Setting& s) noexcept {
  nic.complete();
  const uint32_t n = std::min<uint32_t>(burst_packets, nic.room());
  std::array<Packet, burst_packets> packets;
  for (uint32_t i = 0; i < n; i++) {
    packets[i].bytes = s.bytes;
    packets[i].hash = 0x1000000u + i;
  }
  if (s.is_single()) {
    for (uint32_t i = 0; i < n; i++) nic.receive(packets[i]);
  } else {
    for (uint32_t i = 0; i < n; i += s.block)
      nic.receive_block(std::span(packets).subspan(i, std::min(s.block, n - i)),
                        s.reception == Reception::hash_minis);
  }
  nic.end_turn();
  return n;
}

}  // namespace kilim::race
