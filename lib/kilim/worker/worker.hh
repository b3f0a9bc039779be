// SPDX-License-Identifier: BSD-3-Clause
// Worker: the poll loop of one EAL lcore: runs its pollers, collects its mailbox, reports
// quiescence, and yields or sleeps when idle. Set up and stopped by the control lcore; run() is
// called on the worker's lcore. Not movable, as others keep its address.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/base/counter.hh"
#include "kilim/base/result.hh"
#include "kilim/worker/mailbox.hh"
#include "kilim/worker/poller.hh"
#include "kilim/worker/quiescence.hh"

namespace kilim::worker {

// What a worker does after rounds in which no poller had work. spin: lowest latency; yield: for
// machines with fewer cores than threads; sleep: frees the core.
enum class Idle : uint8_t { spin, yield, sleep };

struct WorkerConfig {
  uint32_t lcore = 0;    // of EAL; also its number at the quiescence
  uint32_t budget = 64;  // units of work for each poller in one round
  Idle idle = Idle::yield;
  uint32_t idle_rounds = 2000;       // idle rounds before `idle` applies
  uint32_t sleep_us = 50;            // with Idle::sleep
  Quiescence* quiescence = nullptr;  // outlives the worker; null: nobody asks
};

// Counts since create().
struct WorkerStats {
  uint64_t rounds = 0;
  uint64_t busy_rounds = 0;  // rounds in which a poller had work
  uint64_t busy_cycles = 0;  // TSC cycles of those rounds
  uint64_t messages = 0;     // run from the mailbox
};

class Worker {
 public:
  // Control lcore. EINVAL: the lcore's number is beyond the quiescence's reporters; or the error of
  // Mailbox::create().
  static Result<std::unique_ptr<Worker>> create(const WorkerConfig& config);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Called before run(). Pollers run in the order of add().
  void add(Poller poller) { pollers_.push_back(poller); }

  // Loops until stop(). Called on the worker's lcore.
  void run() noexcept;
  // Runs all pollers once; returns the sum of their work. For tests and callers with their own
  // loop.
  uint32_t round() noexcept;

  // Any thread, signal handlers included. stop() makes run() return after its present round.
  void stop() noexcept { stopping_.store(true, std::memory_order_release); }
  void clear_stop() noexcept { stopping_.store(false, std::memory_order_release); }
  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

  // Any thread. False: the mailbox is full.
  bool post(Message m) noexcept { return mailbox_.post(m); }

  [[nodiscard]] uint32_t lcore() const noexcept { return config_.lcore; }
  [[nodiscard]] WorkerStats stats() const noexcept;

 private:
  Worker(const WorkerConfig& config, Mailbox mailbox);
  void rest(uint32_t empty_rounds) noexcept;

  WorkerConfig config_;
  Mailbox mailbox_;
  std::vector<Poller> pollers_;
  std::atomic<bool> stopping_{false};
  Counter rounds_, busy_rounds_, busy_cycles_, messages_;
};

}  // namespace kilim::worker
