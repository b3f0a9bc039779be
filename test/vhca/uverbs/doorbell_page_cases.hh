// SPDX-License-Identifier: BSD-3-Clause
// Tests of doorbell_pages.cc, which run beside those of objects_ut.cc.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> doorbell_page_cases();

}  // namespace kilim::test
