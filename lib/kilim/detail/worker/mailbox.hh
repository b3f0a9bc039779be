// SPDX-License-Identifier: BSD-3-Clause
// Mailbox: functions for one worker to run between two rounds. Any thread posts; only the worker,
// its owner, collects. Never blocks.
#pragma once

#include <cstdint>
#include <memory>

#include "kilim/detail/base/dpdk.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::worker {

// A function that runs on the worker's thread; `context` stays valid until it has run.
struct Message {
  void (*run)(void* context) noexcept = nullptr;
  void* context = nullptr;
};
static_assert(sizeof(Message) == 16);

class Mailbox {
 public:
  static constexpr uint32_t depth = 64;  // messages that can wait

  // Control thread. `name` is unique in the process. EEXIST: it is in use; ENOMEM.
  static Result<Mailbox> create(const char* name);

  // Any thread. False: the mailbox is full; try again later.
  bool post(Message m) noexcept { return rte_ring_enqueue_elem(ring_.get(), &m, sizeof m) == 0; }
  // Runs the messages that have arrived, at most one mailbox full; returns how many.
  uint32_t collect() noexcept {
    uint32_t n = 0;
    Message m;
    while (n < depth && rte_ring_dequeue_elem(ring_.get(), &m, sizeof m) == 0) {
      m.run(m.context);
      n++;
    }
    return n;
  }

 private:
  struct FreeRing {
    void operator()(rte_ring* ring) const noexcept;
  };
  Mailbox() = default;
  std::unique_ptr<rte_ring, FreeRing> ring_;
};

}  // namespace kilim::inline v1::worker
