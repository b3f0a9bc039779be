// SPDX-License-Identifier: BSD-3-Clause
// EAL's memory registered as it comes and goes. With huge pages EAL's own hot-plug events are
// used; where the machine has none, external memory stands for them and the events are called.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include "../lookup/lookup_fixture.hh"
#include "hot_plug.hh"
#include "kilim/lookup/indexed_regions.hh"
#include "kilim/mem/limits.hh"
#include "kilim/mr/eal_regions.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::lookup;
using namespace kilim::mr;

using kilim::test::hot_plug;
using Coming = kilim::test::ComingMemory<EalRegions>;

constexpr std::size_t huge = kilim::test::huge_page;

// Keeps what is registered; overlaps with what is there are allowed, as on a device.
class Keeper final : public Registrar {
 public:
  Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                 uint64_t page_bytes) override {
    if (live.size() == room || keys + 1 == standing.size()) return Error{ENOMEM, "no room"};
    Region r;
    r.address = r.iova = reinterpret_cast<uintptr_t>(memory.data());
    r.length = memory.size();
    r.lkey = Lkey{++keys};
    r.page_bytes = page_bytes;
    r.access = access;
    live[r.lkey.value()] = r;
    standing[keys].store(true, std::memory_order_relaxed);
    return r;
  }
  Result<Region> register_memory_at(std::span<std::byte> memory, Iova, uint32_t access,
                                    uint64_t page_bytes) override {
    return register_memory(memory, access, page_bytes);
  }
  Status deregister(const Region& r) override {
    if (live.erase(r.lkey.value()) == 0) return Error{EINVAL, "not there"};
    standing[r.lkey.value()].store(false, std::memory_order_relaxed);
    return Done{};
  }
  [[nodiscard]] bool covers(const void* at, std::size_t bytes) const {
    return std::any_of(live.begin(), live.end(), [&](const auto& r) {
      return r.second.covers(reinterpret_cast<uintptr_t>(at), bytes);
    });
  }
  std::map<uint32_t, Region> live;
  std::array<std::atomic<bool>, 4096> standing{};  // by key: the same for other threads
  std::size_t room = 1000;
  uint32_t keys = 0;
};

// What a listener hears, as the set that it thinks is registered.
struct Heard {
  std::map<uint32_t, Region> live;
  bool orderly = true;

  EalRegions::Listener listener() {
    return {this,
            [](void* h, const Region& r) {
              auto* heard = static_cast<Heard*>(h);
              heard->orderly = heard->orderly && heard->live.emplace(r.lkey.value(), r).second;
            },
            [](void* h, const Region& r) {
              auto* heard = static_cast<Heard*>(h);
              heard->orderly = heard->orderly && heard->live.erase(r.lkey.value()) == 1;
            }};
  }
  [[nodiscard]] bool same_as(const Keeper& keeper) const {
    return orderly && live.size() == keeper.live.size() &&
           std::equal(live.begin(), live.end(), keeper.live.begin(),
                      [](const auto& a, const auto& b) { return a.first == b.first; });
  }
};

void all_of_eal() {
  Keeper keeper;
  {
    auto regions = EalRegions::create(keeper, Access::all);
    CU_ASSERT_FATAL(regions.ok());
    void* p = rte_malloc(nullptr, 4096, 64);
    CU_ASSERT(keeper.covers(p, 4096));
    EQUAL((*regions)->regions().size(), keeper.live.size());
    EQUAL((*regions)->follows(), hot_plug);
    for (const Region& r : (*regions)->regions()) EQUAL(r.page_bytes, hot_plug ? huge : 4096);
    rte_free(p);
  }
  CU_ASSERT(keeper.live.empty());
  keeper.room = 0;
  EQUAL(EalRegions::create(keeper, Access::all).error().code, ENOMEM);
}

void hot_plugged_memory() {
  Keeper keeper;
  Heard heard;
  auto regions = EalRegions::create(keeper, Access::all, heard.listener());
  CU_ASSERT_FATAL(regions.ok());
  const std::size_t before = keeper.live.size();
  Coming memory(**regions, 4 * huge);
  CU_ASSERT_PTR_NOT_NULL_FATAL(memory.at());
  CU_ASSERT(keeper.covers(memory.at(), huge) && keeper.live.size() > before);
  CU_ASSERT(heard.same_as(keeper));
  std::byte* const was = memory.at();
  memory.go();
  CU_ASSERT(!keeper.covers(was, huge));
  CU_ASSERT(heard.same_as(keeper));
  CU_ASSERT((*regions)->counts().deregistered > 0 && (*regions)->counts().failed == 0);
  regions->reset();
  CU_ASSERT(keeper.live.empty() && heard.same_as(keeper));
}

// The middle of a region goes: what is left has keys of its own before the old one ends.
void a_part_goes() {
  Keeper keeper;
  Heard heard;
  auto regions = EalRegions::create(keeper, Access::all, heard.listener());
  CU_ASSERT_FATAL(regions.ok());
  Coming memory(**regions, 4 * huge);
  CU_ASSERT_PTR_NOT_NULL_FATAL(memory.at());
  rte_mcfg_mem_read_lock();
  (*regions)->vanishing({memory.at() + huge, huge});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT(keeper.covers(memory.at(), huge) && keeper.covers(memory.at() + 2 * huge, 2 * huge));
  CU_ASSERT(!keeper.covers(memory.at() + huge, 1) && heard.same_as(keeper));
  rte_mcfg_mem_read_lock();
  (*regions)->appeared({memory.at() + huge, huge});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT(keeper.covers(memory.at() + huge, huge) && heard.same_as(keeper));
  keeper.room = keeper.live.size();  // what cannot be registered is counted
  rte_mcfg_mem_read_lock();
  (*regions)->vanishing({memory.at() + 3 * huge, 1});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT((*regions)->counts().failed > 0 && heard.same_as(keeper));
  keeper.room = 1000;
}

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
      CU_ASSERT(!all.stands(key) && all.find(was) == Lkey{0});
    }
    EQUAL(holder.held(), rounds);
    EQUAL(holder.wrong(), 0);
  }
  EQUAL(all.regions->eal().counts().late, 0);
  EQUAL(all.regions->not_indexed(), 0);
  EQUAL(all.index->size(), all.keeper.live.size());
  all.regions.reset();
  CU_ASSERT(all.keeper.live.empty() && all.index->size() == 0);
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
    CU_ASSERT(all.keeper.covers(memory.at(), huge) && all.find(memory.at()) == Lkey{0});
  }
  other.lkey = Lkey{4095};
  CU_ASSERT_TRUE(all.regions->add(other).ok());
  CU_ASSERT_TRUE(all.regions->remove(other.lkey).ok() && all.regions->gone(other.lkey));
}

const kilim::test::Case cases[] = {
    {"all memory of EAL is registered, and deregistered at the end", all_of_eal},
    {"hot-plugged memory is registered and freed memory deregistered", hot_plugged_memory},
    {"where a part of a region goes, the rest stays registered", a_part_goes},
    {"freed memory leaves the index, and its region waits for the readers", readers_are_waited_for},
    {"a reader that does not report keeps the region, and the free ends", a_reader_is_late},
    {"what the index refuses stays registered and is counted", an_index_refuses},
};

}  // namespace

int main(int argc, char** argv) {
  if (!kilim::test::start_growing_eal(argv, kilim::mem::huge_pages(huge).free, "-m64")) return 2;
  return kilim::test::run_cases("mr/eal_regions", cases, argc, argv);
}
