// SPDX-License-Identifier: BSD-3-Clause
// How relaxed regions learn that a protection domain or a context goes: libibverbs tells nobody,
// and refuses a domain in which something of ours is left. So these two functions of libibverbs are
// defined here too; a program that links this library before libibverbs calls these, and they go on
// to libibverbs. Weak, since a program that links libibverbs statically has them there; whoever is
// not served so has kilim_relaxed_close(). Any thread.
#include <cerrno>

#include <dlfcn.h>

#include "compat/domains.hh"
#include "compat/ibv_compat.h"
#include "compat/sentence.hh"

namespace {

using kilim::compat::Domain;

// The function behind this one, in the order in which the program's libraries are searched.
template <typename Function>
Function* behind(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Forgotten first: the next domain may have the same address.
__attribute__((weak)) int ibv_dealloc_pd(ibv_pd* pd) {
  static auto* const go_on = behind<decltype(ibv_dealloc_pd)>("ibv_dealloc_pd");
  if (go_on == nullptr) return ENOSYS;
  const std::shared_ptr<Domain> domain = kilim::compat::find_domain(pd, false);
  const bool closed = domain != nullptr && domain->close();
  if (closed) kilim::compat::forget_domain(pd, domain);
  const int rc = go_on(pd);
  if (closed && rc != 0) kilim::compat::keep_domain(pd, domain);  // with its settings
  return rc;
}

__attribute__((weak)) int ibv_close_device(ibv_context* context) {
  static auto* const go_on = behind<decltype(ibv_close_device)>("ibv_close_device");
  if (go_on == nullptr) return ENOSYS;
  (void)kilim::compat::forget_domains_of(context);  // what is hidden in them goes with them
  return go_on(context);
}

int kilim_relaxed_close(ibv_pd* pd) {
  kilim::compat::begin();
  if (pd == nullptr) return kilim::compat::fail(EINVAL, "no protection domain");
  const std::shared_ptr<Domain> domain = kilim::compat::find_domain(pd, false);
  if (domain == nullptr) return 0;
  if (!domain->close())
    return kilim::compat::fail(EBUSY, "relaxed regions live, or wait for ibv_flush_relaxed_mr()");
  kilim::compat::forget_domain(pd, domain);
  return 0;
}
