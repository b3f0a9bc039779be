// SPDX-License-Identifier: BSD-3-Clause
// Regions of a device come and go by a control thread while a worker sends from them by keys that
// it looks up: no request ever fails, and none carries other bytes than its region's. Regions of
// the program's own memory, and EAL's by itself: by its hot-plug events where the machine has huge
// pages, elsewhere external memory stands for them and the events are called.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <rte_rcu_qsbr.h>

#include "hot_plug.hh"
#include "kilim/detail/lookup/front.hh"
#include "kilim/detail/lookup/index.hh"
#include "kilim/detail/lookup/indexed_regions.hh"
#include "kilim/detail/mem/limits.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace index_ut {
namespace {

using namespace kilim;

constexpr uint64_t page = 4096;
constexpr uint32_t places = 16, burst = 16, bytes = 64;
constexpr uint32_t eal_places = 3;
constexpr std::size_t eal_bytes = test::huge_page;

// Place i holds pages of the byte i + 1; its region covers them, and comes and goes.
class Traffic {
 public:
  explicit Traffic(const char* name) : v_(test::config(name)), memory_((places + 2) * page) {
    const std::size_t bytes_of = rte_rcu_qsbr_get_memsize(1);
    qsbr_.reset(static_cast<rte_rcu_qsbr*>(std::aligned_alloc(64, (bytes_of + 63) & ~63ul)));
    first_ = memory_.data() + (page - reinterpret_cast<uintptr_t>(memory_.data()) % page);
    for (uint32_t i = 0; i < places; i++) {
      std::memset(first_ + i * page, static_cast<int>(i + 1), page);
      at_[i].store(first_ + i * page);
    }
    if (!v_.device || rte_rcu_qsbr_init(qsbr_.get(), 1) != 0) return;
    rte_rcu_qsbr_thread_register(qsbr_.get(), 0);
    loop_ = std::make_unique<test::Loop>(*v_.device, mr::Access::all);
    auto index = lookup::Index::create({.arena = reinterpret_cast<uint64_t>(first_),
                                        .arena_bytes = (places / 2) * page,
                                        .readers = qsbr_.get()});
    if (index) index_ = *std::move(index);
    auto target = mr::Mr::create(v_.device->registrar(), target_, mr::Access::all, page);
    if (target) target_mr_.emplace(*std::move(target));
  }
  ~Traffic() {
    if (loop_) loop_->qp.destroy();
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;
  [[nodiscard]] bool ok() const { return loop_ && loop_->ok() && index_ && target_mr_; }

  // What a burst posts has completed before the worker reports that it holds no key.
  void work() {
    lookup::Front front{*index_};
    loop_->sq->release_owner();
    rte_rcu_qsbr_thread_online(qsbr_.get(), 0);
    for (uint32_t turn = 0; !over_.load(std::memory_order_acquire); turn++) {
      queue::WqeCursor c{*loop_->sq};
      uint32_t posted = 0;
      std::array<uint32_t, burst> from{};
      for (uint32_t i = 0; i < burst; i++) {
        const uint32_t place = (turn * 7 + i * 5) % places;
        const auto address = reinterpret_cast<uint64_t>(at(place)) + i * bytes;
        if (address == i * bytes) continue;
        const Lkey key = i % 2 == 0 ? front.find(address, bytes) : index_->find(address, bytes);
        if (key == Lkey{0}) continue;
        const queue::Remote to{reinterpret_cast<uint64_t>(target_.data()) + posted * bytes,
                               target_mr_->region().rkey};
        if (!queue::rdma_write(c, to, queue::Sge{address, bytes, key},
                               {.id = place, .flags = queue::WrFlags::signalled}))
          break;
        from[posted++] = place;
      }
      c.commit();
      finish({from.data(), posted});
      rte_rcu_qsbr_quiescent(qsbr_.get(), 0);
      std::this_thread::yield();
    }
    rte_rcu_qsbr_thread_offline(qsbr_.get(), 0);
  }
  // Until both have done enough.
  void control() {
    for (uint32_t i = 0; i < 400 || sent_.load() < 2000; i++) {
      if (failed_.load() != 0) break;
      std::optional<mr::Mr>& region = regions_[i * 11 % places];
      if (region) {
        const Lkey key = region->region().lkey;
        CU_ASSERT_TRUE(index_->remove(key).ok());
        while (!index_->gone(key)) std::this_thread::yield();
        region.reset();
        continue;
      }
      auto mr = mr::Mr::create(v_.device->registrar(), {at(i * 11 % places), page},
                               mr::Access::local_write, page);
      if (!mr || !index_->add(mr->region())) {
        failed_.fetch_add(1);
        break;
      }
      region.emplace(*std::move(mr));
    }
    over_.store(true, std::memory_order_release);
  }
  // EAL's memory, which registers itself. What a program frees while it is being sent is zeroes.
  void control_eal() {
    for (auto& place : at_) place.store(nullptr);
    freed_.store(true);
    auto made =
        lookup::IndexedRegions::create(v_.device->registrar(), *index_, {.patience_ms = 60'000});
    CU_ASSERT_TRUE_FATAL(made.ok());
    lookup::IndexedRegions& all = **made;
    std::array<std::optional<test::ComingMemory<mr::EalRegions>>, eal_places> memory;
    uint32_t i = 0;
    for (; (i < 60 || sent_.load() < 600) && failed_.load() == 0 && i < 200'000; i++) {
      const std::size_t place = i * 2 % eal_places;
      if (at_[place].exchange(nullptr) != nullptr) {
        memory[place].reset();
        continue;
      }
      std::byte* now = memory[place].emplace(all.eal(), eal_bytes).at();
      if (now == nullptr) failed_.fetch_add(1);
      if (now == nullptr) break;
      std::memset(now, static_cast<int>(place + 1), page);
      at_[place].store(now);
    }
    for (std::size_t place = 0; place < eal_places; place++) {
      at_[place].store(nullptr);
      memory[place].reset();
    }
    CU_ASSERT_TRUE(all.eal().counts().registered > 30);
    EQUAL(all.eal().counts().late, 0);
    EQUAL(all.eal().counts().failed + all.not_indexed(), 0);
    over_.store(true, std::memory_order_release);
  }
  [[nodiscard]] uint64_t failed() const { return failed_.load(); }
  [[nodiscard]] uint64_t sent() const { return sent_.load(); }

 private:
  struct Free {
    void operator()(rte_rcu_qsbr* v) const noexcept { std::free(v); }
  };
  [[nodiscard]] std::byte* at(uint32_t place) const { return at_[place].load(); }
  void finish(std::span<const uint32_t> from) {
    for (std::size_t n = 0; n < from.size(); n++) {
      // The control thread may hold the adapter for a while.
      std::optional<queue::Completion> seen;
      for (int i = 0; i < 10'000 && !seen; i++) {
        seen = loop_->wait(*loop_->send_cq);
        if (!seen) std::this_thread::yield();
      }
      if (!seen || !seen->ok()) {
        failed_.fetch_add(1);
        return;
      }
      loop_->sq->retire(seen->wqe_counter);
      for (uint32_t i = 0; i < bytes; i++)
        if (target_[n * bytes + i] != static_cast<std::byte>(from[n] + 1) &&
            (!freed_.load() || target_[n * bytes + i] != std::byte{0}))
          failed_.fetch_add(1);
    }
    sent_.fetch_add(from.size());
  }

  test::VirtualDevice v_;
  std::vector<std::byte> memory_;
  std::byte* first_ = nullptr;
  std::array<std::atomic<std::byte*>, places> at_{};
  alignas(64) std::array<std::byte, burst * bytes> target_{};
  std::unique_ptr<rte_rcu_qsbr, Free> qsbr_;
  std::unique_ptr<test::Loop> loop_;
  std::unique_ptr<lookup::Index> index_;
  std::optional<mr::Mr> target_mr_;
  // Those that are left go when the worker has ended: they are in the index until then.
  std::array<std::optional<mr::Mr>, places> regions_;
  std::atomic<bool> over_{false}, freed_{false};
  std::atomic<uint64_t> failed_{0}, sent_{0};
};

void regions_come_and_go() {
  Traffic t{"index0"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  std::thread worker{[&t] { t.work(); }};
  t.control();
  worker.join();
  EQUAL(t.failed(), 0);
  CU_ASSERT_TRUE(t.sent() >= 2000);
}

void eal_s_memory_comes_and_goes() {
  Traffic t{"index1"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  std::thread worker{[&t] { t.work(); }};
  t.control_eal();
  worker.join();
  EQUAL(t.failed(), 0);
  CU_ASSERT_TRUE(t.sent() >= 600);
}

const kilim::test::Case cases[] = {
    {"regions come and go under traffic and no request fails", regions_come_and_go},
    {"EAL's memory comes and goes under traffic and registers itself", eal_s_memory_comes_and_goes},
};

}  // namespace
}  // namespace index_ut

KILIM_TEST_MAIN(index) {
  if (!kilim::test::start_growing_eal(kilim::mem::huge_pages(index_ut::eal_bytes).free, "-m16"))
    return 2;
  return kilim::test::run_cases("mlx5/index", index_ut::cases, argc, argv);
}
