// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/worker/worker.hh"

#include <cerrno>
#include <cstdio>

#include <rte_cycles.h>
#include <rte_pause.h>
#include <sched.h>
#include <time.h>

namespace kilim::worker {

Result<std::unique_ptr<Worker>> Worker::create(const WorkerConfig& config) {
  char name[32];
  std::snprintf(name, sizeof name, "kilim_mail_%u", config.lcore);
  auto mailbox = Mailbox::create(name);
  if (!mailbox) return mailbox.error();
  if (config.quiescence != nullptr && !config.quiescence->add(config.lcore))
    return Error{EINVAL, "the worker's lcore number exceeds the quiescence's reporters"};
  return std::unique_ptr<Worker>(new Worker(config, *std::move(mailbox)));
}

Worker::Worker(const WorkerConfig& config, Mailbox mailbox)
    : config_(config), mailbox_(std::move(mailbox)) {}

Worker::~Worker() {
  if (config_.quiescence != nullptr) config_.quiescence->remove(config_.lcore);
}

uint32_t Worker::round() noexcept {
  uint64_t start = rte_rdtsc();
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
  if (config_.quiescence != nullptr) config_.quiescence->online(config_.lcore);
  uint32_t empty = 0;
  while (!stopping()) {
    if (round() != 0) {
      empty = 0;
    } else {
      empty = empty < UINT32_MAX ? empty + 1 : empty;
      rest(empty);
    }
  }
  if (config_.quiescence != nullptr) config_.quiescence->offline(config_.lcore);
}

void Worker::rest(uint32_t empty_rounds) noexcept {
  if (empty_rounds < config_.idle_rounds || config_.idle == Idle::spin) {
    rte_pause();
  } else if (config_.idle == Idle::yield) {
    sched_yield();
  } else {
    timespec pause{0, static_cast<long>(config_.sleep_us) * 1000};
    nanosleep(&pause, nullptr);
  }
}

WorkerStats Worker::stats() const noexcept {
  return {rounds_.read(), busy_rounds_.read(), busy_cycles_.read(), messages_.read()};
}

}  // namespace kilim::worker
