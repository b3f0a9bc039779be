// SPDX-License-Identifier: BSD-3-Clause
// A worker's sleep in poll(2). Its thread only. While it sleeps it is offline at the quiescence:
// nobody waits for it.
#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <rte_cycles.h>
#include <rte_timer.h>
#include <sys/eventfd.h>
#include <time.h>

#include "kilim/detail/worker/worker.hh"

namespace kilim::inline v1::worker {
namespace {

constexpr uint64_t second_ns = 1'000'000'000;

uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * second_ns + static_cast<uint64_t>(t.tv_nsec);
}

timespec as_timespec(uint64_t ns) noexcept {
  return {static_cast<time_t>(ns / second_ns), static_cast<long>(ns % second_ns)};
}

}  // namespace

// False: there is something to do, or somebody asks for something.
bool Worker::prepare_sleep() noexcept {
  for (const Poller& p : pollers_)
    if (p.waiting != nullptr && p.waiting->arm != nullptr) p.waiting->arm(p.context);
  if (round() != 0) return false;
  set_.clear();
  set_.add(wake_fd_.get());
  bool nap = false;
  for (const Poller& p : pollers_) {
    if (p.waiting == nullptr)
      nap = true;
    else if (!p.waiting->watch(p.context, set_))
      return false;
  }
  if (nap || set_.crowded()) {
    set_.until(now_ns() + uint64_t{config_.sleep_us} * 1000);
    naps_.add(1);
  }
  return true;
}

void Worker::sleep() noexcept {
  slept_in_vain_ = false;
  if (!prepare_sleep()) return;
  if (config_.quiescence != nullptr) config_.quiescence->offline(config_.lcore);
  wait();
  if (config_.quiescence != nullptr) config_.quiescence->online(config_.lcore);
}

// Until a descriptor is readable or the earliest time has come. Whoever posts, changes or stops
// writes to the eventfd behind that, so what was done before the wait ends it.
void Worker::wait() noexcept {
  const uint64_t now = now_ns();
  uint64_t ns = set_.deadline_ns();
  if (ns != WaitSet::never) ns = ns > now ? ns - now : 0;
  uint64_t next = next_tick_;
  const uint64_t tsc = rte_rdtsc();
  if (timer_cycles_ != 0)
    if (const int64_t ticks = rte_timer_next_ticks(); ticks >= 0)
      next = std::min(next, std::max(next_timer_, tsc + static_cast<uint64_t>(ticks)));
  if (next != WaitSet::never) {
    const uint64_t cycles = next > tsc ? next - tsc : 0;
    const auto hz = static_cast<double>(rte_get_tsc_hz());
    ns = std::min(ns, static_cast<uint64_t>(static_cast<double>(cycles) / hz * 1e9));
  }
  const timespec limit = as_timespec(ns);
  const auto fds = set_.fds();
  const int ready =
      ::ppoll(fds.data(), fds.size(), ns == WaitSet::never ? nullptr : &limit, nullptr);
  sleeps_.add(1);
  const bool woken = ready > 0 && fds[0].revents != 0;
  if (woken) {
    by_wake_.add(1);
    eventfd_t n;
    (void)!eventfd_read(wake_fd_.get(), &n);
  }
  if (ready > (woken ? 1 : 0)) by_poller_.add(1);
  slept_in_vain_ = ready <= 0;
  if (slept_in_vain_) by_time_.add(1);
}

}  // namespace kilim::inline v1::worker
