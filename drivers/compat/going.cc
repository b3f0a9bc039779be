// SPDX-License-Identifier: BSD-3-Clause
// Destroys a Domain before its protection domain or context is destroyed. libibverbs reports that
// to nobody, and refuses to destroy a protection domain in which objects are left. So two functions
// of libibverbs are defined here too: a program that links this library before libibverbs calls
// these, and they call libibverbs' own. They are weak, for programs that link libibverbs statically
// and have them there. Programs that reach neither call kilim_relaxed_close(). Any thread.
#include <cerrno>

#include <dlfcn.h>

#include "compat/domains.hh"
#include "compat/sentence.hh"
#include "kilim/ibv_compat.h"

namespace {

using kilim::compat::Domain;

// The next function of this name in the order in which libraries are searched (dlsym(3),
// RTLD_NEXT).
template <typename Function>
Function* behind(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// The Domain leaves the table before the protection domain is destroyed, because a new one may get
// the same address at once.
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
  (void)kilim::compat::forget_domains_of(context);  // destroys the Domains and all their objects
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
