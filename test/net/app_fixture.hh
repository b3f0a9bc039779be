// SPDX-License-Identifier: BSD-3-Clause
// For tests of kilim/detail/app whose lanes run on threads of their own: ports, a frame with its
// threads, and a packet function that sends everything back until it collects. KILIM_CHECK=long:
// more rounds.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "attach/resolve.hh"
#include "kilim/detail/app/burst.hh"
#include "kilim/detail/app/frame.hh"
#include "two_ports_fixture.hh"
#include "ut.hh"

namespace kilim::test {

using app::Burst;
using pool::Handle;

inline constexpr uint32_t small_frame = 60, number_at = 20;

inline bool long_check() {
  const char* v = std::getenv("KILIM_CHECK");
  return v != nullptr && std::strcmp(v, "long") == 0;
}

// What lanes do with packets: all go back by the port that they came by, until they are collected.
struct Game {
  std::atomic<bool> collect{false};
  std::atomic<uint32_t> collected{0};
  std::atomic<uint64_t> turns{0};  // packets that were sent back
  std::atomic<uint32_t> ticks{0};
  std::vector<std::atomic<uint32_t>> seen;  // how often each was collected

  explicit Game(uint32_t packets) : seen(packets) {}

  static void on_burst(void* context, Burst& b) noexcept {
    auto& g = *static_cast<Game*>(context);
    if (!g.collect.load(std::memory_order_relaxed)) {
      g.turns.fetch_add(b.packets().size(), std::memory_order_relaxed);
      return b.send(b.port(), b.packets());
    }
    for (const Handle h : b.packets()) {
      uint32_t number;
      std::memcpy(&number, b.bytes(h).data() + number_at, sizeof number);
      if (number < g.seen.size()) g.seen[number].fetch_add(1);
      b.drop(h);
      g.collected.fetch_add(1);
    }
  }
  static void on_tick(void* context, uint32_t) noexcept {
    static_cast<Game*>(context)->ticks.fetch_add(1);
  }
};

// A frame over given ports whose workers run on threads; the test's thread is the control lcore.
struct Threads {
  std::unique_ptr<app::Frame> frame;
  std::vector<std::thread> loops;

  Threads(std::vector<port::Port*> ports, uint32_t lanes, const app::Program& program) {
    std::vector<uint32_t> lcores;
    for (uint32_t i = 0; i < lanes; i++) lcores.push_back(i);
    auto made = app::Frame::create(ports, lcores, program);
    if (!made) std::printf("%s ", made.error().what);
    CU_ASSERT_TRUE_FATAL(made.ok());
    frame = *std::move(made);
  }
  ~Threads() {
    stop();
    for (port::Port* p : frame->ports()) p->unconfigure();
    for (const auto& lane : frame->lanes()) lane->cache->flush();
    EQUAL(frame->pool().available(), frame->pool().size());
  }
  void start(std::size_t first = 0) {
    release();
    for (const auto& lane : frame->lanes().subspan(first)) {
      lane->worker->clear_stop();
      loops.emplace_back([w = lane->worker.get()] { w->run(); });
    }
  }
  void stop() {
    frame->stop();
    for (std::thread& t : loops) t.join();
    loops.clear();
    release();
  }
  // `n` numbered packets, before the lanes run.
  void serve(uint32_t port, uint32_t n) {
    app::Lane& lane = *frame->lanes()[0];
    Burst b(lane, port, {});
    for (uint32_t i = 0; i < n; i++) {
      Handle h;
      EQUAL_FATAL(lane.cache->alloc({&h, 1}, small_frame), 1u);
      std::memset(b.bytes(h).data(), 2, small_frame);
      std::memcpy(b.bytes(h).data() + number_at, &i, sizeof i);
      b.send(port, h);
    }
    lane.flush(lane.outputs[port]);
  }
  // What this thread has touched is the workers' now.
  void release() {
    for (const auto& lane : frame->lanes()) {
      for (const auto& in : lane->inputs)
        CU_ASSERT_TRUE(in->port->hand_rx(in->queue, *lane->cache).ok());
      lane->cache->release_owner();
      for (app::Output& o : lane->outputs) {
        o.port->tx_queue(lane->number).sq.release_owner();
        o.port->tx_queue(lane->number).cq.release_owner();
      }
    }
  }
  [[nodiscard]] uint64_t missed() const {
    uint64_t n = 0;
    for (port::Port* p : frame->ports()) n += p->missed() + p->stats().rx_discarded;
    return n;
  }
};

template <typename Done>
bool wait_until(Done done, int looks = 3'000'000) {
  for (int i = 0; i < looks; i++) {
    if (done()) return true;
    std::this_thread::yield();
  }
  return false;
}

inline std::unique_ptr<port::Port> port_with(const std::string& wire, Progress progress,
                                             const port::QueueSizes& sizes = {},
                                             uint64_t fatal_at = 0) {
  CU_ASSERT_TRUE_FATAL(start_eal());
  DeviceSpec spec;
  spec.name = fresh("vhca");
  if (!wire.empty()) spec.wires.push_back(wire);
  spec.progress = progress;
  spec.fatal_at = fatal_at;
  auto a = attach::resolve(spec);
  CU_ASSERT_TRUE_FATAL(a.ok());
  port::PortParts parts{.name = "port_" + spec.name,
                        .device = std::move(a->device),
                        .poller = a->poller,
                        .defaults = sizes};
  auto made = port::Port::create(std::move(parts));
  CU_ASSERT_TRUE_FATAL(made.ok());
  return *std::move(made);
}

}  // namespace kilim::test
