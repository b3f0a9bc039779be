// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/worker/quiescence.hh"

#include <cerrno>

#include <rte_malloc.h>

#include "kilim/detail/base/outlived.hh"

namespace kilim::inline v1::worker {

Result<Quiescence> Quiescence::create(uint32_t reporters) {
  if (reporters == 0) return Error{EINVAL, "quiescence needs at least one reporter"};
  std::size_t bytes = rte_rcu_qsbr_get_memsize(reporters);
  Quiescence q;
  q.state_.reset(
      static_cast<rte_rcu_qsbr*>(rte_zmalloc("kilim_quiescence", bytes, RTE_CACHE_LINE_SIZE)));
  if (q.state_ == nullptr) return Error{ENOMEM, "no memory for the workers' quiescence"};
  if (rte_rcu_qsbr_init(q.state_.get(), reporters) != 0)
    return Error{EINVAL, "the workers' quiescence could not be set up"};
  return q;
}

void Quiescence::Free::operator()(rte_rcu_qsbr* state) const noexcept {
  if (!outlived_eal(state, "the workers' quiescence")) rte_free(state);
}

}  // namespace kilim::inline v1::worker
