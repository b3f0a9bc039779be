// SPDX-License-Identifier: BSD-3-Clause
// The poll loop of one EAL lcore: runs its pollers in turn, collects its mailbox, reports
// quiescence, and goes easy on the machine when nothing happens. Set up and stopped by the control
// lcore; run() belongs to the lcore. Pinned: pollers and others keep its address.
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

// What a worker does after rounds in which no poller had work. Spinning gives the least latency;
// yielding lets others run on a machine with fewer cores than threads; sleeping gives the core
// back.
enum class Idle : uint8_t { spin, yield, sleep };

struct WorkerConfig {
  uint32_t lcore = 0;
  uint32_t budget = 64;  // work a poller may do in one round
  Idle idle = Idle::yield;
  uint32_t idle_rounds = 2000;       // empty rounds before the policy sets in
  uint32_t sleep_us = 50;            // Idle::sleep
  Quiescence* quiescence = nullptr;  // borrowed; null: nobody asks
};

struct WorkerStats {
  uint64_t rounds = 0;
  uint64_t busy_rounds = 0;
  uint64_t busy_cycles = 0;  // of rounds that did something
  uint64_t messages = 0;
};

class Worker {
 public:
  static Result<std::unique_ptr<Worker>> create(const WorkerConfig& config);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Before run() only. They are run in the order given.
  void add(Poller poller) { pollers_.push_back(poller); }

  // The loop, until stop(). On the worker's lcore.
  void run() noexcept;
  // One round over all pollers; what they did. For tests and for callers with a loop of their own.
  uint32_t round() noexcept;

  // Any thread, signal handlers included.
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
