// SPDX-License-Identifier: BSD-3-Clause
// For tests of packets that take several buffers: `near` sends jumbo frames in pieces and receives
// them so, `far` runs a forwarding mode over a payload pool and a header pool of one arena.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "forward.hh"
#include "two_ports_fixture.hh"
#include "ut.hh"

namespace kilim::test {

using pool::Handle;
using Frame = std::vector<std::byte>;

inline constexpr uint32_t stride = pool::default_stride, jumbo_buffers = 5, header_bytes = 64;
inline constexpr uint32_t payload_count = 3000, header_count = 700;

// 60 to 9,000 bytes, to a station's address; its number is in the last four.
inline Frame make_jumbo(std::mt19937& rng, uint32_t number) {
  Frame f(60 + rng() % 8941);
  for (std::byte& x : f) x = static_cast<std::byte>(rng());
  f[0] = std::byte{2};
  std::memcpy(f.data() + f.size() - 4, &number, 4);
  return f;
}

struct SplitConfig {
  bool split = true;  // else mode io over several buffers
  bool rwq = false;   // the receive queue is a work queue, else the pair carries it
  chooser::Way way = chooser::Way::gather_list;
  bool mixed = false;  // with copies: what is too long for them goes under keys
};

struct SplitBench {
  pool::ArenaMemory memory;
  pool::Pool payloads, header_pool;
  pool::BufferCache near_cache{payloads}, cache{payloads}, headers{header_pool};
  std::unique_ptr<port::Port> near, far;
  SplitConfig config;
  testpmd::Stream stream;
  const testpmd::Engine* engine;
  std::mt19937 rng{3};
  std::vector<Frame> sent;  // in order; a cable may hold some of before a port's start
  uint32_t back = 0, received = 0, wrong = 0, disordered = 0;

  static pool::ArenaMemory arena() {
    CU_ASSERT_TRUE_FATAL(start_eal());
    return *std::move(
        pool::ArenaMemory::create({.buffers = payload_count + header_count, .side_records = true}));
  }
  static pool::Pool make_pool(const pool::ArenaMemory& m, const char* name, uint32_t first,
                              uint32_t count) {
    return *std::move(
        pool::Pool::create(m.arena(), {.name = name, .first = first, .count = count}));
  }
  explicit SplitBench(const SplitConfig& c)
      : memory(arena()),
        payloads(make_pool(memory, "split", 0, payload_count)),
        header_pool(make_pool(memory, "split_headers", payload_count, header_count)),
        config(c),
        engine(testpmd::find_engine(c.split ? "split" : "io")) {
    const std::string wire = "cable:" + fresh("c");
    near = make_port(fresh("vhca"), wire);
    far = make_port(fresh("vhca"), wire);
    CU_ASSERT_TRUE_FATAL(near != nullptr);
    CU_ASSERT_TRUE_FATAL(far != nullptr);
    CU_ASSERT_TRUE_FATAL(engine != nullptr);
  }
  // Before caches and pools go.
  ~SplitBench() {
    near->unconfigure();
    far->unconfigure();
    EQUAL(out(), 0u);
  }

  [[nodiscard]] bool keys() const { return config.mixed || config.way == chooser::Way::inline_key; }
  [[nodiscard]] chooser::PacketPlan plan() const {
    chooser::ChooserCosts costs{};
    chooser::Chooser chooser{{8, 8, 0, stride}, costs};
    chooser.force(config.way);
    const chooser::WayMask copy = chooser::mask_of(chooser::Way::copy);
    const chooser::WayMask key = chooser::mask_of(chooser::Way::inline_key);
    return {chooser,
            {.buffer_bytes = stride,
             .longest = 9000,
             .copy_room = stride - header_bytes,
             .ways = static_cast<chooser::WayMask>(config.mixed ? copy | key : chooser::all_ways)}};
  }
  [[nodiscard]] port::RxSetup rx_setup() {
    port::RxSetup rx{.cache = &cache, .config = {.side = true}, .buffers = jumbo_buffers};
    if (config.split) rx.split = {.header_bytes = header_bytes, .headers = &headers};
    return rx;
  }
  Status start() {
    constexpr port::QueueSizes sizes{.rxd = 64, .txd = 128};
    if (Status s = near->configure(sizes, memory); !s) return s;
    if (Status s = near->set_rx(0, {.cache = &near_cache, .buffers = jumbo_buffers}); !s) return s;
    if (Status s = near->set_tx(0, {.cache = &near_cache, .config = {.multi_seg = true}}); !s)
      return s;
    if (Status s = near->start(); !s) return s;
    if (Status s = far->configure(sizes, memory); !s) return s;
    if (Status s = far->set_rx(0, rx_setup()); !s) return s;
    const port::TxSetup tx{
        .cache = &cache,
        .config = {.multi_seg = true, .gathered = keys(), .two_pools = config.split},
        .keys = keys() ? 64u : 0u,
        .headers = &headers};
    if (Status s = far->set_tx(0, tx); !s) return s;
    if (config.rwq)
      if (Status s = far->set_rss({}); !s) return s;
    stream.rx = stream.tx = far.get();
    stream.cache = &cache;
    stream.headers = &headers;
    stream.pieces = rx_setup().segments();
    stream.burst = 2;
    stream.plan = plan();
    stream.chains.resize(64 * (burst::max_rx_segments + 1));
    return far->start();
  }
  void stop() {
    near->stop();
    far->stop();
  }
  // Buffers of both pools that neither they nor caches hold.
  uint32_t out() {
    for (pool::BufferCache* c : {&near_cache, &cache, &headers}) c->flush();
    return payload_count + header_count - payloads.available() - header_pool.available();
  }
  void run_devices() {
    near->poller().fn(near->poller().context, 256);
    far->poller().fn(far->poller().context, 256);
  }

  // One frame in pieces of a buffer each; false: no room.
  bool send(const Frame& f) {
    near->reclaim(0);
    Handle h[jumbo_buffers];
    const auto n = static_cast<uint32_t>((f.size() + stride - 1) / stride);
    if (near->tx_room(0) < 2 * n) return false;
    EQUAL_FATAL(near_cache.alloc({h, n}, stride), n);
    std::size_t done = 0;
    for (uint32_t i = 0; i < n; i++) {
      h[i].length = static_cast<uint16_t>(std::min<std::size_t>(stride, f.size() - done));
      if (i + 1 < n) h[i].meta |= Handle::more;
      std::memcpy(memory.arena().data(h[i]), f.data() + done, h[i].length);
      done += h[i].length;
    }
    EQUAL_FATAL(near->tx(0, {h, n}), n);
    return true;
  }
  void send_some(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
      Frame f = make_jumbo(rng, static_cast<uint32_t>(sent.size()));
      if (!send(f)) return;
      sent.push_back(std::move(f));
    }
  }
  // What came back is compared with what was sent, its addresses swapped.
  void receive() {
    Handle h[64];
    const uint32_t n = near->rx(0, h);
    Frame got;
    for (uint32_t i = 0; i < n; i++) {
      const auto bytes = memory.arena().bytes(h[i]);
      got.insert(got.end(), bytes.begin(), bytes.end());
      if (h[i].has(Handle::more)) continue;
      judge(got);
      got.clear();
    }
    EQUAL(got.size(), 0u);
    near_cache.free({h, n});
  }
  void judge(const Frame& got) {
    uint32_t number;
    std::memcpy(&number, got.data() + got.size() - 4, 4);
    if (number >= sent.size()) {
      wrong++;
      return;
    }
    Frame want = sent[number];
    if (config.split) std::swap_ranges(want.begin(), want.begin() + 6, want.begin() + 6);
    wrong += got != want;
    disordered += number < back;
    back = number + 1;
    received++;
  }

  void turn(uint32_t count) {
    send_some(count);
    run_devices();
    for (int i = 0; i < 3; i++) engine->run(stream);  // a key takes longer
    far->revive(nullptr);
    receive();
  }
  // Until nothing moves any more.
  void settle() {
    for (int i = 0; i < 200; i++) turn(0);
    near->reclaim(0);
  }
};

}  // namespace kilim::test
