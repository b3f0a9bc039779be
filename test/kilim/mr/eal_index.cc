// SPDX-License-Identifier: BSD-3-Clause
// Part of eal_regions_ut. An index of EAL's memory and its readers: who is waited for, who is late.
#include <atomic>
#include <cerrno>
#include <thread>

#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include "../lookup/lookup_fixture.hh"
#include "eal_regions_fixture.hh"
#include "kilim/detail/lookup/indexed_regions.hh"

namespace eal_index_ut {
namespace {

using namespace kilim;
using namespace kilim::lookup;
using namespace kilim::test;

// EAL's memory in an index, with one reader.
struct Indexed {
  explicit Indexed(uint32_t patience_ms) {
    if (qsbr) rte_rcu_qsbr_thread_register(qsbr.get(), 0);
    auto made = Index::create({.readers = qsbr.get()});
    if (!made) return;
    index = *std::move(made);
    auto all = IndexedRegions::create(keeper, *index, {.patience_ms = patience_ms});
    if (all) regions = *std::move(all);
  }
  [[nodiscard]] Lkey find(const void* at) const {
    return index->find(reinterpret_cast<uintptr_t>(at), 64);
  }
  [[nodiscard]] bool stands(Lkey key) const {
    return keeper.standing[key.value()].load(std::memory_order_relaxed);
  }
  void online() { rte_rcu_qsbr_thread_online(qsbr.get(), 0); }
  void report() { rte_rcu_qsbr_quiescent(qsbr.get(), 0); }
  void offline() { rte_rcu_qsbr_thread_offline(qsbr.get(), 0); }

  kilim::test::Qsbr qsbr = kilim::test::make_qsbr(1);
  Keeper keeper;
  std::unique_ptr<Index> index;
  std::unique_ptr<IndexedRegions> regions;
};

// Holds each key that it finds until after its region has left the index, and reports then.
class Holder {
 public:
  explicit Holder(Indexed& all) : all_(all), thread_([this] { run(); }) {}
  ~Holder() {
    over_.store(true);
    thread_.join();
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // Until it holds the key of the memory there.
  void look_at(const std::byte* at) {
    const uint64_t before = held_.load();
    at_.store(at);
    while (held_.load() == before) std::this_thread::yield();
  }
  [[nodiscard]] uint64_t held() const { return held_.load(); }
  [[nodiscard]] uint64_t wrong() const { return wrong_.load(); }

 private:
  void run() {
    all_.online();
    while (!over_.load()) {
      if (const std::byte* at = at_.exchange(nullptr)) hold(at);
      all_.report();
      std::this_thread::yield();
    }
    all_.offline();
  }
  void hold(const std::byte* at) {
    const Lkey key = all_.find(at);
    if (key == Lkey{0}) wrong_.fetch_add(1);
    held_.fetch_add(1);
    while (key != Lkey{0} && all_.find(at) == key && !over_.load()) std::this_thread::yield();
    for (int i = 0; i < 100; i++) std::this_thread::yield();
    if (!all_.stands(key)) wrong_.fetch_add(1);
  }

  Indexed& all_;
  std::atomic<const std::byte*> at_{nullptr};
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> held_{0}, wrong_{0};
  std::thread thread_;
};

void readers_are_waited_for() {
  constexpr uint64_t rounds = 30;
  Indexed all(60'000);
  CU_ASSERT_FATAL(all.regions != nullptr);
  {
    Holder holder(all);
    for (uint64_t i = 0; i < rounds; i++) {
      Coming memory(all.regions->eal(), 4 * huge);
      if (memory.at() == nullptr) break;
      holder.look_at(memory.at());
      const Lkey key = all.find(memory.at());
      std::byte* const was = memory.at();
      memory.go();
      CU_ASSERT(!all.stands(key));
      EQUAL(all.find(was), Lkey{0});
    }
    EQUAL(holder.held(), rounds);
    EQUAL(holder.wrong(), 0);
  }
  EQUAL(all.regions->eal().counts().late, 0);
  EQUAL(all.regions->not_indexed(), 0);
  EQUAL(all.index->size(), all.keeper.live.size());
  all.regions.reset();
  CU_ASSERT(all.keeper.live.empty());
  EQUAL(all.index->size(), 0);
}

// A reader that reports nothing costs its wait once, and keeps what it may hold registered.
void a_reader_is_late() {
  Indexed all(20);
  CU_ASSERT_FATAL(all.regions != nullptr);
  all.online();
  Lkey first{0};
  {
    Coming memory(all.regions->eal(), 4 * huge);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory.at());
    first = all.find(memory.at());
    CU_ASSERT(first != Lkey{0});
    std::byte* const was = memory.at();
    memory.go();
    EQUAL(all.find(was), Lkey{0});
  }
  CU_ASSERT(all.stands(first));
  EQUAL(all.regions->eal().counts().late, 1);
  all.report();
  all.offline();
  { const Coming memory(all.regions->eal(), 4 * huge); }
  CU_ASSERT(!all.stands(first));
  EQUAL(all.regions->eal().counts().late, 1);
  EQUAL(all.index->size(), all.keeper.live.size());
  all.online();  // and never reports again: at the end nobody waits for it for ever
  all.regions.reset();
  CU_ASSERT(all.keeper.live.empty());
}

// What the index does not take stays registered; others' regions go into the same index.
void an_index_refuses() {
  Indexed all(1000);
  CU_ASSERT_FATAL(all.regions != nullptr);
  const Lkey next{all.keeper.keys + 1};
  Region other = kilim::test::region(kilim::test::arena, huge, next.value());
  CU_ASSERT_TRUE(all.regions->add(other).ok());
  {
    const Coming memory(all.regions->eal(), 4 * huge);
    EQUAL(all.regions->not_indexed(), 1);
    CU_ASSERT(all.keeper.covers(memory.at(), huge));
    EQUAL(all.find(memory.at()), Lkey{0});
  }
  other.lkey = Lkey{4095};
  CU_ASSERT_TRUE(all.regions->add(other).ok());
  CU_ASSERT_TRUE(all.regions->remove(other.lkey).ok());
  CU_ASSERT_TRUE(all.regions->gone(other.lkey));
}

constexpr kilim::test::Case of_an_index[] = {
    {"freed memory leaves the index, and its region waits for the readers", readers_are_waited_for},
    {"a reader that does not report keeps the region, and the free ends", a_reader_is_late},
    {"what the index refuses stays registered and is counted", an_index_refuses},
};

}  // namespace
}  // namespace eal_index_ut

std::span<const kilim::test::Case> kilim::test::eal_index_cases() {
  return eal_index_ut::of_an_index;
}
