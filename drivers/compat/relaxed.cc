// SPDX-License-Identifier: BSD-3-Clause
// The C functions for relaxed regions: finds the engine of a protection domain, makes it at the
// first use and forgets it when it is empty. Any thread.
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "compat/domain.hh"
#include "compat/ibv_compat.h"
#include "compat/sentence.hh"

namespace kilim::compat {
namespace {

using Domains = std::unordered_map<const ibv_pd*, std::shared_ptr<Domain>>;

std::mutex domains_mutex;
// Never destroyed: contexts may be gone before the program's static objects are.
Domains* domains = nullptr;

std::shared_ptr<Domain> find(ibv_pd* pd, bool make) {
  const std::lock_guard lock{domains_mutex};
  if (domains == nullptr) domains = new Domains;
  const auto at = domains->find(pd);
  if (at != domains->end()) return at->second;
  if (!make) return nullptr;
  return domains->emplace(pd, std::make_shared<Domain>(pd)).first->second;
}

void forget(ibv_pd* pd, const std::shared_ptr<Domain>& domain) {
  const std::lock_guard lock{domains_mutex};
  const auto at = domains->find(pd);
  if (at != domains->end() && at->second == domain) domains->erase(at);
}

}  // namespace
}  // namespace kilim::compat

using kilim::compat::Domain;

ibv_mr* ibv_reg_mr_relaxed(ibv_pd* pd, void* addr, size_t length, int access) {
  if (pd == nullptr) {
    (void)kilim::compat::fail(EINVAL, "no protection domain");
    return nullptr;
  }
  for (;;) {
    const std::shared_ptr<Domain> domain = kilim::compat::find(pd, true);
    bool gone = false;
    ibv_mr* mr = domain->register_memory(addr, length, access, gone);
    if (!gone) return mr;
    kilim::compat::forget(pd, domain);
  }
}

int ibv_dereg_mr_relaxed(ibv_mr* mr) {
  const std::shared_ptr<Domain> domain =
      mr == nullptr ? nullptr : kilim::compat::find(mr->pd, false);
  if (domain == nullptr) return kilim::compat::fail(EINVAL, "this is no relaxed region");
  return domain->deregister(mr);
}

int ibv_flush_relaxed_mr(ibv_pd* pd) {
  if (pd == nullptr) return kilim::compat::fail(EINVAL, "no protection domain");
  const std::shared_ptr<Domain> domain = kilim::compat::find(pd, false);
  if (domain == nullptr) return 0;
  bool closed = false;
  const int rc = domain->flush(closed);
  if (closed) kilim::compat::forget(pd, domain);
  return rc;
}
