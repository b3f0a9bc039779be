// SPDX-License-Identifier: BSD-3-Clause
// Part of worker_ut. Pollers come and go while a worker runs, and what cannot be done is refused.
#include <atomic>
#include <cerrno>
#include <thread>

#include "eal.hh"
#include "kilim/detail/worker/worker.hh"
#include "worker_cases.hh"

namespace change_cases_ut {
namespace {

using namespace kilim::worker;

// A poller that knows whether a thread is in it, and how often one came.
struct Visited {
  std::atomic<uint32_t> visits{0};
  std::atomic<bool> inside{false};

  static uint32_t run(void* self, uint32_t) noexcept {
    auto& v = *static_cast<Visited*>(self);
    v.inside.store(true);
    v.visits.fetch_add(1);
    std::this_thread::yield();
    v.inside.store(false);
    return 1;
  }
  Poller poller() { return {run, this, "visited"}; }
};

// run() on a thread of its own until the end.
struct Running {
  std::unique_ptr<Worker> worker;
  std::thread loop;

  explicit Running(const WorkerConfig& config) {
    CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
    auto made = Worker::create(config);
    CU_ASSERT_TRUE_FATAL(made.ok());
    worker = *std::move(made);
    loop = std::thread([w = worker.get()] { w->run(); });
    while (worker->stats().rounds == 0) std::this_thread::yield();
  }
  ~Running() {
    worker->stop();
    loop.join();
  }
};

void what_cannot_be_done() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto made = Worker::create({.lcore = 5});
  CU_ASSERT_TRUE_FATAL(made.ok());
  Worker& w = **made;
  Visited a, b;
  CU_ASSERT_TRUE(w.add(a.poller()).ok());
  EQUAL(w.add(a.poller()).error().code, EEXIST);
  EQUAL(w.remove(b.poller()).error().code, ENOENT);
  w.round();
  EQUAL(a.visits.load(), 1u);  // once
  CU_ASSERT_TRUE(w.add(b.poller()).ok());
  CU_ASSERT_TRUE(w.remove(a.poller()).ok());
  EQUAL(w.remove(a.poller()).error().code, ENOENT);
  EQUAL(w.pollers(), 1u);
  w.round();
  EQUAL(a.visits.load(), 1u);
  EQUAL(b.visits.load(), 1u);
  EQUAL(Worker::create({.lcore = 6, .tick = {[](void*) noexcept {}, nullptr, 0}}).error().code,
        EINVAL);
}

// On its own thread a worker would wait for itself.
void not_from_inside() {
  Running r({.lcore = 5});
  struct Ask {
    Worker& worker;
    Visited other;
    std::atomic<int> added{0}, removed{0};
  } ask{*r.worker, {}, {}, {}};
  auto change = [](void* c) noexcept {
    auto& a = *static_cast<Ask*>(c);
    a.added = a.worker.add(a.other.poller()).error().code;
    a.removed = a.worker.remove(a.other.poller()).error().code;
  };
  CU_ASSERT_TRUE(r.worker->post({change, &ask}));
  while (ask.removed.load() == 0) std::this_thread::yield();
  EQUAL(ask.added.load(), EDEADLK);
  EQUAL(ask.removed.load(), EDEADLK);
}

// remove() returns when the worker has left the poller and will not come again: its memory may go.
void under_traffic(Idle idle) {
  Running r({.lcore = 5, .idle = idle, .idle_rounds = 3});
  Visited always;
  CU_ASSERT_TRUE_FATAL(r.worker->add(always.poller()).ok());
  for (int i = 0; i < 200; i++) {
    auto some = std::make_unique<Visited[]>(3);
    for (int k = 0; k < 3; k++) CU_ASSERT_TRUE_FATAL(r.worker->add(some[k].poller()).ok());
    while (some[2].visits.load() == 0) std::this_thread::yield();
    for (const int k : {1, 2, 0}) {  // in any order
      CU_ASSERT_TRUE_FATAL(r.worker->remove(some[k].poller()).ok());
      CU_ASSERT_FALSE(some[k].inside.load());
      const uint32_t visits = some[k].visits.load();
      std::this_thread::yield();
      EQUAL(some[k].visits.load(), visits);
    }
  }
  CU_ASSERT_TRUE(always.visits.load() >= 200u);
  CU_ASSERT_TRUE(r.worker->remove(always.poller()).ok());
}

void under_traffic_of_every_kind() {
  under_traffic(Idle::spin);
  under_traffic(Idle::sleep);
}

// Changes are made while the worker stops and starts, and none is forgotten.
void while_it_stops_and_starts() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto made = Worker::create({.lcore = 5, .idle = Idle::sleep, .idle_rounds = 3});
  CU_ASSERT_TRUE_FATAL(made.ok());
  Worker& w = **made;
  std::atomic<bool> over{false};
  std::thread loop([&] {
    while (!over.load()) {
      w.clear_stop();
      w.run();
    }
  });
  Visited v;
  for (int i = 0; i < 300; i++) {
    CU_ASSERT_TRUE_FATAL(w.add(v.poller()).ok());
    w.stop();
    CU_ASSERT_TRUE_FATAL(w.remove(v.poller()).ok());
    CU_ASSERT_FALSE(v.inside.load());
  }
  over.store(true);
  // The loop may have cleared a stop that came before; it ends with one that comes behind that.
  std::atomic<bool> ended{false};
  std::thread stopper([&] {
    while (!ended.load()) {
      w.stop();
      std::this_thread::yield();
    }
  });
  loop.join();
  ended.store(true);
  stopper.join();
  EQUAL(w.pollers(), 0u);
}

constexpr kilim::test::Case of_changes[] = {
    {"pollers come and go, and what is not there is refused", what_cannot_be_done},
    {"a worker does not wait for itself", not_from_inside},
    {"a removed poller has been left under traffic", under_traffic_of_every_kind},
    {"pollers change while a worker stops and starts", while_it_stops_and_starts},
};

}  // namespace
}  // namespace change_cases_ut

std::span<const kilim::test::Case> kilim::test::change_cases() {
  return change_cases_ut::of_changes;
}
