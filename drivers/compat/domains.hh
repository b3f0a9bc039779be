// SPDX-License-Identifier: BSD-3-Clause
// The table of Domains, by the caller's protection domain. Any thread; one mutex, held during a
// lookup only.
#pragma once

#include <memory>
#include <vector>

#include <infiniband/verbs.h>

#include "compat/domain.hh"

namespace kilim::compat {

// The Domain of a protection domain. If there is none: a new one with `make`, else null.
std::shared_ptr<Domain> find_domain(ibv_pd* pd, bool make);
// Removes it from the table.
void forget_domain(ibv_pd* pd, const std::shared_ptr<Domain>& domain);
// Adds it again, unless there is another one by now.
void keep_domain(ibv_pd* pd, const std::shared_ptr<Domain>& domain);
// Removes all Domains of a context.
std::vector<std::shared_ptr<Domain>> forget_domains_of(const ibv_context* context);

}  // namespace kilim::compat
