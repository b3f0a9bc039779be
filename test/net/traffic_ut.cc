// SPDX-License-Identifier: BSD-3-Clause
// Frames of many sizes go over a cable into a port, through each of testpmd's modes, and back: none
// lost, every byte as the mode says.
#include <cerrno>
#include <string>
#include <vector>

#include "case_tables.hh"
#include "traffic_fixture.hh"
#include "ut.hh"

namespace traffic_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

void all_modes() {
  const std::vector<Frame> frames = make_frames(3000, 1);
  test::TwoPorts t;
  for (const char* mode : {"io", "mac", "macswap", "umr"}) {
    const bool gathered = testpmd::find_engine(mode)->gathered;
    const uint32_t keys = gathered ? 128 : 0;
    CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 256, .txd = 256}).ok());
    CU_ASSERT_TRUE_FATAL(
        t.start(*t.far, {.rxd = 256, .txd = 256}, {.gathered = gathered}, keys).ok());
    const port::PortStats before = t.far->stats();
    Run run = make_run(t, mode, frames, keys);
    run.all();
    EQUAL(run.back, frames.size());
    EQUAL(run.wrong, 0u);
    EQUAL(run.stream.dropped.read(), 0u);
    const port::PortStats after = t.far->stats();
    EQUAL(after.tx_completed - before.tx_completed, frames.size());
    EQUAL(after.tx_bytes - before.tx_bytes, after.rx_bytes - before.rx_bytes);
    EQUAL(after.keys_bound - before.keys_bound, gathered ? frames.size() : 0u);
    t.near->stop();
    t.far->stop();
    EQUAL(t.out(), 0u);
  }
}

// Few keys and small rings: keys are gathered again and again, with all 256 tags.
void keys_come_round() {
  const std::vector<Frame> frames = make_frames(20000, 2);
  test::TwoPorts t;
  CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 128, .txd = 128}).ok());
  CU_ASSERT_TRUE_FATAL(t.start(*t.far, {.rxd = 128, .txd = 128}, {.gathered = true}, 64).ok());
  Run run = make_run(t, "umr", frames, 64);
  run.all();
  EQUAL(run.back, frames.size());
  EQUAL(run.wrong, 0u);
  // Bound again under a new tag each time: a stale use of a key would be refused.
  uint64_t tags = 0;
  for (uint32_t slot = 0; slot < 64; slot++)
    tags += tag_of(t.far->packet_gather(0)->slots()->keys[slot]);
  CU_ASSERT_TRUE(tags > 0);
}

void start_with_long_rings(TwoPorts& t, pool::BufferCache& sender) {
  CU_ASSERT_TRUE_FATAL(t.start(*t.far, {.rxd = 256, .txd = 256}).ok());
  CU_ASSERT_TRUE_FATAL(t.near->configure({.rxd = 256, .txd = 256}, t.memory).ok());
  CU_ASSERT_TRUE_FATAL(t.near->set_rx(0, {.cache = &*t.cache}).ok());
  CU_ASSERT_TRUE_FATAL(t.near->set_tx(0, {.cache = &sender}).ok());
  CU_ASSERT_TRUE_FATAL(t.near->start().ok());
}

// The next frame, if there is a buffer for it.
void send_one(TwoPorts& t, pool::BufferCache& sender, const std::vector<Frame>& frames, Run& run) {
  Handle h;
  if (run.sent < frames.size() && sender.alloc({&h, 1}, 0) == 1) {
    const Frame& f = frames[run.sent];
    h.length = static_cast<uint16_t>(f.size());
    std::memcpy(t.memory.arena().data(h), f.data(), f.size());
    EQUAL_FATAL(t.near->tx(0, {&h, 1}), 1u);
    run.sent++;
  }
}

// Fewer buffers than the rings have places: frames wait, none is lost, and the shortage is counted.
void dry_pool() {
  const std::vector<Frame> frames = make_frames(2000, 3);
  test::TwoPorts t(316);
  pool::BufferCache sender(t.pool);  // the rings would take these too
  uint32_t own[16];
  EQUAL_FATAL(t.cache->alloc_indices(own), 16u);
  sender.free_indices(own);
  start_with_long_rings(t, sender);
  Run run = make_run(t, "io", frames);
  for (uint32_t turn = 0; run.back < frames.size() && turn < 20000; turn++) {
    send_one(t, sender, frames, run);
    t.near->reclaim(0);
    t.run_devices();
    run.engine->run(run.stream);
    run.receive();
  }
  EQUAL(run.back, frames.size());
  EQUAL(run.wrong, 0u);
  CU_ASSERT_TRUE(t.near->stats().rx_no_buffer > 0);
  t.near->stop();
}

// Stopped amid traffic, with packets in every place; all buffers come back and it starts again.
void stop_and_start() {
  const std::vector<Frame> frames = make_frames(500, 4);
  test::TwoPorts t;
  for (int round = 0; round < 5; round++) {
    CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 64, .txd = 128}).ok());
    CU_ASSERT_TRUE_FATAL(t.start(*t.far, {.rxd = 64, .txd = 64}, {.gathered = true}, 64).ok());
    Run run = make_run(t, "umr", frames, 64);
    for (int i = 0; i < 3 + round; i++) {
      run.send();
      t.run_devices();
      run.engine->run(run.stream);
    }
    run.send();
    t.near->stop();
    t.far->stop();
    CU_ASSERT_FALSE(t.near->started());
    EQUAL(t.out(), 0u);
  }
  CU_ASSERT_TRUE(t.near->stats().tx_packets >= 5 * 16);  // counts outlive the queues
}

void many_transmit_queues() {
  const std::vector<Frame> frames = make_frames(64, 5);
  test::TwoPorts t;
  CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.txq = 8, .rxd = 64, .txd = 64}).ok());
  CU_ASSERT_TRUE_FATAL(t.start(*t.far, {.rxd = 128, .txd = 64}).ok());
  for (uint32_t q = 0; q < 8; q++) {
    Handle h[8];
    EQUAL_FATAL(t.cache->alloc(h, 0), 8u);
    for (uint32_t i = 0; i < 8; i++) {
      const Frame& f = frames[q * 8 + i];
      h[i].length = static_cast<uint16_t>(f.size());
      std::memcpy(t.memory.arena().data(h[i]), f.data(), f.size());
    }
    EQUAL(t.near->tx(q, h), 8u);
  }
  uint32_t arrived = 0;
  for (int i = 0; i < 1000 && arrived < 64; i++) {
    t.run_devices();
    Handle h[64];
    const uint32_t n = t.far->rx(0, h);
    t.cache->free({h, n});
    arrived += n;
  }
  EQUAL(arrived, 64u);
}

void chains_are_gathered() {
  test::TwoPorts t;
  CU_ASSERT_TRUE_FATAL(t.start(*t.near, {.rxd = 64, .txd = 64}, {.multi_seg = true}).ok());
  CU_ASSERT_TRUE_FATAL(t.start(*t.far, {.rxd = 64, .txd = 64}).ok());
  Handle h[5];
  EQUAL_FATAL(t.cache->alloc(h, 40), 5u);
  Frame want;
  for (uint32_t i = 0; i < 5; i++) {
    if (i != 4) h[i].meta |= Handle::more;
    for (std::byte& x : t.memory.arena().bytes(h[i])) x = b(i * 16 + 2);
    for (int k = 0; k < 40; k++) want.push_back(b(i * 16 + 2));
  }
  EQUAL(t.near->tx(0, h), 5u);
  uint32_t n = 0;
  Handle got[4];
  for (int i = 0; i < 1000 && n == 0; i++) {
    t.run_devices();
    n = t.far->rx(0, got);
  }
  EQUAL_FATAL(n, 1u);
  const auto bytes = t.memory.arena().bytes(got[0]);
  EQUAL(bytes.size(), want.size());
  EQUAL(std::memcmp(bytes.data(), want.data(), want.size()), 0);
  t.cache->free_one(got[0]);
}

void refused_queues(TwoPorts& t, port::Port& p) {
  CU_ASSERT_FALSE(p.start().ok());  // nobody serves the queues
  EQUAL(std::string(p.set_rx(1, {.cache = &*t.cache}).error().what),
        "receive queue 1 does not exist: the port has 1, numbered from 0");
  CU_ASSERT_FALSE(p.set_rx(0, {}).ok());
  const auto lines = static_cast<uint16_t>(t.memory.arena().stride() / 64);
  for (const uint16_t none_left : {lines, uint16_t(lines + 1), uint16_t{65535}})
    CU_ASSERT_FALSE(p.set_rx(0, {.cache = &*t.cache, .head_lines = none_left}).ok());
  EQUAL(std::string(p.set_tx(1, {.cache = &*t.cache}).error().what),
        "transmit queue 1 does not exist: the port has 1, numbered from 0");
  CU_ASSERT_FALSE(p.set_tx(0, {.cache = &*t.cache, .config = {.gathered = true}}).ok());
  CU_ASSERT_FALSE(p.set_tx(0, {.cache = &*t.cache, .keys = 64}).ok());
}

void refused_set_ups() {
  test::TwoPorts t(200);
  port::Port& p = *t.near;
  CU_ASSERT_FALSE(p.start().ok());
  for (const port::QueueSizes bad :
       {port::QueueSizes{.rxq = 65}, port::QueueSizes{.rxq = 0}, port::QueueSizes{.txq = 0},
        port::QueueSizes{.txq = 65}, port::QueueSizes{.rxd = 32}, port::QueueSizes{.txd = 100}}) {
    Status s = p.configure(bad, t.memory);
    CU_ASSERT_FALSE_FATAL(s.ok());
    EQUAL(s.error().code, EINVAL);
  }
  CU_ASSERT_TRUE_FATAL(p.configure({}, t.memory).ok());
  refused_queues(t, p);
  CU_ASSERT_TRUE(t.start(p, {.rxd = 64, .txd = 64}).ok());
  CU_ASSERT_FALSE(p.start().ok());
  CU_ASSERT_FALSE(p.configure({}, t.memory).ok());
  CU_ASSERT_FALSE(p.set_rx(0, {.cache = &*t.cache}).ok());
  p.stop();
  for (uint32_t keys : {100u, 16384u})
    CU_ASSERT_FALSE(t.start(p, {.rxd = 64, .txd = 64}, {.gathered = true}, keys).ok());
  EQUAL(t.out(), 0u);  // a failed start leaves nothing
}

// A request with a bit that the manual reserves, in the port's own queue; and a sound one.
void linted_queues() {
  test::TwoPorts t;
  port::Port& p = *t.near;
  CU_ASSERT_TRUE_FATAL(p.configure({.rxd = 64, .txd = 64}, t.memory).ok());
  CU_ASSERT_TRUE(p.set_rx(0, {.cache = &*t.cache}).ok());
  CU_ASSERT_TRUE(p.set_tx(0, {.cache = &*t.cache, .lint_stops = false}).ok());
  CU_ASSERT_TRUE_FATAL(p.start().ok());
  const diag::DoorbellLint* lint = p.tx_lint(0);
  EQUAL_FATAL(lint != nullptr, queue::watched);
  for (uint32_t bad = 0; bad < 2 && lint != nullptr; bad++) {
    queue::WqeCursor c{p.tx_queue(0).sq};
    c.control(prm::Opcode::nop, Octowords{1}, bad != 0 ? 0x10 : 0, 0);
    c.advance(1, 0);
    c.leave();  // the device is not told
    EQUAL(lint->findings(), bad);
  }
}

const kilim::test::Case cases[] = {
    {"every mode passes every byte and loses nothing", all_modes},
    {"few keys come round with every tag", keys_come_round},
    {"a dry pool delays frames and loses none", dry_pool},
    {"a port stopped amid traffic gives all buffers back and starts again", stop_and_start},
    {"eight transmit queues share the wire", many_transmit_queues},
    {"a chain arrives as one frame", chains_are_gathered},
    {"wrong set-ups are refused and leave nothing", refused_set_ups},
    {"debug builds lint what the port's queues announce", linted_queues},
};

}  // namespace
}  // namespace traffic_ut

KILIM_TEST_MAIN(traffic) {
  return kilim::test::run_tables("traffic", {traffic_ut::cases, kilim::test::mbuf_cases()}, argc,
                                 argv);
}
