// SPDX-License-Identifier: BSD-3-Clause
// Quiescence: each worker reports after every round that it holds no reference (rte_rcu_qsbr). One
// object for all workers of a process; the control path asks whether all have reported.
#pragma once

#include <cstdint>
#include <memory>

#include <rte_rcu_qsbr.h>

#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::worker {

class Quiescence {
 public:
  // For reporters 0 to reporters - 1; a worker's number is its lcore's. Control thread. EINVAL: no
  // reporters; ENOMEM.
  static Result<Quiescence> create(uint32_t reporters);

  // The reporter's thread only. online(): it may hold references from now on; offline(): it holds
  // none and does not report; pass(): it holds none at this moment.
  void online(uint32_t reporter) noexcept { rte_rcu_qsbr_thread_online(state_.get(), reporter); }
  void offline(uint32_t reporter) noexcept { rte_rcu_qsbr_thread_offline(state_.get(), reporter); }
  void pass(uint32_t reporter) noexcept { rte_rcu_qsbr_quiescent(state_.get(), reporter); }

  // Control path. add() before the reporter goes online, remove() after it went offline.
  bool add(uint32_t reporter) noexcept {
    return rte_rcu_qsbr_thread_register(state_.get(), reporter) == 0;
  }
  void remove(uint32_t reporter) noexcept {
    rte_rcu_qsbr_thread_unregister(state_.get(), reporter);
  }

  // Any thread. start() returns a token; passed() whether every online reporter has reported since.
  [[nodiscard]] uint64_t start() noexcept { return rte_rcu_qsbr_start(state_.get()); }
  [[nodiscard]] bool passed(uint64_t token) noexcept {
    return rte_rcu_qsbr_check(state_.get(), token, false) == 1;
  }

 private:
  struct Free {
    void operator()(rte_rcu_qsbr* state) const noexcept;
  };
  Quiescence() = default;
  std::unique_ptr<rte_rcu_qsbr, Free> state_;
};

}  // namespace kilim::inline v1::worker
