// SPDX-License-Identifier: BSD-3-Clause
// For tests of forwarding: frames of many sizes and kinds, and a run of them through a port and
// back.
#pragma once

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "forward.hh"
#include "two_ports_fixture.hh"
#include "ut.hh"

namespace kilim::test {

using pool::Handle;
using testpmd::Mac;

using Frame = std::vector<std::byte>;

inline constexpr Mac peer{2, 0, 0, 0, 0, 0x77};

inline std::byte b(std::size_t v) {
  return static_cast<std::byte>(v);
}

// Sizes 60 to 1514; kinds that a header parser tells apart, and some that it cannot.
inline Frame make_frame(std::mt19937& rng, uint32_t number) {
  Frame f(60 + rng() % 1455);
  for (std::byte& x : f) x = b(rng() & 0xff);
  std::memcpy(f.data() + f.size() - 4, &number, 4);
  f[0] = b(2);  // unicast
  const auto kind = rng() % 6;
  const std::size_t at = kind == 1 ? 16 : 12;
  if (kind == 1) f[12] = b(0x81), f[13] = b(0);
  if (kind <= 2) {
    f[at] = b(8), f[at + 1] = b(0);
    f[at + 2] = b(0x45);
    f[at + 11] = b(kind == 2 ? 17 : 6);
    if (at + 2 + 20 + 13 < f.size()) f[at + 2 + 20 + 12] = b(0x50 + (rng() % 11 << 4));
  } else if (kind == 3) {
    f[at] = b(0x86), f[at + 1] = b(0xdd);
    f[at + 2 + 6] = b(17);
  }
  return f;
}

inline Frame expected(const Frame& sent, std::string_view mode, const Mac& port_mac) {
  Frame f = sent;
  if (mode == "macswap") {
    std::memcpy(f.data(), sent.data() + 6, 6);
    std::memcpy(f.data() + 6, sent.data(), 6);
  } else if (mode == "mac") {
    std::memcpy(f.data(), peer.data(), 6);
    std::memcpy(f.data() + 6, port_mac.data(), 6);
  }
  return f;
}

// Sends all frames at `near` while a stream forwards at `far`; true if all came back as expected.
struct Run {
  test::TwoPorts& t;
  testpmd::Stream stream;
  const testpmd::Engine* engine;
  const std::vector<Frame>& frames;
  uint32_t sent = 0;
  uint32_t back = 0;
  uint32_t wrong = 0;

  void send() {
    Handle h[16];
    uint32_t want = std::min<uint32_t>(16, static_cast<uint32_t>(frames.size()) - sent);
    want = std::min(want, t.near->tx_room(0));
    if (want == 0) t.near->reclaim(0);
    want = t.cache->alloc({h, want}, 0);
    for (uint32_t i = 0; i < want; i++) {
      const Frame& f = frames[sent + i];
      h[i].length = static_cast<uint16_t>(f.size());
      std::memcpy(t.memory.arena().data(h[i]), f.data(), f.size());
    }
    EQUAL_FATAL(t.near->tx(0, {h, want}), want);
    sent += want;
  }
  void receive() {
    Handle h[32];
    const uint32_t n = t.near->rx(0, h);
    for (uint32_t i = 0; i < n; i++) {
      const Frame want = expected(frames[back], engine->name, t.far->info().mac);
      const auto got = t.memory.arena().bytes(h[i]);
      const bool same =
          got.size() == want.size() && std::memcmp(got.data(), want.data(), want.size()) == 0;
      wrong += !same;
      back++;
    }
    t.cache->free({h, n});
  }
  void all() {
    for (uint32_t idle = 0; back < frames.size() && idle < 20000; idle++) {
      const uint32_t before = back;
      send();
      t.run_devices();
      engine->run(stream);
      receive();
      if (back != before) idle = 0;
    }
    // What is still on its way to be freed.
    for (int i = 0; i < 10; i++) {
      t.run_devices();
      engine->run(stream);
      t.near->reclaim(0);
    }
  }
};

inline Run make_run(test::TwoPorts& t, const char* mode, const std::vector<Frame>& frames,
                    uint32_t keys = 0) {
  Run run{.t = t, .stream = {}, .engine = testpmd::find_engine(mode), .frames = frames};
  CU_ASSERT_PTR_NOT_NULL_FATAL(run.engine);
  run.stream.rx = run.stream.tx = t.far.get();
  run.stream.cache = run.stream.headers = &*t.cache;
  run.stream.peer = peer;
  run.stream.chains.resize(std::size_t{keys} * 3);
  return run;
}

inline std::vector<Frame> make_frames(uint32_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<Frame> frames;
  for (uint32_t i = 0; i < count; i++) frames.push_back(make_frame(rng, i));
  return frames;
}

// The table of the program's other source.
std::span<const Case> mbuf_cases();

}  // namespace kilim::test
