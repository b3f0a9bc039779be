// SPDX-License-Identifier: BSD-3-Clause
#include "compat/domains.hh"

#include <mutex>
#include <unordered_map>

namespace kilim::compat {
namespace {

using Domains = std::unordered_map<const ibv_pd*, std::shared_ptr<Domain>>;

std::mutex domains_mutex;
// Never destroyed: contexts may be gone before the program's static objects are.
Domains* domains = nullptr;

}  // namespace

std::shared_ptr<Domain> find_domain(ibv_pd* pd, bool make) {
  const std::lock_guard lock{domains_mutex};
  if (domains == nullptr) {
    if (!make) return nullptr;
    domains = new Domains;
  }
  const auto at = domains->find(pd);
  if (at != domains->end()) return at->second;
  if (!make) return nullptr;
  return domains->emplace(pd, std::make_shared<Domain>(pd)).first->second;
}

void forget_domain(ibv_pd* pd, const std::shared_ptr<Domain>& domain) {
  const std::lock_guard lock{domains_mutex};
  const auto at = domains->find(pd);
  if (at != domains->end() && at->second == domain) domains->erase(at);
}

void keep_domain(ibv_pd* pd, const std::shared_ptr<Domain>& domain) {
  const std::lock_guard lock{domains_mutex};
  domains->emplace(pd, domain);
}

std::vector<std::shared_ptr<Domain>> forget_domains_of(const ibv_context* context) {
  std::vector<std::shared_ptr<Domain>> of_context;
  const std::lock_guard lock{domains_mutex};
  if (domains == nullptr) return of_context;
  for (auto at = domains->begin(); at != domains->end();) {
    if (at->second->context() == context) {
      of_context.push_back(at->second);
      at = domains->erase(at);
    } else {
      ++at;
    }
  }
  return of_context;
}

}  // namespace kilim::compat
