// SPDX-License-Identifier: BSD-3-Clause
// Which transitions of a queue pair are allowed, and which attributes each needs and takes: the
// table that verbs providers check MODIFY_QP against. Pure values, any thread.
#pragma once

#include <cstdint>

#include "vhca/core/spec.hh"

namespace kilim::vhca::wq {

// `mask` are the qp_mask bits that the request carries, `state` among them or not.
bool transition_allowed(QpType, QpState from, QpState to, uint32_t mask) noexcept;

// What such a request lacks of what its transition needs, and what it has that this does not take.
// Both 0: there is no such transition, or nothing is wrong.
struct TransitionFault {
  uint32_t missing = 0, excess = 0;
};
TransitionFault find_transition_fault(QpType, QpState from, QpState to, uint32_t mask) noexcept;

}  // namespace kilim::vhca::wq
