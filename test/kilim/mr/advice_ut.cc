// SPDX-License-Identifier: BSD-3-Clause
// Advice given by a control lcore, against a registrar that answers as it is told; thrashing
// noticed by counts and a clock that the test turns.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <thread>
#include <vector>

#include "kilim/detail/mr/advice_queue.hh"
#include "kilim/detail/mr/thrash.hh"
#include "ut.hh"

namespace advice_ut {
namespace {

using namespace kilim;
using namespace kilim::mr;

class Oracle final : public Registrar {
 public:
  Result<Region> register_memory(std::span<std::byte>, uint32_t, uint64_t) override {
    return Error{EOPNOTSUPP, "advice only"};
  }
  Result<Region> register_memory_at(std::span<std::byte>, Iova, uint32_t, uint64_t) override {
    return Error{EOPNOTSUPP, "advice only"};
  }
  Status deregister(const Region&) override { return Error{EOPNOTSUPP, "advice only"}; }
  Status advise(const AdviceRequest& r) override {
    flushed = flushed && r.flush;
    asked.insert(asked.end(), r.ranges.begin(), r.ranges.end());
    advice.push_back(r.advice);
    const int code = answers.empty() ? 0 : answers.front();
    if (!answers.empty()) answers.pop_front();
    if (code != 0) return Error{code, "as told"};
    return Done{};
  }
  std::deque<int> answers;
  std::vector<AdviceRange> asked;
  std::vector<Advice> advice;
  bool flushed = true;
};

struct Ends {
  std::vector<std::pair<uint64_t, int>> all;  // id, errno
  static void note(void* ends, const AdviceJob& job, const Status& s) {
    static_cast<Ends*>(ends)->all.emplace_back(job.id, s ? 0 : s.error().code);
  }
};

std::unique_ptr<AdviceQueue> queue(Registrar& r, Ends& ends, uint32_t tries = 3) {
  auto q = AdviceQueue::create(
      r, {.depth = 4, .tries = tries, .pause_ns = 100, .done = Ends::note, .arg = &ends});
  CU_ASSERT_TRUE_FATAL(q.ok());
  return *std::move(q);
}

void gives_what_was_submitted() {
  Oracle oracle;
  Ends ends;
  auto q = queue(oracle, ends);
  CU_ASSERT(q->idle() && q->poll(0) == 0);
  constexpr uint64_t big = (uint64_t{5} << 30) + 7;
  CU_ASSERT(q->submit({.address = 4096, .bytes = big, .id = 1, .lkey = Lkey{9}}));
  CU_ASSERT(q->submit({.address = 1, .bytes = 1, .id = 2, .advice = Advice::prefetch_write}));
  CU_ASSERT(!q->idle());
  CU_ASSERT(oracle.asked.empty());
  EQUAL(q->poll(0, 1), 1);
  EQUAL(q->poll(0, 5), 1);
  uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < oracle.asked.size(); i++) {
    EQUAL(oracle.asked[i].address, 4096 + sum);
    sum += oracle.asked[i].bytes;
  }
  EQUAL(sum, big);
  CU_ASSERT(oracle.flushed);
  EQUAL(oracle.advice[1], Advice::prefetch_write);
  const std::vector<std::pair<uint64_t, int>> expected{{1, 0}, {2, 0}};
  EQUAL(ends.all, expected);
  EQUAL(q->counts().done, 2);
}

void tries_again_for_a_while() {
  Oracle oracle;
  Ends ends;
  auto q = queue(oracle, ends);
  oracle.answers = {EAGAIN, EAGAIN, 0, EAGAIN, EAGAIN, EAGAIN, EPERM};
  CU_ASSERT(q->submit({.bytes = 1, .id = 1}));
  EQUAL(q->poll(1000), 1);
  EQUAL(q->poll(1099), 0);  // not before its pause is over
  CU_ASSERT(!q->idle() && q->poll(1100) == 1 && q->poll(1200) == 1);
  CU_ASSERT(q->idle());
  CU_ASSERT(ends.all.size() == 1 && ends.all[0].second == 0);
  CU_ASSERT(q->submit({.bytes = 1, .id = 2}));
  CU_ASSERT(q->submit({.bytes = 1, .id = 3}));
  uint32_t calls = q->poll(2000, 1);
  for (uint64_t now = 2100; now < 4000; now += 100)
    calls += now < 2300 ? q->poll(now, 1) : q->poll(now);
  const std::vector<std::pair<uint64_t, int>> expected{{1, 0}, {2, EAGAIN}, {3, EPERM}};
  EQUAL(ends.all, expected);
  EQUAL(calls, 4);
  EQUAL(oracle.asked.size(), 7);
  const AdviceQueue::Counts c = q->counts();
  EQUAL(c.done, 1);
  EQUAL(c.given_up, 1);
  EQUAL(c.failed, 1);
  EQUAL(c.retried, 4);
}

void is_bounded() {
  Oracle oracle;
  Ends ends;
  EQUAL(AdviceQueue::create(oracle, {.depth = 3}).error().code, EINVAL);
  EQUAL(AdviceQueue::create(oracle, {.tries = 0}).error().code, EINVAL);
  auto q = queue(oracle, ends);
  for (int i = 0; i < 4; i++) CU_ASSERT(q->submit({.bytes = 1}));
  CU_ASSERT_FALSE(q->submit({.bytes = 1}));
  EQUAL(q->poll(0, 100), 4);
  CU_ASSERT(q->submit({.bytes = 1}));
}

void many_threads_submit() {
  Oracle oracle;
  Ends ends;
  auto q = queue(oracle, ends);
  constexpr uint64_t each = 2000;
  auto work = [&](uint64_t base) {
    for (uint64_t i = 0; i < each; i++) {
      while (!q->submit({.bytes = 1, .id = base + i})) std::this_thread::yield();
    }
  };
  std::thread a(work, 0), b(work, each);
  while (ends.all.size() < 2 * each) {
    if (q->poll(0) == 0) std::this_thread::yield();
  }
  a.join();
  b.join();
  std::vector<bool> seen(2 * each);
  for (const auto& [id, code] : ends.all) seen[id] = true;
  EQUAL(std::find(seen.begin(), seen.end(), false), seen.end());
}

constexpr uint64_t second = 1'000'000'000;

void thrashing_is_said() {
  std::vector<ThrashDetector::Verdict> said;
  ThrashDetector::Config config;
  config.faults_per_second = 100;
  config.say = [](void* to, const ThrashDetector::Verdict& v) {
    static_cast<std::vector<ThrashDetector::Verdict>*>(to)->push_back(v);
  };
  config.arg = &said;
  ThrashDetector d(config);
  const Lkey a{0x100}, b{0x200};
  CU_ASSERT_FALSE(d.count(0, {a, 5000}));
  CU_ASSERT_FALSE(d.count(0, {b, 0}));
  CU_ASSERT_FALSE(d.count(second / 2, {a, 50000}));  // its window is not over
  CU_ASSERT_FALSE(d.count(second, {a, 5100}));       // just the threshold
  CU_ASSERT_FALSE(d.count(2 * second, {b, 200}));    // 100 a second over two
  CU_ASSERT(d.count(2 * second, {a, 5201}));
  CU_ASSERT(d.count(3 * second, {b, 1200}));
  CU_ASSERT_FALSE(d.count(4 * second, {b, 7}));  // counted anew: no rate below nothing
  EQUAL_FATAL(said.size(), 2);
  EQUAL_FATAL(d.verdicts(), 2);
  EQUAL(said[0].region, a);
  EQUAL(said[0].faults_per_second, 101);
  EQUAL(said[1].region, b);
  EQUAL(said[1].faults_per_second, 1000);
  // A device that counts all regions together: the mean is judged.
  CU_ASSERT_FALSE(d.count(4 * second, {std::nullopt, 0, 4}));
  CU_ASSERT_FALSE(d.count(5 * second, {std::nullopt, 400, 4}));
  CU_ASSERT(d.count(6 * second, {std::nullopt, 804, 4}));
  CU_ASSERT(!said[2].region.has_value());
  EQUAL(said[2].faults_per_second, 101);
}

void thrashing_regions_are_fetched() {
  Oracle oracle;
  Ends ends;
  auto q = queue(oracle, ends);
  ThrashDetector::Config config;
  config.faults_per_second = 10;
  config.window_ns = second / 10;
  config.fetch = q.get();
  config.advice = Advice::prefetch_write;
  ThrashDetector d(config);
  Region a, b, all;
  a.lkey = Lkey{0x100}, a.iova = 4096, a.length = 8192, a.kind = Kind::on_demand;
  b = a, b.lkey = Lkey{0x200};
  all.kind = Kind::implicit, all.lkey = Lkey{0x300}, all.length = UINT64_MAX;
  for (const Region* r : {&a, &b, &all}) d.watch(*r);
  (void)d.count(0, {a.lkey, 0});
  CU_ASSERT(d.count(second, {a.lkey, 1000}));
  EQUAL(q->poll(0), 1);
  CU_ASSERT(oracle.asked.size() == 1 && oracle.asked[0].lkey == a.lkey);
  EQUAL(oracle.asked[0].address, 4096);
  EQUAL(oracle.asked[0].bytes, 8192);
  EQUAL(oracle.advice[0], Advice::prefetch_write);
  (void)d.count(0, {std::nullopt, 0, 2});
  CU_ASSERT(d.count(second, {std::nullopt, 1000, 2}));
  EQUAL(q->poll(0), 2);
  d.forget(a);
  CU_ASSERT(d.count(2 * second, {std::nullopt, 2000, 2}));
  EQUAL(q->poll(0), 1);
  EQUAL(oracle.asked.back().lkey, b.lkey);
}

const kilim::test::Case cases[] = {
    {"asynchronous advice is given by whoever polls, in parts of 32 bits",
     gives_what_was_submitted},
    {"asynchronous advice tries again after EAGAIN, a bounded number of times",
     tries_again_for_a_while},
    {"a full queue of advice takes nothing", is_bounded},
    {"many threads may submit advice", many_threads_submit},
    {"thrashing is said above the threshold of faults per second and region", thrashing_is_said},
    {"thrashing regions are fetched", thrashing_regions_are_fetched},
};

}  // namespace
}  // namespace advice_ut

KILIM_TEST_SUITE(advice, advice_ut::cases)
