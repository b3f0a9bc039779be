// SPDX-License-Identifier: BSD-3-Clause
// The cases of receive_requests.cc and flow_tables.cc, which run with those of steering rules.
#pragma once

#include <functional>
#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> receive_request_cases();
std::span<const Case> flow_table_cases();

}  // namespace kilim::test
