// SPDX-License-Identifier: BSD-3-Clause
// The cases of receive_requests.cc, which run with those of steering rules.
#pragma once

#include <functional>
#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> receive_request_cases();

}  // namespace kilim::test
