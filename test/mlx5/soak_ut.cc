// SPDX-License-Identifier: BSD-3-Clause
// Four queues and two lcores change keys under traffic, all data checked: a handle shows what it
// was published for or faults, and where keys end after the epoch it never faults.
// KILIM_SOAK_SECONDS says how long; a few seconds without it.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "soak_fixture.hh"
#include "ut.hh"

namespace soak_ut {
namespace {

using namespace kilim;
using test::BindingQueue;
using test::ReadingQueue;
using test::Soak;
using test::SoakCounts;

void lcore(Soak& soak, uint32_t number, BindingQueue& binding, ReadingQueue& reading) {
  rte_rcu_qsbr_thread_online(soak.readers, number);
  while (!soak.stop.load(std::memory_order_relaxed)) {
    binding.step();
    reading.step();
    soak.device.progress();
    rte_rcu_qsbr_quiescent(soak.readers, number);
  }
  rte_rcu_qsbr_thread_offline(soak.readers, number);
}

void say(uint32_t number, const SoakCounts& w, const SoakCounts& r) {
  std::printf(
      "lcore %u: %lu swaps, %lu keys replaced, %lu writes and %lu reads right, %lu faults, "
      "%lu recoveries\n",
      number, w.swaps, w.replaced, w.writes, r.reads, r.faults, w.recoveries + r.recoveries);
}

std::chrono::milliseconds share_of_time() {
  const char* seconds = std::getenv("KILIM_SOAK_SECONDS");
  const long asked = seconds == nullptr ? 0 : std::strtol(seconds, nullptr, 10);
  return std::chrono::milliseconds{asked > 0 ? asked * 1000 / 3 : 700};
}

void soak_for(const char* name, const char* profile, uint32_t error_every) {
  DeviceSpec config;
  config.name = name;
  config.profile = profile;
  test::VirtualDevice v{config};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  const std::size_t lines = (rte_rcu_qsbr_get_memsize(test::soak_lcores) + 63) / 64 * 64;
  auto* readers = static_cast<rte_rcu_qsbr*>(std::aligned_alloc(64, lines));
  rte_rcu_qsbr_init(readers, test::soak_lcores);
  for (unsigned t = 0; t < test::soak_lcores; t++) rte_rcu_qsbr_thread_register(readers, t);
  {
    Soak soak{*v.device, readers};
    soak.error_every = error_every;
    CU_ASSERT_TRUE_FATAL(soak.ok());
    BindingQueue w0{soak, 0, mkey::InvalidatePolicy::at_once};
    BindingQueue w1{soak, 1, mkey::InvalidatePolicy::after_epoch};
    ReadingQueue r0{soak, 10};
    ReadingQueue r1{soak, 11};
    CU_ASSERT_TRUE_FATAL(w0.ok());
    CU_ASSERT_TRUE_FATAL(w1.ok());
    CU_ASSERT_TRUE_FATAL(r0.ok());
    CU_ASSERT_TRUE_FATAL(r1.ok());
    std::thread other{lcore, std::ref(soak), 1u, std::ref(w1), std::ref(r1)};
    std::thread one{lcore, std::ref(soak), 0u, std::ref(w0), std::ref(r0)};
    std::this_thread::sleep_for(share_of_time());
    soak.stop.store(true);
    one.join();
    other.join();
    say(0, w0.counts, r0.counts);
    say(1, w1.counts, r1.counts);
    EQUAL(w0.counts.wrong + w1.counts.wrong + r0.counts.wrong + r1.counts.wrong, 0);
    EQUAL(v.journal().count(vhca::Journal::Kind::lint), 0);
    CU_ASSERT_TRUE(w0.counts.swaps > 0);
    CU_ASSERT_TRUE(w0.counts.replaced > 0);
    CU_ASSERT_TRUE(w1.counts.replaced > 0);
    CU_ASSERT_TRUE(w0.counts.writes > 0);
    CU_ASSERT_TRUE(r0.counts.reads > 0);
    CU_ASSERT_TRUE(r1.counts.reads > 0);
  }
  std::free(readers);
}

void small_fence() {
  soak_for("soak0", "cx6dx", 500);
}
void no_fence() {
  soak_for("soak1", "no-fence", 97);
}
void strong_fence() {
  soak_for("soak2", "strong-fence", 7);
}

const kilim::test::Case cases[] = {
    {"keys change under traffic, small fence", small_fence},
    {"keys change under traffic, no fence", no_fence},
    {"keys change under traffic, strong fence", strong_fence},
};

}  // namespace
}  // namespace soak_ut

KILIM_TEST_SUITE(soak, soak_ut::cases)
