// SPDX-License-Identifier: BSD-3-Clause
// Part of revive_ut.cc: queues whose reset the kernel refuses at first are tried again, at a rate
// that is bounded, until it is done.
#include <chrono>
#include <cstdint>
#include <cstring>

#include "../vhca/verbs/refused_states_fixture.hh"
#include "revive_fixture.hh"

namespace kilim::test {
namespace revive_refused_ut {
namespace {

using Clock = std::chrono::steady_clock;

// `fail` takes a queue to the error state. Every change to RESET is refused for 100 ms, in which it
// is asked for at 0, 10, 30 and 70 ms, or later and less often on a busy machine. Then nothing is
// refused, and `step` goes on until no queue is down.
template <typename Fail, typename Step>
void refuse_for_a_while(port::Port& port, Fail fail, Step step) {
  const uint64_t before = port.stats().recoveries;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::seconds{20};
  refused_states = {.left = 1'000'000};
  CU_ASSERT_TRUE_FATAL(fail());
  while (Clock::now() - begin < std::chrono::milliseconds{100}) step();
  CU_ASSERT(refused_states.asked <= 4);
  while (refused_states.asked < 2 && Clock::now() < end) step();
  CU_ASSERT_TRUE(refused_states.asked >= 2);
  EQUAL(port.stats().recoveries, before);
  EQUAL(port.stats().queues_down, 1u);
  refused_states = {};
  while (port.stats().queues_down != 0 && Clock::now() < end) step();
  EQUAL(refused_states.asked, 1u);
  EQUAL(port.stats().recoveries, before + 1);
  EQUAL(port.stats().queues_down, 0u);
}

bool fail_last_rwq(device::Device& device) {
  for (uint32_t n = 64; n != 0; n--)
    if (device.set_rwq_state(device::RwqHandle{n}, device::RwqState::error).ok()) return true;
  return false;
}

uint32_t take_all(TwoPorts& t, uint32_t queues) {
  uint32_t sum = 0;
  for (uint32_t q = 0; q < queues; q++) {
    Handle h[64];
    const uint32_t n = t.far->rx(q, h);
    t.cache->free({h, n});
    sum += n;
  }
  return sum;
}

}  // namespace
}  // namespace revive_refused_ut

// The pair with the receive queue, and in the second mode the packet gather's.
void a_refused_pair_is_tried_again() {
  for (const char* mode : {"io", "umr"}) {
    Bench b(mode);
    for (uint32_t round = 0; round < 2; round++) {
      CU_ASSERT_TRUE_FATAL(b.forwards(100));
      revive_refused_ut::refuse_for_a_while(
          *b.t.far, [&] { return b.fail_last_qp(); },
          [&] {
            b.send();
            b.turn();
            (void)b.receive();
          });
      CU_ASSERT_TRUE_FATAL(b.forwards(300));
    }
  }
}

// One of two receive work queues.
void a_refused_receive_queue_is_tried_again() {
  TwoPorts t;
  CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 128, .txd = 128}).ok());
  CU_ASSERT_TRUE_FATAL(t.far->configure({.rxq = 2, .rxd = 128, .txd = 128}, t.memory).ok());
  for (uint32_t q = 0; q < 2; q++)
    CU_ASSERT_TRUE_FATAL(t.far->set_rx(q, {.cache = &*t.cache}).ok());
  CU_ASSERT_TRUE_FATAL(t.far->set_tx(0, {.cache = &*t.cache, .headers = &*t.cache}).ok());
  CU_ASSERT_TRUE_FATAL(t.far->start().ok());
  uint32_t came = 0;
  const auto step = [&] {
    Handle h;
    t.near->reclaim(0);
    if (t.near->tx_room(0) != 0 && t.cache->alloc({&h, 1}, frame_bytes) != 0) {
      std::memset(t.memory.arena().data(h), 0x02, frame_bytes);
      EQUAL_FATAL(t.near->tx(0, {&h, 1}), 1u);
    }
    t.run_devices();
    came += revive_refused_ut::take_all(t, 2);
    t.far->revive(nullptr);
  };
  revive_refused_ut::refuse_for_a_while(
      *t.far, [&] { return revive_refused_ut::fail_last_rwq(t.far->device()); }, step);
  came = 0;
  for (int i = 0; i < 20000 && came < 300; i++) step();
  CU_ASSERT_TRUE(came >= 300);
  t.near->stop();
  t.far->stop();
  EQUAL(t.out(), 0u);
}

}  // namespace kilim::test
