// SPDX-License-Identifier: BSD-3-Clause
// Advice that does not make its giver wait: any thread hands over what should be fetched, a control
// lcore gives it to the device. Where the device says EAGAIN it is tried again after a pause, a
// bounded number of times.
// Owner: the control lcore, which polls. submit() from any thread: no lock, no heap, no system
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "kilim/base/counter.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/registrar.hh"

struct rte_ring;

namespace kilim::mr {

struct AdviceJob {
  uint64_t address = 0;  // as the key knows it
  uint64_t bytes = 0;    // any length: asked for in parts
  uint64_t id = 0;       // the giver's
  Lkey lkey;
  Advice advice = Advice::prefetch;
};

class AdviceQueue {
 public:
  struct Config {
    uint32_t depth = 256;         // jobs that wait to be polled, a power of two
    uint32_t tries = 8;           // of one job, the first included
    uint64_t pause_ns = 100'000;  // between them
    // Told of each job's end on the polling thread: Done, or the error that remained.
    void (*done)(void* arg, const AdviceJob& job, const Status& status) = nullptr;
    void* arg = nullptr;
  };
  struct Counts {
    uint64_t done = 0;
    uint64_t failed = 0;    // with an error other than EAGAIN
    uint64_t given_up = 0;  // still EAGAIN at the last try
    uint64_t retried = 0;   // tries beyond each job's first
  };

  // EINVAL: a depth that is not a power of two, or no tries.
  static Result<std::unique_ptr<AdviceQueue>> create(Registrar& registrar, const Config& config);
  ~AdviceQueue();
  AdviceQueue(const AdviceQueue&) = delete;
  AdviceQueue& operator=(const AdviceQueue&) = delete;

  // False: the queue is full, nothing was taken.
  bool submit(const AdviceJob& job) noexcept;
  // Gives at most `budget` jobs to the device and returns how many calls it made; it waits for
  // each. `now_ns` is any clock that does not go back.
  uint32_t poll(uint64_t now_ns, uint32_t budget = 8);
  // Whether jobs wait, for another try too.
  [[nodiscard]] bool idle() const noexcept;
  [[nodiscard]] Counts counts() const noexcept {
    return {done_.read(), failed_.read(), given_up_.read(), retried_.read()};
  }

 private:
  struct Waiting {
    AdviceJob job;
    uint32_t tries = 0;
    uint64_t not_before = 0;
  };
  AdviceQueue(Registrar& registrar, const Config& config) noexcept
      : registrar_(registrar), config_(config) {}
  bool next(uint64_t now_ns, Waiting& out);
  void attempt(Waiting w, uint64_t now_ns);

  Registrar& registrar_;
  const Config config_;
  std::unique_ptr<std::byte[]> memory_;  // the ring's
  rte_ring* ring_ = nullptr;
  std::deque<Waiting> again_;  // in order of not_before
  Counter done_, failed_, given_up_, retried_;
};

}  // namespace kilim::mr
