// SPDX-License-Identifier: BSD-3-Clause
// Ports whose queues fail and are brought back (revive_ut.cc, revive_refused.cc), and the cases of
// the second file. The test's own thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "forward.hh"
#include "two_ports_fixture.hh"
#include "ut.hh"

namespace kilim::test {

using pool::Handle;

inline constexpr uint32_t frame_bytes = 200;

// `near` sends, `far` forwards in a mode of testpmd, `near` receives.
struct Bench {
  TwoPorts t;
  const testpmd::Engine* engine;
  testpmd::Stream stream;
  pool::BufferCache worker_cache;  // of who forwards at `far`
  uint32_t number = 0;

  // `failing`: of the send requests of `far`.
  explicit Bench(const char* mode, const char* failing = "")
      : t(4096, false, failing), engine(testpmd::find_engine(mode)), worker_cache(t.pool) {
    const uint32_t keys = engine->gathered ? 64 : 0;
    CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 128, .txd = 128}).ok());
    CU_ASSERT_TRUE_FATAL(t.far->configure({.rxd = 128, .txd = 128}, t.memory).ok());
    CU_ASSERT_TRUE_FATAL(t.far->set_rx(0, {.cache = &worker_cache}).ok());
    CU_ASSERT_TRUE_FATAL(t.far
                             ->set_tx(0, {.cache = &worker_cache,
                                          .config = {.gathered = engine->gathered},
                                          .keys = keys,
                                          .headers = &worker_cache})
                             .ok());
    CU_ASSERT_TRUE_FATAL(t.far->start().ok());
    stream.rx = stream.tx = t.far.get();
    stream.cache = stream.headers = &worker_cache;
    stream.chains.resize(std::size_t{keys} * 3);
  }
  ~Bench() {
    t.near->stop();
    t.far->stop();
    worker_cache.flush();
    EQUAL(t.out(), 0u);
  }

  // One frame; one longer than a buffer is dropped at the other end.
  void send(uint16_t bytes = frame_bytes) {
    t.near->reclaim(0);
    Handle h;
    if (t.near->tx_room(0) == 0 || t.cache->alloc({&h, 1}, bytes) == 0) return;
    std::memset(t.memory.arena().data(h), 0x02, frame_bytes);
    std::memcpy(t.memory.arena().data(h) + 100, &number, sizeof number);
    number++;
    EQUAL_FATAL(t.near->tx(0, {&h, 1}), 1u);
  }
  uint32_t receive() {
    Handle h[64];
    const uint32_t n = t.near->rx(0, h);
    for (uint32_t i = 0; i < n; i++) {
      const auto got = t.memory.arena().bytes(h[i]);
      CU_ASSERT_TRUE(got.size() == frame_bytes && got[99] == std::byte{2});
    }
    t.cache->free({h, n});
    return n;
  }
  void turn() {
    t.run_devices();
    engine->run(stream);
    t.far->revive(nullptr);
  }
  // Sends and forwards until `count` frames have come back.
  bool forwards(uint32_t count) {
    uint32_t back = 0;
    for (int i = 0; i < 20000 && back < count; i++) {
      send();
      turn();
      back += receive();
    }
    return back >= count;
  }
  // The queue pair of `far` that was made last (with keys: the packet gather's) goes to the error
  // state.
  bool fail_last_qp() {
    for (uint32_t n = 64; n != 0; n--)
      if (t.far->device().fail(device::QpHandle{n}).ok()) return true;
    return false;
  }
};

// Where the kernel refuses at first to reset what failed.
void a_refused_pair_is_tried_again();
void a_refused_receive_queue_is_tried_again();

}  // namespace kilim::test
