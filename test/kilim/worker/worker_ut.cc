// SPDX-License-Identifier: BSD-3-Clause
// The poll loop on ordinary threads: turns, messages, stop and start, quiescence.
#include <string>
#include <thread>

#include "case_tables.hh"
#include "eal.hh"
#include "kilim/detail/worker/worker.hh"
#include "ut.hh"
#include "worker_cases.hh"

namespace worker_ut {
namespace {

using namespace kilim::worker;

struct Trace {
  std::string order;
  uint32_t budget = 0;
  uint32_t left = 3;  // rounds with work
};

uint32_t poll_a(void* c, uint32_t budget) noexcept {
  auto* t = static_cast<Trace*>(c);
  t->order += 'a';
  t->budget = budget;
  return t->left > 0 ? t->left-- : 0;
}
uint32_t poll_b(void* c, uint32_t) noexcept {
  static_cast<Trace*>(c)->order += 'b';
  return 0;
}

void in_turn() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto w = Worker::create({.lcore = 0, .budget = 17});
  CU_ASSERT_TRUE_FATAL(w.ok());
  Trace t;
  CU_ASSERT_TRUE((*w)->add({poll_a, &t, "a"}).ok());
  CU_ASSERT_TRUE((*w)->add({poll_b, &t, "b"}).ok());
  EQUAL((*w)->round(), 3u);
  for (int i = 0; i < 4; i++) (*w)->round();
  EQUAL(t.order.c_str(), "ababababab");
  EQUAL(t.budget, 17u);
  EQUAL((*w)->stats().rounds, 5u);
  EQUAL((*w)->stats().busy_rounds, 3u);
  CU_ASSERT_TRUE((*w)->stats().busy_cycles > 0);
}

void messages_between_rounds() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto w = Worker::create({.lcore = 1});
  CU_ASSERT_TRUE_FATAL(w.ok());
  int ran = 0;
  Message m{[](void* c) noexcept { ++*static_cast<int*>(c); }, &ran};
  uint32_t posted = 0;
  while ((*w)->post(m)) posted++;
  EQUAL(posted, Mailbox::depth);
  (*w)->round();
  EQUAL(ran, static_cast<int>(posted));
  CU_ASSERT_TRUE((*w)->post(m));
  auto twin = Worker::create({.lcore = 1});
  CU_ASSERT_FALSE(twin.ok());
}

// A stop from another thread ends the loop, with every idle policy; a stopped worker runs again.
void stops_and_starts() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  for (Idle idle : {Idle::spin, Idle::pause, Idle::yield, Idle::sleep}) {
    auto w = Worker::create({.lcore = 2, .idle = idle, .idle_rounds = 10});
    CU_ASSERT_TRUE_FATAL(w.ok());
    Worker& worker = **w;
    for (int again = 0; again < 3; again++) {
      uint64_t before = worker.stats().rounds;
      worker.clear_stop();
      std::thread loop([&worker] { worker.run(); });
      while (worker.stats().rounds < before + 5) std::this_thread::yield();
      worker.stop();
      loop.join();
      CU_ASSERT_TRUE(worker.stopping());
    }
  }
}

void reports_quiescence() {
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  auto q = Quiescence::create(4);
  CU_ASSERT_TRUE_FATAL(q.ok());
  CU_ASSERT_FALSE(Worker::create({.lcore = 4, .quiescence = &*q}).ok());
  {
    auto w = Worker::create({.lcore = 3, .quiescence = &*q});
    CU_ASSERT_TRUE_FATAL(w.ok());
    q->online(3);
    uint64_t token = q->start();
    CU_ASSERT_FALSE(q->passed(token));
    (*w)->round();
    CU_ASSERT_TRUE(q->passed(token));
    q->offline(3);
    CU_ASSERT_TRUE(q->passed(q->start()));
  }
  CU_ASSERT_FALSE(Quiescence::create(0).ok());
}

const kilim::test::Case cases[] = {
    {"pollers run in turn with the worker's budget", in_turn},
    {"messages run between rounds and a full box says so", messages_between_rounds},
    {"a stopped worker ends its loop and runs again", stops_and_starts},
    {"every round reports quiescence", reports_quiescence},
};

}  // namespace
}  // namespace worker_ut

KILIM_TEST_MAIN(worker) {
  using namespace kilim::test;
  return kilim::test::run_tables(
      "worker", {worker_ut::cases, kilim::test::change_cases(), kilim::test::sleep_cases()}, argc,
      argv);
}
