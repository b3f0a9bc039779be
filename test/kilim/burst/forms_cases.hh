// SPDX-License-Identifier: BSD-3-Clause
// Cases of burst_packets_random that are in another source, and what both expect.
#pragma once

#include <random>
#include <span>

#include "kilim/burst/config.hh"
#include "kilim/pool/handle.hh"
#include "kilim/prm/cqe.hh"
#include "ut.hh"

namespace kilim::test {

// What the side record of a CQE with these fields is to be.
pool::SideRecord expected_side(const prm::Cqe& e, burst::RxConfig c,
                               const pool::SideRecord& before);

// Gives what a CQE says about its packet, but for length and hash, any values. No mark is one of
// four.
void describe_at_random(prm::Cqe& e, std::mt19937_64& random);

std::span<const Case> forms_cases();
std::span<const Case> words_cases();

}  // namespace kilim::test
