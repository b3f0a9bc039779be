// SPDX-License-Identifier: BSD-3-Clause
// Lcores register, deregister and flush while all of them read through each other's handles, also
// long after these were taken back. Each registration belongs to a new owner, who writes its number
// over the memory once the owner before is flushed: a read gives the number of the owner whose
// handle it used, or faults. KILIM_SOAK_SECONDS says how long; two seconds without it.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "kilim/detail/device/recovery.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "relaxed_cases.hh"
#include "relaxed_soak_fixture.hh"
#include "ut.hh"

namespace kilim::test {
namespace relaxed_soak_ut {
namespace {

// Reads through handles of all lcores. A round of them is taken, kept for a while and then used.
class Reading {
 public:
  Reading(Shared& s, uint64_t seed)
      : shared_(s), random_(seed), area_(window * words), loop_(s.device, mr::Access::all) {
    auto mr = mr::Mr::create(s.device.registrar(), std::as_writable_bytes(std::span{area_}),
                             mr::Access::all, 4096);
    if (!mr || !loop_.ok()) return;
    target_.emplace(*std::move(mr));
    clock_ = s.epochs->add_queue();
  }
  ~Reading() { shared_.epochs->remove_queue(clock_); }
  [[nodiscard]] bool ok() const { return target_.has_value(); }
  Counter right, late, faults, wrong;

  // True: no handle is held that is not posted.
  bool step() {
    queue::Completion c[window];
    const uint32_t n = loop_.send_cq->poll(c);
    for (uint32_t i = 0; i < n; i++) completed(c[i]);
    if (error_) recover();
    if (left_ == 0 && !holding_) take();
    if (holding_ && keep_-- == 0) post();
    clock_->publish(*loop_.sq);
    return !holding_;
  }
  void completed(const queue::Completion& c) noexcept {
    const uint64_t i = loop_.sq->retire(c.wqe_counter);
    left_--;
    if (!c.ok()) {
      error_ = true;
      if (c.syndrome != prm::Syndrome::wr_flush) faults.add(1);
      return;
    }
    const RelaxedHandle& h = handles_[i];
    bool same = true;
    for (uint32_t w = 0; w < words; w++) same = same && area_[i * words + w] == h.owner;
    (same ? right : wrong).add(1);
    if (same && stale_[i]) late.add(1);
  }
  void lost(uint64_t, bool) noexcept { left_--; }

 private:
  void take() {
    count_ = 0;
    for (uint32_t tries = 0; tries < 2 * window && count_ < window; tries++) {
      const uint64_t word =
          shared_.published[random_() % (lcores * slots)].load(std::memory_order_acquire);
      if (word != 0) handles_[count_++] = RelaxedHandle::unpack(word);
    }
    holding_ = count_ != 0;
    keep_ = random_() % 4 == 0 ? static_cast<uint32_t>(random_() % 64) : 0;
  }
  void post() {
    queue::WqeCursor c{*loop_.sq};
    for (uint32_t i = 0; i < count_; i++) {
      const RelaxedHandle& h = handles_[i];
      stale_[i] = shared_.published[h.slot].load(std::memory_order_relaxed) !=
                  RelaxedHandle::pack(h.rkey, h.owner, h.slot);
      const uint64_t into = target_->region().iova + i * words * sizeof(uint64_t);
      const queue::Sge to{into, words * sizeof(uint64_t), target_->region().lkey};
      if (!queue::rdma_read(c, {shared_.address(h.slot), h.rkey}, to,
                            {.id = i, .flags = queue::WrFlags::signalled}))
        wrong.add(1);
    }
    c.commit();
    left_ = count_;
    holding_ = false;
  }
  void recover() {
    {
      const std::lock_guard guard{shared_.control};
      const device::Recovery<> r{shared_.device, loop_.qp->handle, *loop_.sq, *loop_.send_cq};
      if (!device::recover(r, *this)) wrong.add(1);
    }
    clock_->recover(*loop_.sq);
    loop_.sq->reset();
    left_ = 0;
    error_ = false;
  }

  Shared& shared_;
  std::mt19937_64 random_;
  std::vector<uint64_t> area_;
  Loop loop_;
  std::optional<mr::Mr> target_;
  mkey::QueueClock* clock_ = nullptr;
  std::array<RelaxedHandle, window> handles_;
  std::array<bool, window> stale_{};
  uint32_t count_ = 0, left_ = 0, keep_ = 0;
  bool holding_ = false, error_ = false;
};

void run(Shared& s, uint32_t number, Registering& registering, Reading& reading) {
  rte_rcu_qsbr_thread_online(s.readers, number);
  while (!s.stop.load(std::memory_order_relaxed)) {
    registering.step();
    const bool nothing_held = reading.step();
    s.device.progress();
    if (nothing_held) rte_rcu_qsbr_quiescent(s.readers, number);
  }
  rte_rcu_qsbr_thread_offline(s.readers, number);
}

std::chrono::milliseconds duration() {
  const char* seconds = std::getenv("KILIM_SOAK_SECONDS");
  const long asked = seconds == nullptr ? 0 : std::strtol(seconds, nullptr, 10);
  return std::chrono::milliseconds{asked > 0 ? asked * 1000 : 1500};
}

}  // namespace
}  // namespace relaxed_soak_ut

void print_sums(const Registering& g0, const Registering& g1, const relaxed_soak_ut::Reading& r0,
                const relaxed_soak_ut::Reading& r1) {
  std::printf(
      "\n%lu registered, %lu invalidated, %lu dry; %lu reads right, %lu of them behind the "
      "deregistration, %lu faults\n",
      g0.counters().registered.read() + g1.counters().registered.read(),
      g0.counters().invalidated.read() + g1.counters().invalidated.read(),
      g0.counters().dry.read() + g1.counters().dry.read(), r0.right.read() + r1.right.read(),
      r0.late.read() + r1.late.read(), r0.faults.read() + r1.faults.read());
}

void relaxed_soak() {
  DeviceSpec config;
  config.name = "relaxed9";
  VirtualDevice v{config};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  const std::size_t lines = (rte_rcu_qsbr_get_memsize(lcores) + 63) / 64 * 64;
  auto* readers = static_cast<rte_rcu_qsbr*>(std::aligned_alloc(64, lines));
  rte_rcu_qsbr_init(readers, lcores);
  for (unsigned t = 0; t < lcores; t++) rte_rcu_qsbr_thread_register(readers, t);
  {
    Shared s{*v.device, readers};
    CU_ASSERT_TRUE_FATAL(s.arena.has_value());
    Registering g0{s, 0};
    Registering g1{s, 1};
    relaxed_soak_ut::Reading r0{s, 10};
    relaxed_soak_ut::Reading r1{s, 11};
    CU_ASSERT_TRUE_FATAL(g0.ok());
    CU_ASSERT_TRUE_FATAL(g1.ok());
    CU_ASSERT_TRUE_FATAL(r0.ok());
    CU_ASSERT_TRUE_FATAL(r1.ok());
    std::thread other{relaxed_soak_ut::run, std::ref(s), 1u, std::ref(g1), std::ref(r1)};
    std::thread one{relaxed_soak_ut::run, std::ref(s), 0u, std::ref(g0), std::ref(r0)};
    // On a busy machine until there is something to judge.
    const auto begun = std::chrono::steady_clock::now();
    const auto enough = [&] {
      return r0.right.read() > 100 && r1.right.read() > 100 &&
             r0.faults.read() + r1.faults.read() > 10 && g0.counters().invalidated.read() > 100 &&
             g1.counters().invalidated.read() > 100;
    };
    const auto passed = [&] { return std::chrono::steady_clock::now() - begun; };
    while (passed() < relaxed_soak_ut::duration() ||
           (!enough() && passed() < std::chrono::seconds{40}))
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    s.stop.store(true);
    one.join();
    other.join();
    print_sums(g0, g1, r0, r1);
    EQUAL(g0.wrong.read() + g1.wrong.read() + r0.wrong.read() + r1.wrong.read(), 0);
    CU_ASSERT_TRUE(enough());
  }
  std::free(readers);
}

}  // namespace kilim::test
