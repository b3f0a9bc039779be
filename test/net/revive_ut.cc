// SPDX-License-Identifier: BSD-3-Clause
// Queues of a started port that fail are brought back: receive, transmit and the packet gather's,
// by the thread that serves them or by another while a worker forwards, also where the kernel
// refuses it at first. No buffer is lost.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "../vhca/verbs/refused_states_fixture.hh"
#include "explain.hh"
#include "revive_fixture.hh"
#include "ut.hh"

namespace revive_ut {
namespace {

using namespace kilim;
using pool::Handle;
using test::Bench;
using test::frame_bytes;

bool has(const std::string& text, const char* part) {
  if (text.find(part) == std::string::npos) std::printf("no '%s' in: %s\n", part, text.c_str());
  return text.find(part) != std::string::npos;
}

void receive_queue() {
  Bench b("io");
  for (uint32_t round = 1; round <= 5; round++) {
    CU_ASSERT_TRUE_FATAL(b.forwards(100));
    CU_ASSERT_TRUE_FATAL(b.fail_last_qp());
    CU_ASSERT_TRUE_FATAL(b.forwards(300));
    EQUAL(b.t.far->stats().recoveries, round);
    EQUAL(b.t.far->stats().queues_down, 0u);
  }
}

// More of them than the ring has places: each one's buffer comes back.
void a_frame_too_long_is_dropped_and_nothing_else_happens() {
  for (const char* mode : {"io", "umr"}) {
    Bench b(mode);
    CU_ASSERT_TRUE_FATAL(b.forwards(100));
    constexpr uint32_t many = 300;
    for (uint32_t i = 0; i < many; i++) {
      b.send(2200);
      b.turn();
    }
    CU_ASSERT_TRUE_FATAL(b.forwards(300));
    const port::PortStats s = b.t.far->stats();
    EQUAL(s.rx_too_long, many);
    EQUAL(s.rx_errors, many);
    EQUAL(s.recoveries, 0);
    EQUAL(s.queues_down, 0);
    const std::string why = testpmd::explain_errors(*b.t.far);
    CU_ASSERT(has(why, "receives 300, of them 300 frames longer than a buffer"));
    CU_ASSERT(has(why, "failed with IBV_WC_LOC_LEN_ERR: the message is longer than may be"));
    CU_ASSERT(has(why, "(syndrome 0x1, of the vendor "));
    CU_ASSERT(has(why, "\n    000: 00000"));  // its length
    EQUAL(testpmd::explain_errors(*b.t.near), "");
  }
}

// As on a card: what comes while nobody receives is lost, and counted.
void who_is_not_served_stops_nobody() {
  Bench b("io");
  uint32_t sent = 0;
  for (int i = 0; i < 100'000 && sent < 12'000; i++) {
    const uint64_t before = b.t.near->stats().tx_packets;
    b.send();
    sent += b.t.near->stats().tx_packets != before;
    b.t.run_devices();
  }
  EQUAL(sent, 12'000u);
  b.t.run_devices();
  EQUAL(b.t.far->missed(), 12'000u - 128);
  EQUAL(b.t.near->missed(), 0u);
  CU_ASSERT_TRUE(b.forwards(300));
}

// A packet beyond the arena's end, which the device may not read.
void transmit_queue() {
  for (const char* mode : {"io", "umr"}) {
    Bench b(mode);
    CU_ASSERT_TRUE_FATAL(b.forwards(100));
    if (!b.engine->gathered) {
      std::vector<uint32_t> all(b.t.pool.size());
      const uint32_t n = b.worker_cache.alloc_indices(all);
      std::sort(all.begin(), all.begin() + n);
      const Handle beyond{all[n - 1], 9000, 0};
      b.worker_cache.free_indices({all.data(), n - 1});
      while (b.t.far->tx_room(0) == 0) b.turn();
      EQUAL_FATAL(b.t.far->tx(0, {&beyond, 1}), 1u);
    } else {
      CU_ASSERT_TRUE_FATAL(b.t.far->device().fail(device::QpHandle{3}).ok());
    }
    CU_ASSERT_TRUE_FATAL(b.forwards(300));
    EQUAL(b.t.far->stats().recoveries, 1u);
    EQUAL(b.t.far->stats().tx_errors, b.engine->gathered ? 0u : 1u);
    EQUAL(b.t.far->stats().queues_down, 0u);
    const std::string why = testpmd::explain_errors(*b.t.far);
    if (b.engine->gathered) continue;
    CU_ASSERT(has(why, "sends 1; "));
    CU_ASSERT(has(why, "SEND at WQE "));
    CU_ASSERT(has(why, "failed with IBV_WC_LOC_PROT_ERR: segment 0: "));
    CU_ASSERT(has(why, "packet buffers"));
    CU_ASSERT(has(why, "(syndrome 0x4, of the vendor "));
    CU_ASSERT(has(why, "0x2328 bytes key "));     // the work request in words
    CU_ASSERT(has(why, "\n    020: 00002328 "));  // and in bytes
    b.t.far->stop();
    CU_ASSERT(has(testpmd::explain_errors(*b.t.far), "IBV_WC_LOC_PROT_ERR"));
  }
}

// As a card may fail any: of its raw queue, and in the second mode of the packet gather's too.
void requests_fail_by_themselves() {
  for (const char* mode : {"io", "umr"}) {
    Bench b(mode, "wqe@50+400");
    CU_ASSERT_TRUE_FATAL(b.forwards(2000));
    const port::PortStats s = b.t.far->stats();
    CU_ASSERT(s.recoveries >= 4);
    EQUAL(s.queues_down, 0);
    if (!b.engine->gathered) CU_ASSERT(s.tx_errors >= s.recoveries);
    CU_ASSERT(has(testpmd::explain_errors(*b.t.far), "failed with IBV_WC_LOC_QP_OP_ERR"));
  }
}

void packet_gather() {
  Bench b("umr");
  for (uint32_t round = 1; round <= 5; round++) {
    CU_ASSERT_TRUE_FATAL(b.forwards(100));
    CU_ASSERT_TRUE_FATAL(b.fail_last_qp());
    CU_ASSERT_TRUE_FATAL(b.forwards(300));
    EQUAL(b.t.far->stats().recoveries, round);
    EQUAL(b.t.far->stats().queues_down, 0u);
  }
}

void everything_at_once() {
  Bench b("umr");
  CU_ASSERT_TRUE_FATAL(b.forwards(100));
  for (uint32_t n = 1; n < 64; n++) (void)b.t.far->device().fail(device::QpHandle{n});
  CU_ASSERT_TRUE_FATAL(b.forwards(300));
  CU_ASSERT_TRUE(b.t.far->stats().recoveries >= 1);
  EQUAL(b.t.far->stats().queues_down, 0u);
}

// A device that cannot reset the queue may still read what was posted there.
void a_dead_device_keeps_what_it_holds() {
  test::TwoPorts t;
  t.near->unconfigure();
  t.near = test::make_port(test::fresh("vhca"), "", 40);
  CU_ASSERT_TRUE_FATAL(t.near != nullptr);
  CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 64, .txd = 64}).ok());
  const uint32_t receives = t.out();
  for (int i = 0; i < 60; i++) {
    Handle h;
    if (t.near->tx_room(0) == 0 || t.cache->alloc({&h, 1}, frame_bytes) == 0) continue;
    if (t.near->tx(0, {&h, 1}) == 0) t.cache->free({&h, 1});
    t.run_devices();
    t.near->reclaim(0);
  }
  const uint32_t held = t.out();
  CU_ASSERT_TRUE(held > receives);
  CU_ASSERT_TRUE(t.near->stats().queues_down != 0);
  // Each receive has had its completion, a flushed one: their buffers are nobody's any more.
  for (int i = 0; i < 3; i++) t.near->revive(nullptr);
  EQUAL(t.out(), held - receives);
  const uint32_t asked = test::refused_states.asked;
  std::this_thread::sleep_for(std::chrono::nanoseconds{2 * port::Retry::first_ns});
  t.near->revive(nullptr);
  EQUAL(test::refused_states.asked, asked);  // nothing more is asked of it
  t.near->stop();
  EQUAL(t.out(), 0u);
}

// A worker that is in the middle of a burst may use the queue: nothing is done to it until that
// worker has reported.
void a_queue_waits_for_its_worker() {
  for (const char* mode : {"io", "umr"}) {
    Bench b(mode);
    CU_ASSERT_TRUE_FATAL(b.forwards(100));
    auto quiescence = worker::Quiescence::create(1);
    CU_ASSERT_TRUE_FATAL(quiescence.ok());
    CU_ASSERT_TRUE_FATAL(quiescence->add(0));
    quiescence->online(0);
    CU_ASSERT_TRUE_FATAL(b.fail_last_qp());
    for (int i = 0; i < 20'000 && b.t.far->stats().queues_down == 0; i++) {
      b.send();
      b.t.run_devices();
      b.engine->run(b.stream);
    }
    for (int i = 0; i < 100; i++) {
      b.t.far->revive(&*quiescence);
      b.t.run_devices();
    }
    EQUAL(b.t.far->stats().queues_down, 1u);
    EQUAL(b.t.far->stats().recoveries, 0u);
    quiescence->pass(0);
    b.t.far->revive(&*quiescence);
    EQUAL(b.t.far->stats().recoveries, 1u);
    EQUAL(b.t.far->stats().queues_down, 0u);
    quiescence->offline(0);
    CU_ASSERT_TRUE(b.forwards(300));
  }
}

void forward_until(Bench& b, worker::Quiescence& quiescence, const std::atomic<bool>& stop) {
  quiescence.online(0);
  while (!stop.load()) {
    b.t.run_devices();
    if (b.engine->run(b.stream) == 0) std::this_thread::yield();
    quiescence.pass(0);
  }
  quiescence.offline(0);
}

// 200 more frames come back, although a queue fails on the way; returns how many came.
uint32_t fail_and_go_on(Bench& b, worker::Quiescence& quiescence, uint32_t from) {
  uint32_t back = from;
  for (int i = 0; i < 200000 && back < from + 200; i++) {
    if (i == 50) CU_ASSERT_TRUE(b.fail_last_qp());
    b.send();
    back += b.receive();
    b.t.far->revive(&quiescence);
    if (i % 8 == 0) std::this_thread::yield();
  }
  CU_ASSERT_TRUE(back >= from + 200);
  return back;
}

// A worker forwards in a thread of its own; this one is the control lcore, and `near`.
void beside_a_worker() {
  for (const char* mode : {"io", "umr"}) {
    Bench b(mode);
    auto quiescence = worker::Quiescence::create(1);
    CU_ASSERT_TRUE_FATAL(quiescence.ok());
    CU_ASSERT_TRUE_FATAL(quiescence->add(0));
    std::atomic<bool> stop{false};
    std::thread worker([&] { forward_until(b, *quiescence, stop); });
    uint32_t back = 0;
    for (uint32_t round = 1; round <= 4; round++) {
      back = fail_and_go_on(b, *quiescence, back);
    }
    for (int i = 0; i < 20000 && b.t.far->stats().queues_down != 0; i++) {
      b.t.far->revive(&*quiescence);
      std::this_thread::yield();
    }
    CU_ASSERT_TRUE(b.t.far->stats().recoveries >= 1);
    EQUAL(b.t.far->stats().queues_down, 0u);
    stop.store(true);
    worker.join();
    b.worker_cache.release_owner();
  }
}

// The device takes the record as if nothing had been read for a long time. No reset helps a
// completion queue, so its queue stays down, until the port makes both anew.
void an_overrun_is_told() {
  Bench b("io");
  port::Port& far = *b.t.far;
  CU_ASSERT_TRUE_FATAL(b.forwards(100));
  // It reads the record anew once it has filled as many entries as it knew to be free.
  for (int i = 0; i < 20'000 && far.stats().cq_overruns == 0; i++) {
    b.send();
    b.turn();
    const queue::CqGeometry& g = far.tx_queue(0).cq.geometry();
    record_store(g.record, be32{(record_load(g.record).host() - g.cqe_count) & 0xffffff});
  }
  for (int i = 0; i < 50; i++) b.turn();
  const port::PortStats s = far.stats();
  EQUAL(s.cq_overruns, 1);
  EQUAL(s.queues_down, 1);
  EQUAL(s.recoveries, 0);
  CU_ASSERT_TRUE(s.queue_events >= 1);
  far.stop();
  CU_ASSERT_TRUE_FATAL(far.start().ok());
  CU_ASSERT_TRUE(b.forwards(300));
  EQUAL(far.stats().queues_down, 0u);
}

const kilim::test::Case cases[] = {
    {"a completion queue that ran over is told, and ended by a restart", an_overrun_is_told},
    {"a receive queue that an error ended works again", receive_queue},
    {"a frame too long is dropped and nothing else happens",
     a_frame_too_long_is_dropped_and_nothing_else_happens},
    {"who is not served stops nobody", who_is_not_served_stops_nobody},
    {"a transmit queue that a bad packet ended works again", transmit_queue},
    {"send requests that fail by themselves are got over", requests_fail_by_themselves},
    {"the packet gather's queue works again and its keys are rebuilt", packet_gather},
    {"all queues of a port fail at once", everything_at_once},
    {"a device that is dead keeps what it holds until the port stops",
     a_dead_device_keeps_what_it_holds},
    {"a pair whose reset is refused is tried again", test::a_refused_pair_is_tried_again},
    {"a receive work queue whose reset is refused is tried again",
     test::a_refused_receive_queue_is_tried_again},
    {"a queue is not touched before its worker has reported", a_queue_waits_for_its_worker},
    {"queues are revived beside a worker that forwards", beside_a_worker},
};

}  // namespace
}  // namespace revive_ut

KILIM_TEST_SUITE(revive, revive_ut::cases)
