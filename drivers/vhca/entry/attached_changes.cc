// SPDX-License-Identifier: BSD-3-Clause
// What an adapter that is there is told to do otherwise, and what its linter has found. Each waits
// for the adapter's lock.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "vhca/core/journal.hh"
#include "vhca/core/lock.hh"
#include "vhca/core/order.hh"
#include "vhca/core/request_faults.hh"
#include "vhca/entry/attach.hh"
#include "vhca/hca/hca.hh"
#include "vhca/lint/summary.hh"

namespace kilim::vhca::entry {
namespace {

constexpr Error not_ours{EOPNOTSUPP,
                         "the virtual device is the launcher's, whose options describe it, or this "
                         "forked process has not opened it yet"};

}  // namespace

Status Attached::set_faults(uint64_t fatal_in, const RequestFaults& failing) noexcept {
  hca::Hca* adapter = hca();
  if (adapter == nullptr) return not_ours;
  const LockGuard guard(adapter->lock);
  // Numbers are the caller's: none of them wraps.
  const auto from_here = [taken = adapter->context.journal->count(Journal::Kind::wqe)](uint64_t n) {
    return n == 0 ? 0 : n + std::min(taken, UINT64_MAX - n);
  };
  adapter->fatal_at = from_here(fatal_in);
  adapter->context.failing = {from_here(failing.next), failing.every};
  return Done{};
}

Status Attached::set_order(const Order& order) noexcept {
  hca::Hca* adapter = hca();
  if (adapter == nullptr) return not_ours;
  const LockGuard guard(adapter->lock);
  adapter->config.order = order;
  return Done{};
}

Result<std::string> Attached::lint_report() {
  hca::Hca* adapter = hca();
  if (adapter == nullptr) return not_ours;
  const LockGuard guard(adapter->lock);
  return lint::summary_of(adapter->lint.get());
}

const char* Attached::profile_name() noexcept {
  const hca::Hca* adapter = hca();
  return adapter == nullptr ? nullptr : adapter->config.profile.name;
}

}  // namespace kilim::vhca::entry
