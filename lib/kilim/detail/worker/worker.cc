// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/worker/worker.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <rte_cycles.h>
#include <rte_pause.h>
#include <rte_timer.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::worker {
namespace {

constinit Roster<const Worker> workers;

// The worker whose run() this thread is in.
thread_local const Worker* inside = nullptr;

uint64_t cycles_of_us(uint32_t us) noexcept {
  return rte_get_tsc_hz() * us / 1'000'000;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::create(const WorkerConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (config.tick.run != nullptr && config.tick.period_us == 0)
    return Error{EINVAL, "a tick needs a period"};
  Fd wake_fd;
  if (config.idle == Idle::sleep) {
    wake_fd = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_fd) return Error{errno, "no eventfd to wake a sleeping worker"};
  }
  char name[32];
  std::snprintf(name, sizeof name, "kilim_mail_%u", config.lcore);
  auto mailbox = Mailbox::create(name);
  if (!mailbox) return mailbox.error();
  if (config.quiescence != nullptr && !config.quiescence->add(config.lcore))
    return Error{EINVAL, "the worker's lcore number exceeds the quiescence's reporters"};
  return std::unique_ptr<Worker>(new Worker(config, *std::move(mailbox), std::move(wake_fd)));
}

Worker::Worker(const WorkerConfig& config, Mailbox mailbox, Fd wake_fd)
    : config_(config), mailbox_(std::move(mailbox)), wake_fd_(std::move(wake_fd)) {
  const uint64_t now = rte_rdtsc();
  if (config_.tick.run != nullptr) {
    tick_cycles_ = cycles_of_us(config_.tick.period_us);
    next_tick_ = now + tick_cycles_;
  }
  if (config_.timers_us != 0) {
    timer_cycles_ = cycles_of_us(config_.timers_us);
    next_timer_ = now;
  }
  next_time_ = std::min(next_tick_, next_timer_);
  workers.enter(*this);
}

Worker::~Worker() {
  workers.leave(*this);
  if (config_.quiescence != nullptr) config_.quiescence->remove(config_.lcore);
}

Status Worker::add(const Poller& poller) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (inside == this) return Error{EDEADLK, "a worker cannot wait for itself to take a poller"};
  for (const Poller& p : plan_)
    if (p.is(poller)) return Error{EEXIST, "the worker runs this poller already"};
  plan_.push_back(poller);
  return change(plan_, nullptr);
}

Status Worker::remove(const Poller& poller) {
  const memory_reserve::Scope memory;  // what goes is not refused
  if (inside == this) return Error{EDEADLK, "a worker cannot wait for itself to leave a poller"};
  const auto at =
      std::find_if(plan_.begin(), plan_.end(), [&poller](const Poller& p) { return p.is(poller); });
  if (at == plan_.end()) return Error{ENOENT, "the worker does not run this poller"};
  const Poller left = *at;
  plan_.erase(at);
  return change(plan_, &left);
}

// The list is made here, as the worker allocates nothing, and swapped with its own between two
// rounds: by the worker, or here while nobody is in run().
Status Worker::change(std::vector<Poller> next, const Poller* left) {
  change_.store(&next, std::memory_order_release);
  for (bool woken = false; change_.load(std::memory_order_acquire) != nullptr; woken = true) {
    if (!running_.exchange(true, std::memory_order_acquire)) {
      claim_change();
      running_.store(false, std::memory_order_release);
    } else if (!woken) {
      wake();
    } else {
      sched_yield();
    }
  }
  if (left != nullptr && left->waiting != nullptr && left->waiting->leave != nullptr)
    left->waiting->leave(left->context);
  return Done{};
}

void Worker::claim_change() noexcept {
  std::vector<Poller>* next = change_.load(std::memory_order_acquire);
  if (next == nullptr) return;
  pollers_.swap(*next);
  change_.store(nullptr, std::memory_order_release);
}

void Worker::wake() noexcept {
  if (wake_fd_) (void)!eventfd_write(wake_fd_.get(), 1);
}

uint32_t Worker::round() noexcept {
  uint64_t start = rte_rdtsc();
  if (start >= next_time_) [[unlikely]]
    keep_time(start);
  uint32_t did = 0;
  for (const Poller& p : pollers_) did += p.fn(p.context, config_.budget);
  if (config_.quiescence != nullptr) config_.quiescence->pass(config_.lcore);
  uint32_t mails = mailbox_.collect();
  rounds_.add(1);
  messages_.add(mails);
  if (did != 0) {
    busy_rounds_.add(1);
    busy_cycles_.add(rte_rdtsc() - start);
  }
  return did + mails;
}

void Worker::run() noexcept {
  while (running_.exchange(true, std::memory_order_acquire)) rte_pause();  // a change is being made
  inside = this;
  if (config_.quiescence != nullptr) config_.quiescence->online(config_.lcore);
  uint32_t empty = 0;
  while (!stopping()) {
    if (change_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      claim_change();
    if (round() != 0) {
      empty = 0;
    } else {
      empty = empty < UINT32_MAX ? empty + 1 : empty;
      rest(empty);
      // Woken for something, it looks for more of it for a while before it sleeps again.
      if (config_.idle == Idle::sleep && empty >= config_.idle_rounds && !slept_in_vain_) empty = 0;
    }
  }
  if (config_.quiescence != nullptr) config_.quiescence->offline(config_.lcore);
  for (const Poller& p : pollers_)
    if (p.waiting != nullptr && p.waiting->leave != nullptr) p.waiting->leave(p.context);
  inside = nullptr;
  running_.store(false, std::memory_order_release);
}

void Worker::keep_time(uint64_t now) noexcept {
  if (now >= next_tick_) {
    config_.tick.run(config_.tick.context);
    ticks_.add(1);
    next_tick_ += tick_cycles_;
    if (next_tick_ <= now) next_tick_ = now + tick_cycles_;
  }
  if (now >= next_timer_) {
    (void)rte_timer_manage();
    next_timer_ = now + timer_cycles_;
  }
  next_time_ = std::min(next_tick_, next_timer_);
}

void Worker::rest(uint32_t empty_rounds) noexcept {
  if (config_.idle == Idle::spin) return;
  if (empty_rounds < config_.idle_rounds || config_.idle == Idle::pause)
    rte_pause();
  else if (config_.idle == Idle::yield)
    sched_yield();
  else
    sleep();
}

WorkerStats Worker::stats() const noexcept {
  return {.rounds = rounds_.read(),
          .busy_rounds = busy_rounds_.read(),
          .busy_cycles = busy_cycles_.read(),
          .messages = messages_.read(),
          .ticks = ticks_.read(),
          .sleeps = sleeps_.read(),
          .by_poller = by_poller_.read(),
          .by_wake = by_wake_.read(),
          .by_time = by_time_.read(),
          .naps = naps_.read()};
}

void walk_workers(Visit<const Worker> see) {
  workers.walk(see);
}

}  // namespace kilim::inline v1::worker
