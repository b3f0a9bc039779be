// SPDX-License-Identifier: BSD-3-Clause
// The C functions for relaxed regions (ibv_compat.h): each checks its arguments and calls the
// Domain of the protection domain. Any thread.
#include <cerrno>

#include "compat/domains.hh"
#include "compat/sentence.hh"
#include "kilim/ibv_compat.h"

using kilim::compat::begin;
using kilim::compat::Domain;
using kilim::compat::fail;
using kilim::compat::find_domain;

ibv_mr* ibv_reg_mr_relaxed(ibv_pd* pd, void* addr, size_t length, int access) {
  begin();
  if (pd == nullptr) {
    (void)fail(EINVAL, "no protection domain");
    return nullptr;
  }
  return find_domain(pd, true)->register_memory(addr, length, access);
}

int ibv_dereg_mr_relaxed(ibv_mr* mr) {
  begin();
  const std::shared_ptr<Domain> domain = mr == nullptr ? nullptr : find_domain(mr->pd, false);
  if (domain == nullptr) return fail(EINVAL, "this is no relaxed region");
  return domain->deregister(mr);
}

int ibv_flush_relaxed_mr(ibv_pd* pd) {
  begin();
  if (pd == nullptr) return fail(EINVAL, "no protection domain");
  const std::shared_ptr<Domain> domain = find_domain(pd, false);
  return domain == nullptr ? 0 : domain->flush();
}

int kilim_relaxed_config(ibv_pd* pd, const kilim_relaxed_attr* attr) {
  begin();
  if (pd == nullptr || attr == nullptr || attr->comp_mask != 0 ||
      attr->memory > KILIM_RELAXED_ON_DEMAND)
    return fail(EINVAL, "no protection domain, or attributes that nobody knows");
  kilim::compat::Settings settings;
  if (attr->keys != 0) settings.keys = attr->keys;
  settings.max_keys = attr->max_keys != 0                 ? attr->max_keys
                      : settings.keys > settings.max_keys ? settings.keys
                                                          : settings.max_keys;
  settings.on_demand = attr->memory == KILIM_RELAXED_ON_DEMAND;
  if (attr->qp_types != 0) settings.qp_types = attr->qp_types;
  return find_domain(pd, true)->configure(settings);
}

int kilim_relaxed_arena(ibv_pd* pd, void* addr, size_t length) {
  begin();
  if (pd == nullptr) return fail(EINVAL, "no protection domain");
  return find_domain(pd, true)->add_arena(addr, length);
}

int kilim_relaxed_arena_end(ibv_pd* pd, void* addr) {
  begin();
  const std::shared_ptr<Domain> domain = pd == nullptr ? nullptr : find_domain(pd, false);
  if (domain == nullptr) return fail(EINVAL, "no arena begins there");
  return domain->end_arena(addr);
}

int kilim_relaxed_usable(const ibv_mr* mr, const ibv_qp* qp) {
  begin();
  const std::shared_ptr<Domain> domain =
      mr == nullptr || qp == nullptr ? nullptr : find_domain(mr->pd, false);
  if (domain == nullptr) return fail(EINVAL, "this is no relaxed region, or no queue pair");
  return domain->usable(mr, qp);
}
