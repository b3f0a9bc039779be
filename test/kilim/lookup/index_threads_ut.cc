// SPDX-License-Identifier: BSD-3-Clause
// The index with readers and a changing thread at once.
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "kilim/detail/lookup/front.hh"
#include "lookup_fixture.hh"
#include "ut.hh"

namespace index_threads_ut {
namespace {

using namespace kilim;
using namespace kilim::lookup;
using namespace kilim::mr;
using namespace kilim::test;

// One thread adds and removes while others look up. Key k only ever stands for region k, and once
// it is gone nobody may find it until it is added again.
class Churn {
 public:
  static constexpr uint32_t readers = 2, keys = 96, rounds = 1500;

  bool setup() {
    for (uint32_t id = 0; id < readers; id++) rte_rcu_qsbr_thread_register(qsbr_.get(), id);
    // A wide region behind all, so that every lookup has an answer at all times.
    return index_ != nullptr && index_->add(region(gib, 200 * gib, keys)).ok();
  }
  static Region region_of(uint32_t k) {
    // Whole blocks in and outside the arena, pages, and pieces of one page; many overlap.
    const uint64_t from = k % 2 == 0 ? arena : 40 * gib;
    const uint64_t i = k / 8;
    switch (k / 2 % 4) {
      case 0:
        return region(from + i * mib2, 2 * mib2, k);
      case 1:
        return region(from + i * kib4, kib4, k);
      case 2:
        return region(from + mib2 + i * 64, 128, k);
      default:
        return region(from + i * mib2 / 2, mib2, k);
    }
  }
  static uint32_t any(std::minstd_rand& random) {
    return static_cast<uint32_t>(1 + random() % (keys - 1));
  }
  void read(uint32_t id) {
    std::minstd_rand random{id + 1};
    Front front{*index_};
    rte_rcu_qsbr_thread_online(qsbr_.get(), id);
    while (!over_.load(std::memory_order_acquire)) {
      for (int i = 0; i < 32; i++) {
        const Region asked = region_of(any(random));
        const uint64_t at = asked.address + random() % asked.length;
        check(index_->find(at, 1), at);
        check(front.find(at, 1), at);
      }
      lookups_.fetch_add(64, std::memory_order_relaxed);
      rte_rcu_qsbr_quiescent(qsbr_.get(), id);
      std::this_thread::yield();  // where cores are few the other threads come to their turn
    }
    rte_rcu_qsbr_thread_offline(qsbr_.get(), id);
  }
  void check(Lkey key, uint64_t at) {
    const uint32_t k = key.value();
    if (k == keys) return;
    const bool right =
        k != 0 && region_of(k).covers(at, 1) && !gone_[k].load(std::memory_order_relaxed);
    if (!right) wrong_.fetch_add(1, std::memory_order_relaxed);
  }
  // Until it was seen that both have worked: on one core they take turns.
  void change() {
    std::minstd_rand random{99};
    std::array<bool, keys> in{};
    for (uint32_t i = 0; i < rounds || lookups_.load() < 20'000; i++) {
      const uint32_t k = any(random);
      if (in[k]) {
        CU_ASSERT_TRUE_FATAL(index_->remove(Lkey{k}).ok());
        while (!index_->gone(Lkey{k})) std::this_thread::yield();
        gone_[k].store(true, std::memory_order_relaxed);
      } else {
        gone_[k].store(false, std::memory_order_relaxed);
        CU_ASSERT_TRUE_FATAL(index_->add(region_of(k)).ok());
      }
      in[k] = !in[k];
    }
    over_.store(true, std::memory_order_release);
  }
  uint64_t wrong() const { return wrong_.load(); }

 private:
  Qsbr qsbr_ = make_qsbr(readers);
  std::unique_ptr<Index> index_ = make_index(qsbr_.get());
  std::array<std::atomic<bool>, keys> gone_{};
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> wrong_{0}, lookups_{0};
};

void readers_and_changes() {
  Churn churn;
  CU_ASSERT_TRUE_FATAL(churn.setup());
  std::vector<std::thread> threads;
  for (uint32_t id = 0; id < Churn::readers; id++)
    threads.emplace_back([&churn, id] { churn.read(id); });
  churn.change();
  for (std::thread& t : threads) t.join();
  EQUAL(churn.wrong(), 0);
}

const kilim::test::Case cases[] = {
    {"readers find what is there while regions come and go", readers_and_changes},
};

}  // namespace
}  // namespace index_threads_ut

KILIM_TEST_SUITE(index_threads, index_threads_ut::cases)
