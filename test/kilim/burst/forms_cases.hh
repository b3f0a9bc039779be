// SPDX-License-Identifier: BSD-3-Clause
// Cases of burst_packets_random that are in another source, and what both expect.
#pragma once

#include <random>
#include <span>

#include "kilim/detail/burst/config.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/prm/cqe.hh"
#include "rows_fixture.hh"
#include "ut.hh"

namespace kilim::test {

// What the side record of a CQE with these fields is to be.
pool::SideRecord expected_side(const prm::Cqe& e, burst::RxConfig c,
                               const pool::SideRecord& before);

// Gives what a CQE says about its packet, but for length and hash, any values. No mark is one of
// four.
void describe_at_random(prm::Cqe& e, std::mt19937_64& random);

// The transmit variants are shared out between two cases, which count those that they visit.
inline constexpr uint32_t one_buffer_rows = 4, several_buffers_rows = 7;
constexpr bool sends_one_buffer(const burst::TxConfig& c) noexcept {
  return !c.multi_seg && !c.gathered;
}
static_assert(one_buffer_rows + several_buffers_rows == burst::tx_configs);
// Kinds of vectors in the tables that this processor, and EAL, let run.
inline uint32_t kinds_of_vectors() noexcept {
  return test::compiled().tx.front().needs <= burst::widest_simd() &&
                 test::compiled().tx.front().needs != burst::Simd::base
             ? 2
             : 1;
}

std::span<const Case> forms_cases();
std::span<const Case> words_cases();

}  // namespace kilim::test
