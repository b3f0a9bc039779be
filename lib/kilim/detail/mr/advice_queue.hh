// SPDX-License-Identifier: BSD-3-Clause
// AdviceQueue: prefetch advice without waiting. Any thread submits a job, the control lcore polls
// the queue and calls the device. On EAGAIN a job is tried again after a pause, a bounded number of
// times. Owner: the control lcore. submit(): any thread; no lock, no heap, no system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/registrar.hh"

struct rte_ring;

namespace kilim::inline v1::mr {

// A range to be prefetched.
struct AdviceJob {
  uint64_t address = 0;  // as the key counts (Region::iova)
  uint64_t bytes = 0;    // any length; the device is asked in parts
  uint64_t id = 0;       // chosen by the submitter
  Lkey lkey;
  Advice advice = Advice::prefetch;
};

class AdviceQueue {
 public:
  struct Config {
    uint32_t depth = 256;         // jobs that can wait to be polled, a power of two
    uint32_t tries = 8;           // attempts for one job, the first included
    uint64_t pause_ns = 100'000;  // between two attempts
    // Called at each job's end, on the polling thread, with Done or the last error.
    void (*done)(void* arg, const AdviceJob& job, const Status& status) = nullptr;
    void* arg = nullptr;
  };
  // Jobs since create(), by how they ended.
  struct Counts {
    uint64_t done = 0;
    uint64_t failed = 0;    // with an error other than EAGAIN
    uint64_t given_up = 0;  // still EAGAIN at the last try
    uint64_t retried = 0;   // attempts beyond each job's first
  };

  // Control lcore. `registrar` outlives the queue. EINVAL: a depth that is not a power of two, or
  // no tries.
  static Result<std::unique_ptr<AdviceQueue>> create(Registrar& registrar, const Config& config);
  ~AdviceQueue();
  AdviceQueue(const AdviceQueue&) = delete;
  AdviceQueue& operator=(const AdviceQueue&) = delete;

  // False: the queue is full and the job was not accepted.
  bool submit(const AdviceJob& job) noexcept;
  // Calls the device for at most `budget` jobs, waiting for each call; returns the number of calls.
  // `now_ns` is the time of any clock that never goes back.
  uint32_t poll(uint64_t now_ns, uint32_t budget = 8);
  // True: no job waits, nor for another attempt.
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
  std::unique_ptr<std::byte[]> memory_;  // of ring_
  rte_ring* ring_ = nullptr;
  std::deque<Waiting> again_;  // jobs to try again, in the order of not_before
  Counter done_, failed_, given_up_, retried_;
};

}  // namespace kilim::inline v1::mr
