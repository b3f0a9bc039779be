// SPDX-License-Identifier: BSD-3-Clause
// Part of spread_ut. Queues whose device joins TCP segments (LRO): what comes is what the segments
// make together, written out anew; it can be sent as segments again; and rules, hashes and stops
// are those of other queues.
#include <algorithm>
#include <cerrno>
#include <tuple>

#include <rte_mbuf_core.h>

#include "offloads_model.hh"
#include "spread_fixture.hh"

namespace spread_lro_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using test::Bytes;  // not kilim::Bytes, a number

constexpr burst::RxConfig joining{.side = true, .lro = true};
constexpr uint32_t longest_wait_us = 1024;

// A TCP segment: what of its headers differs, and its data.
struct Segment {
  FrameSpec spec;  // sequence number and flags
  uint8_t ttl = 64;
  uint32_t ack = 0;
  uint16_t window = 0;
  Bytes payload;

  [[nodiscard]] Bytes frame() const {
    FrameSpec s = spec;
    s.payload = payload.size();
    Bytes b = kilim::test::make_frame(s);
    std::copy(payload.begin(), payload.end(), b.begin() + static_cast<long>(payload_of(s)));
    b[l3_of(s) + (s.ipv6 ? 7 : 8)] = std::byte{ttl};
    put16(b, l4_of(s) + 8, ack >> 16);
    put16(b, l4_of(s) + 10, ack & 0xffff);
    put16(b, l4_of(s) + 14, window);
    write_l3(b, s);
    write_l4(b, s);
    return b;
  }
};

// What some segments that follow each other make together.
Segment together(std::span<const Segment> parts) {
  Segment all = parts[0];
  for (const Segment& p : parts.subspan(1)) {
    all.payload.insert(all.payload.end(), p.payload.begin(), p.payload.end());
    all.ttl = std::min(all.ttl, p.ttl);
    all.spec.tcp_flags |= p.spec.tcp_flags;
    all.ack = p.ack;
    all.window = p.window;
  }
  return all;
}

// A train of segments of one stream; the last has PSH.
std::vector<Segment> make_train(bool six, uint32_t count, std::size_t most, std::mt19937& random) {
  std::vector<Segment> train(count);
  auto seq = static_cast<uint32_t>(random());
  for (Segment& s : train) {
    s.spec = {.ipv6 = six, .tcp_flags = 0x10, .seq = seq};
    s.ttl = static_cast<uint8_t>(20 + random() % 100);
    s.ack = static_cast<uint32_t>(random());
    s.window = static_cast<uint16_t>(random());
    s.payload.resize(1 + random() % most);
    for (std::byte& b : s.payload) b = as_byte(random() & 0xff);
    seq += static_cast<uint32_t>(s.payload.size());
  }
  train.back().spec.tcp_flags |= 0x08;
  return train;
}

// Compares what arrived of a train, in as many frames as time and room made of it; returns how many
// segments came as part of one before them.
uint32_t check_train(std::span<const Segment> train,
                     const std::vector<const SpreadBench::Got*>& got) {
  std::size_t at = 0;
  for (const SpreadBench::Got* g : got) {
    const std::size_t headers = payload_of(train[0].spec), first = at;
    std::size_t payload = g->frame.size() - headers;
    for (; at < train.size() && payload >= train[at].payload.size(); at++)
      payload -= train[at].payload.size();
    EQUAL_FATAL(payload, 0u);
    const auto parts = train.subspan(first, at - first);
    CU_ASSERT_TRUE_FATAL(!parts.empty());
    CU_ASSERT_TRUE(g->frame == together(parts).frame());
    const bool several = parts.size() > 1;
    EQUAL((g->side.flags & RTE_MBUF_F_RX_LRO) != 0, several);
    if (!several) continue;
    EQUAL(g->side.tx.headers, headers);
    const std::size_t data = g->frame.size() - headers;
    EQUAL(g->side.tx.mss, (data + parts.size() - 1) / parts.size());
  }
  EQUAL(at, train.size());
  return static_cast<uint32_t>(train.size() - got.size());
}

bool is_ipv6(const SpreadBench::Got& g) {
  return g.frame[12] == std::byte{0x86};
}

// Trains of two streams between each other, several before they are received.
void check_joining(const port::RxSetup& like, std::size_t longest, uint32_t depth = 256) {
  SpreadBench b(1, 4096, depth, like);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  std::mt19937 random(7);
  uint32_t joined = 0, sent = 0;
  std::size_t largest = 0;
  for (int round = 0; round < 40; round++) {
    const std::size_t most = round % 2 == 0 ? 40 : 1200;
    std::vector<Segment> four, six;
    b.got.clear();
    for (auto trains = random() % 5; trains < 5; trains++) {
      const uint32_t count = 2 + static_cast<uint32_t>(random() % 20);
      for (auto& [ipv6, all] : {std::pair(false, &four), std::pair(true, &six)})
        for (Segment& s : make_train(ipv6, count, most, random)) all->push_back(std::move(s));
      for (std::size_t i = four.size() - count; i < four.size(); i++)
        b.send(four[i].frame()), b.send(six[i].frame());
    }
    for (std::size_t seen = 1; seen != b.got.size(); b.receive_all()) seen = b.got.size();
    std::vector<const SpreadBench::Got*> got[2];
    for (const SpreadBench::Got& g : b.got) {
      got[is_ipv6(g) ? 1 : 0].push_back(&g);
      largest = std::max(largest, g.frame.size());
    }
    joined += check_train(four, got[0]) + check_train(six, got[1]);
    sent += static_cast<uint32_t>(2 * four.size());
  }
  const port::PortStats s = b.far().stats();
  EQUAL(s.rx_joined, joined);
  EQUAL(s.rx_packets + s.rx_joined, sent);
  EQUAL(b.far().rx_stats(0).joined, joined);
  CU_ASSERT_TRUE(joined > sent / 2);
  CU_ASSERT_TRUE(largest <= longest);
  CU_ASSERT_TRUE(largest > longest / 2);
}

void in_one_buffer() {
  check_joining({.config = joining, .lro_timeout_us = longest_wait_us}, 2112);
}
void in_several_buffers() {
  check_joining({.config = joining, .buffers = 8, .lro_timeout_us = longest_wait_us}, 8 * 2112);
}
void in_strides() {
  check_joining(
      {.config = joining, .strides = device::Strides{8, 3}, .lro_timeout_us = longest_wait_us},
      2048, 4096);
}

// Without PSH they come when the time is over.
void time_ends_a_train() {
  SpreadBench b(1, 600, 128, {.config = joining, .buffers = 2});
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  std::mt19937 random(3);
  std::vector<Segment> train = make_train(false, 2, 100, random);
  train.back().spec.tcp_flags = 0x10;
  for (const Segment& s : train) b.send(s.frame());
  std::size_t bytes = 0;
  const std::size_t all = train[0].payload.size() + train[1].payload.size();
  for (int turns = 0; bytes < all && turns < 1'000'000; turns++) {
    b.got.clear();
    b.receive();
    for (const SpreadBench::Got& g : b.got) bytes += g.frame.size() - payload_of(train[0].spec);
  }
  EQUAL(bytes, all);
}

// A frame's segment, as it was sent or as segments make it.
Segment read_segment(bool six, const Bytes& b) {
  Segment s;
  s.spec.ipv6 = six;
  const std::size_t l4 = l4_of(s.spec);
  s.spec.tcp_flags = std::to_integer<uint8_t>(b[l4 + 13]);
  s.spec.seq = get16(b, l4 + 4) << 16 | get16(b, l4 + 6);
  s.ttl = std::to_integer<uint8_t>(b[l3_of(s.spec) + (six ? 7 : 8)]);
  s.ack = get16(b, l4 + 8) << 16 | get16(b, l4 + 10);
  s.window = static_cast<uint16_t>(get16(b, l4 + 14));
  s.payload.assign(b.begin() + static_cast<long>(payload_of(s.spec)), b.end());
  return s;
}

// The frames that a joined one leaves as: PSH in the last, numbered by IPv4.
void add_divided(bool six, const Bytes& joined, std::size_t mss, std::vector<Bytes>& to) {
  const Segment all = read_segment(six, joined);
  for (std::size_t at = 0, number = 0; at < all.payload.size(); at += mss, number++) {
    Segment part = all;
    const std::size_t end = std::min(at + mss, all.payload.size());
    part.spec.seq += static_cast<uint32_t>(at);
    if (end != all.payload.size()) part.spec.tcp_flags &= 0xf7;
    part.payload.assign(all.payload.begin() + static_cast<long>(at),
                        all.payload.begin() + static_cast<long>(end));
    Bytes b = part.frame();
    if (!six) put16(b, l3_of(part.spec) + 4, (0xfffe + number) & 0xffff);
    write_l3(b, part.spec);
    to.push_back(std::move(b));
  }
}

// What the side record says is what a transmit queue with TSO takes.
void sent_as_segments_again() {
  SpreadBench b(1, 4096, 128, {.config = joining, .buffers = 8, .lro_timeout_us = longest_wait_us});
  CU_ASSERT_TRUE_FATAL(b.far()
                           .set_tx(0, {.cache = &*b.t.cache,
                                       .config = {.multi_seg = true, .offloads = true},
                                       .words = {.tso = true}})
                           .ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  std::mt19937 random(11);
  uint32_t segmented = 0;
  for (int round = 0; round < 20; round++) {
    const bool six = round % 2 != 0;
    const std::vector<Segment> train = make_train(six, 12, 1000, random);
    for (const Segment& s : train) b.send(s.frame());
    Handle h[64];
    uint32_t n = 0;
    for (int i = 0; i < 4; i++) {
      b.t.run_devices();
      n += b.far().rx(0, std::span(h).subspan(n));
    }
    std::vector<Bytes> expected;
    for (uint32_t i = 0, end = 0; i < n; i = end) {
      Bytes frame;
      for (end = i; end == i || h[end - 1].has(Handle::more); end++) {
        const auto bytes = b.t.memory.arena().bytes(h[end]);
        frame.insert(frame.end(), bytes.begin(), bytes.end());
      }
      const pool::SideRecord& side = b.t.memory.arena().side(h[i]);
      const bool joined = (side.flags & RTE_MBUF_F_RX_LRO) != 0;
      if (joined) h[i].meta |= Handle::offload;
      segmented += joined;
      add_divided(six, frame, joined ? side.tx.mss : frame.size(), expected);
    }
    EQUAL_FATAL(b.far().tx(0, {h, n}), n);
    std::size_t arrived = 0;
    for (int i = 0; i < 4; i++) {
      b.t.run_devices();
      Handle back[64];
      const uint32_t more = b.t.near->rx(0, back);
      for (uint32_t k = 0; k < more; k++, arrived++)
        CU_ASSERT_TRUE(arrived < expected.size() &&
                       same(b.t.memory.arena().bytes(back[k]), expected[arrived]));
      b.t.cache->free({back, more});
    }
    EQUAL(arrived, expected.size());
    b.far().reclaim(0);
  }
  CU_ASSERT_TRUE(segmented > 10);
}

// Rules lead to targets of another make than those of other queues; hashes are theirs too.
void check_as_usual(std::span<const Case> all) {
  const port::RxSetup before = std::exchange(usual_setup, port::RxSetup{.config = joining});
  for (const Case& c : all) c.run();
  usual_setup = before;
}
void rules_as_usual() {
  check_as_usual(rule_cases());
}
void hashes_as_usual() {
  check_as_usual(hash_cases());
}
void tunnels_as_usual() {
  check_as_usual(tunnel_cases());
}

// Every segment is counted where it went, also those of joined frames that nobody received.
void stops_amid_trains() {
  SpreadBench b(2, 4096, 256, {.config = joining, .buffers = 4, .lro_timeout_us = longest_wait_us});
  std::mt19937 random(5);
  uint64_t sent = 0;
  for (uint32_t round = 0; round < 6; round++) {
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    const std::vector<Segment> train = make_train(round % 2 != 0, 30, 300, random);
    for (const Segment& s : train) b.send(s.frame()), sent++;
    b.t.run_devices();
    b.t.run_devices();
    for (uint32_t q = 0; q < 2 && round % 3 == 1; q++) {
      CU_ASSERT_TRUE_FATAL(b.far().stop_rx(q, nullptr).ok());
      CU_ASSERT_TRUE_FATAL(b.far().start_rx(q).ok());
    }
    if (round % 3 == 2) b.receive_all();
    b.far().stop();
    b.got.clear();
  }
  const port::PortStats s = b.far().stats();
  EQUAL(s.rx_packets + s.rx_joined + s.rx_discarded, sent);
  EQUAL(s.rx_discarded, sent / 3 * 2);
}

// Segments that the device still keeps when the port stops: no buffer is lost with them.
void stops_before_the_end_of_a_train() {
  SpreadBench b(1, 4096, 256, {.config = joining, .buffers = 4, .lro_timeout_us = longest_wait_us});
  std::mt19937 random(6);
  for (uint32_t round = 0; round < 6; round++) {
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    std::vector<Segment> train = make_train(round % 2 != 0, 30, 300, random);
    train.back().spec.tcp_flags = 0x10;
    for (const Segment& s : train) b.send(s.frame());
    b.t.run_devices();
    if (round % 2 == 0) CU_ASSERT_TRUE_FATAL(b.far().stop_rx(0, nullptr).ok());
    b.far().stop();
  }
}

void joining_that_does_not_fit_is_refused() {
  SpreadBench b(1);
  const pool::Arena& arena = b.t.memory.arena();
  const device::Caps caps = b.far().device().caps();
  const port::RxSetup good{.cache = b.caches[0].get(), .config = joining, .buffers = 8};
  const auto refused = [&](const port::RxSetup& s, const device::Caps& c, const char* word) {
    const Status got = port::check_rx(s, {}, arena, c, {});
    CU_ASSERT_TRUE_FATAL(!got.ok());
    if (std::strstr(got.error().what, word) == nullptr) CU_FAIL(word);
    return got.error().code;
  };
  CU_ASSERT_TRUE(port::check_rx(good, {}, arena, caps, {}).ok());
  device::Caps poor = caps;
  poor.lro.supported = false;
  EQUAL(refused(good, poor, "LRO"), EOPNOTSUPP);
  port::RxSetup s = good;
  s.config.side = false;
  EQUAL(refused(s, caps, "side records"), EINVAL);
  s = good;
  s.buffers = 1;
  s.compression = device::Compression::hash;
  EQUAL(refused(s, caps, "compressed"), EINVAL);
  s = good;
  s.split = {.header_bytes = 121, .headers = s.cache};
  s.buffers = 7;
  EQUAL(refused(s, caps, "122 bytes"), EINVAL);
  s.split.header_bytes = 122;
  CU_ASSERT_TRUE(port::check_rx(s, {}, arena, caps, {}).ok());
  s = good;
  s.buffers = 1;
  s.head_lines = 30;  // leaves 192 bytes
  EQUAL(refused(s, caps, "more bytes"), EINVAL);
  poor = caps;
  poor.lro.from_l4 = true;
  s.head_lines = 29;  // leaves 256
  CU_ASSERT_TRUE(port::check_rx(s, {}, arena, caps, {}).ok());
  EQUAL(refused(s, poor, "more bytes"), EINVAL);
}

void all_queues_of_a_port_join() {
  SpreadBench b(2, 4096, 128, {.config = joining, .buffers = 8});
  CU_ASSERT_TRUE_FATAL(
      b.far().set_rx(1, {.cache = b.caches[1].get(), .config = {.side = true}}).ok());
  const Status mixed = b.far().start();
  CU_ASSERT_TRUE_FATAL(!mixed.ok());
  EQUAL(mixed.error().code, EINVAL);
  CU_ASSERT_TRUE(!b.far().started());
  // The least of what they take.
  const port::RxTarget large{device::RwqHandle{1}, {.max_bytes = 4000, .timeout_us = 64}},
      small{device::RwqHandle{2}, {.max_bytes = 3000, .timeout_us = 1024}},
      none{device::RwqHandle{3}, {}};
  const port::RxTarget both[] = {large, small, large}, some[] = {small, none};
  const auto lro = port::lro_of_all(both);
  CU_ASSERT_TRUE_FATAL(lro.ok());
  CU_ASSERT_TRUE_FATAL(lro->has_value());
  EQUAL((*lro)->max_bytes, 3000);
  EQUAL((*lro)->timeout_us, 64);
  EQUAL(port::lro_of_all(some).error().code, EINVAL);
  CU_ASSERT_TRUE(port::lro_of_all({&none, 1}).ok() && !port::lro_of_all({&none, 1})->has_value());
}

constexpr Case of_lro[] = {
    {"TCP segments are joined in one buffer", in_one_buffer},
    {"TCP segments are joined over several buffers", in_several_buffers},
    {"TCP segments are joined over strides", in_strides},
    {"time ends a train of segments", time_ends_a_train},
    {"joined segments are sent as segments again", sent_as_segments_again},
    {"rules lead to queues that join as to others", rules_as_usual},
    {"queues that join are spread to as others", hashes_as_usual},
    {"queues that join look into tunnels as others", tunnels_as_usual},
    {"ports and queues stop amid trains of segments", stops_amid_trains},
    {"a port stops while the device keeps segments", stops_before_the_end_of_a_train},
    {"joining asks for room, side records and a device that can",
     joining_that_does_not_fit_is_refused},
    {"all queues of a port join, or none", all_queues_of_a_port_join},
};

}  // namespace
}  // namespace spread_lro_ut

std::span<const kilim::test::Case> kilim::test::lro_cases() {
  return spread_lro_ut::of_lro;
}
