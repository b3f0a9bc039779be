// SPDX-License-Identifier: BSD-3-Clause
// Which keys are being changed or used by several send queues at the moment: what one queue's
// linter cannot see. Shared by the linters of queues that use each other's keys. Any thread; locks
// and allocates: for debug builds.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "kilim/prm/lint_rules.hh"

namespace kilim::diag {

class KeyTraffic {
 public:
  // A WQE in a queue. The number is the low half of its first block's position.
  struct Place {
    uint32_t qpn = 0;
    uint16_t wqe = 0;
  };
  // A doorbell announces a WQE that changes a key, which is called `key` afterwards; `frees`: an
  // invalidation.
  void change(uint32_t key, bool frees, Place, prm::lint::Findings&);
  // ... that uses a key as its own memory.
  void use(uint32_t key, Place, prm::lint::Findings&);
  // WQEs of a queue before this one have ended.
  void ended(uint32_t qpn, uint16_t until);
  // All of them: the queue goes away.
  void forget(uint32_t qpn);

 private:
  struct Change {
    Place at;
    uint32_t key = 0;
    bool frees = false;
  };
  using Use = std::pair<uint32_t, uint32_t>;  // key index, queue
  std::mutex mutex_;
  std::map<uint32_t, Change> changes_;  // by index of the key
  std::map<Use, uint16_t> uses_;        // the last one
};

// Whether the WQE `wqe` lies before `until`; both of a ring of at most 2^15 blocks.
constexpr bool lies_before(uint16_t wqe, uint16_t until) noexcept {
  return static_cast<uint16_t>(until - 1 - wqe) < 0x8000;
}

}  // namespace kilim::diag
