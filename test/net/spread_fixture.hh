// SPDX-License-Identifier: BSD-3-Clause
// For tests of ports with several receive queues: frames of flows, a hash written out by hand, and
// a far port whose queues the test polls.
#pragma once

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kilim/detail/flow/rss.hh"
#include "two_ports_fixture.hh"
#include "ut.hh"

namespace kilim::test {

using flow::HashKind;
using flow::HashTypes;
using pool::Handle;
using Frame = std::vector<std::byte>;

inline std::byte as_byte(std::size_t v) {
  return static_cast<std::byte>(v);
}

// Kinds of frames: what carries what.
enum class Layer3 : uint8_t { arp, ipv4, ipv6 };
struct FrameKind {
  Layer3 layer3 = Layer3::ipv4;
  uint8_t protocol = 17;
  bool fragment = false;
  uint16_t vlan = 0;  // 0: no tag
  std::array<uint8_t, 6> dst{2, 0, 0, 0, 0, 9};
  uint16_t service = 0;  // of a provider's tag (802.1ad) in front of the other; 0: none
};
inline std::size_t tag_bytes(const FrameKind& k) {
  return (k.service != 0 ? 4u : 0u) + (k.vlan != 0 ? 4u : 0u);
}

// A frame of flow `flow`; its last four bytes are `number`.
inline Frame make_frame(const FrameKind& k, uint32_t flow, uint32_t number) {
  Frame f(100);
  std::memcpy(f.data(), k.dst.data(), 6);
  f[6] = as_byte(2);
  std::size_t at = 12;
  auto put16 = [&f](std::size_t to, uint32_t v) {
    f[to] = as_byte(v >> 8), f[to + 1] = as_byte(v);
  };
  if (k.service != 0) put16(at, 0x88a8), put16(at + 2, k.service), at += 4;
  if (k.vlan != 0) put16(at, 0x8100), put16(at + 2, k.vlan), at += 4;
  const bool four = k.layer3 == Layer3::ipv4;
  put16(at, k.layer3 == Layer3::arp ? 0x0806 : four ? 0x0800 : 0x86dd);
  at += 2;
  std::mt19937 rng(flow);
  for (std::size_t i = at; i + 4 < f.size(); i++) f[i] = as_byte(rng() & 0xff);
  if (k.layer3 != Layer3::arp) {
    f[at] = as_byte(four ? 0x45 : 0x60);
    f[at + (four ? 9 : 6)] = as_byte(k.protocol);
    if (four) put16(at + 6, k.fragment ? 0x2000 : 0x4000);
    if (k.protocol == 6) f[at + (four ? 20 : 40) + 12] = as_byte(0x50);
  }
  if (four) put16(at + 2, static_cast<uint32_t>(f.size() - at));
  if (k.layer3 == Layer3::ipv6) put16(at + 4, static_cast<uint32_t>(f.size() - at - 40));
  if (k.protocol == 17)
    put16(at + (four ? 20 : 40) + 4, static_cast<uint32_t>(f.size() - at) - (four ? 20u : 40u));
  std::memcpy(f.data() + f.size() - 4, &number, 4);
  return f;
}
inline uint32_t number_of(std::span<const std::byte> frame) {
  uint32_t n;
  std::memcpy(&n, frame.data() + frame.size() - 4, 4);
  return n;
}

// The hash bit by bit, as its definition says it: bit i of the input adds bits i to i + 31 of the
// key.
inline uint32_t slow_hash(std::span<const std::byte> input, const flow::HashKey& key) {
  auto bit = [](uint8_t byte, std::size_t i) { return byte >> (7 - i % 8) & 1u; };
  uint32_t h = 0;
  for (std::size_t i = 0; i < input.size() * 8; i++) {
    if (bit(std::to_integer<uint8_t>(input[i / 8]), i) == 0) continue;
    for (std::size_t j = 0; j < 32; j++)
      h ^= static_cast<uint32_t>(bit(key[(i + j) / 8], i + j)) << (31 - j);
  }
  return h;
}

// The hash of a frame that make_frame() made; 0: none.
inline uint32_t expected_hash(const FrameKind& k, const Frame& f, const flow::Rss& rss) {
  if (k.layer3 == Layer3::arp) return 0;
  const bool four = k.layer3 == Layer3::ipv4;
  const std::size_t ip = 14 + tag_bytes(k);
  const std::size_t addresses = ip + (four ? 12 : 8), bytes = four ? 8 : 32;
  std::vector<std::byte> input(f.begin() + static_cast<long>(addresses),
                               f.begin() + static_cast<long>(addresses + bytes));
  const uint32_t tcp = four ? HashTypes::tcp4 : HashTypes::tcp6;
  const uint32_t udp = four ? HashTypes::udp4 : HashTypes::udp6;
  const uint32_t wanted = k.protocol == 6 ? tcp : k.protocol == 17 ? udp : 0;
  // A rule of a protocol takes its fragments too, which have no ports: their addresses are hashed.
  const bool by_protocol = (rss.types & wanted) != 0;
  if (by_protocol && !k.fragment)
    for (std::size_t i = 0; i < 4; i++) input.push_back(f[addresses + bytes + i]);
  else if (!by_protocol && (rss.types & (four ? HashTypes::ipv4 : HashTypes::ipv6)) == 0)
    return 0;
  return slow_hash(input, rss.key);
}
inline uint16_t expected_queue(uint32_t hash, std::span<const uint16_t> table) {
  return table[hash % table.size()];
}

// What receive queues are set up with where a test says nothing, but for their caches.
inline port::RxSetup usual_setup{.config = {.side = true}};

// `near` sends what the test says, `far` receives in several queues, each with its own cache.
struct SpreadBench {
  TwoPorts t;
  uint32_t queues;
  std::vector<std::unique_ptr<pool::BufferCache>> caches;
  // What arrived: queue, hash, frame; the buffers are free again.
  struct Got {
    uint32_t queue;
    uint32_t hash;
    Frame frame;
    pool::SideRecord side;
  };
  std::vector<Got> got;

  // `like`: of the receive queues, but for their caches.
  explicit SpreadBench(uint32_t n, uint32_t buffers = 4096, uint32_t depth = 128,
                       port::RxSetup like = usual_setup, const char* profile = "")
      : t(buffers, like.strides.has_value(), "", profile), queues(n) {
    for (uint32_t q = 0; q < n; q++) caches.push_back(std::make_unique<pool::BufferCache>(t.pool));
    CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 64, .txd = 256}).ok());
    CU_ASSERT_TRUE_FATAL(t.far->configure({.rxq = n, .rxd = depth, .txd = 64}, t.memory).ok());
    for (uint32_t q = 0; q < n; q++) {
      like.cache = caches[q].get();
      CU_ASSERT_TRUE_FATAL(t.far->set_rx(q, like).ok());
    }
    CU_ASSERT_TRUE_FATAL(t.far->set_tx(0, {.cache = &*t.cache}).ok());
  }
  ~SpreadBench() {
    t.near->stop();
    t.far->stop();
    for (const auto& c : caches) c->flush();
    EQUAL(t.out(), 0u);
  }
  port::Port& far() { return *t.far; }

  void send(const Frame& f) {
    t.near->reclaim(0);
    Handle h;
    CU_ASSERT_TRUE_FATAL(t.near->tx_room(0) != 0);
    EQUAL_FATAL(t.cache->alloc({&h, 1}, 0), 1u);
    h.length = static_cast<uint16_t>(f.size());
    std::memcpy(t.memory.arena().data(h), f.data(), f.size());
    EQUAL_FATAL(t.near->tx(0, {&h, 1}), 1u);
  }
  // Runs the devices and receives what has come into each queue.
  void receive() {
    t.run_devices();
    for (uint32_t q = 0; q < queues; q++) {
      Handle h[64];
      const uint32_t n = far().rx(q, h);
      bool goes_on = false;
      for (uint32_t i = 0; i < n; goes_on = h[i++].has(Handle::more)) {
        const auto bytes = t.memory.arena().bytes(h[i]);
        const pool::SideRecord& side = t.memory.arena().side(h[i]);
        if (!goes_on) got.push_back({q, side.rx_hash, {}, side});
        got.back().frame.insert(got.back().frame.end(), bytes.begin(), bytes.end());
      }
      caches[q]->free({h, n});
    }
  }
  void receive_all() {
    for (int i = 0; i < 4; i++) receive();
  }
  // Sends one frame; the queue in which it arrived, or -1.
  int where(const Frame& f) {
    receive_all();
    got.clear();
    send(f);
    receive_all();
    return got.size() == 1 ? static_cast<int>(got[0].queue) : -static_cast<int>(got.size()) - 1;
  }
};
inline constexpr FrameKind udp4_kind{.layer3 = Layer3::ipv4, .protocol = 17};

// Tables of the program's other sources.
std::span<const Case> rule_cases();
std::span<const Case> tunnel_cases();
std::span<const Case> worker_cases();
std::span<const Case> form_cases();
std::span<const Case> hash_cases();
std::span<const Case> joined_cases();
std::span<const Case> lro_cases();
std::span<const Case> limit_cases();

}  // namespace kilim::test
