// SPDX-License-Identifier: BSD-3-Clause
// The domains that have had relaxed regions, by the caller's protection domain. Any thread; one
// mutex, held for the look-up alone.
#pragma once

#include <memory>
#include <vector>

#include <infiniband/verbs.h>

#include "compat/domain.hh"

namespace kilim::compat {

// `make`: where there is none, a new one. Else null.
std::shared_ptr<Domain> find_domain(ibv_pd* pd, bool make);
// Takes it out.
void forget_domain(ibv_pd* pd, const std::shared_ptr<Domain>& domain);
// Puts it back, unless there is another one.
void keep_domain(ibv_pd* pd, const std::shared_ptr<Domain>& domain);
// Takes out all of a context.
std::vector<std::shared_ptr<Domain>> forget_domains_of(const ibv_context* context);

}  // namespace kilim::compat
