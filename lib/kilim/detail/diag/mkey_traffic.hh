// SPDX-License-Identifier: BSD-3-Clause
// MkeyTraffic: which keys several send queues are changing or using at the moment, which the linter
// of one queue cannot see. Shared by the linters of queues that use each other's keys. Any thread;
// locks and allocates: for debug builds.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "kilim/prm/lint_rules.hh"

namespace kilim::inline v1::diag {

class MkeyTraffic {
 public:
  // A WQE of a queue; `wqe` is the low half of its position.
  struct Place {
    uint32_t qpn = 0;
    uint16_t wqe = 0;
  };
  // A doorbell announces a WQE that changes a key to `key` (with the new tag); frees: an
  // invalidation.
  void change(uint32_t key, bool frees, Place, prm::lint::Findings&);
  // A doorbell announces a WQE that uses a key for local memory.
  void use(uint32_t key, Place, prm::lint::Findings&);
  // WQEs of a queue before this one have ended.
  void ended(uint32_t qpn, uint16_t until);
  // The queue is destroyed: all of its WQEs have ended.
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
  std::map<Use, uint16_t> uses_;        // the last WQE of each queue that uses the key
};

// Whether the WQE `wqe` lies before `until`; both of a ring of at most 2^15 blocks.
constexpr bool lies_before(uint16_t wqe, uint16_t until) noexcept {
  return static_cast<uint16_t>(until - 1 - wqe) < 0x8000;
}

}  // namespace kilim::inline v1::diag
