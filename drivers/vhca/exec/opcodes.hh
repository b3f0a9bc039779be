// SPDX-License-Identifier: BSD-3-Clause
// Where an opcode is executed: one table (opcodes.cc), a row for an opcode and the services that
// know it. Any thread; the executors want the adapter's lock and never allocate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/prm/opcode.hh"
#include "vhca/core/verdict.hh"
#include "vhca/exec/engine.hh"
#include "vhca/transport/requester.hh"

namespace kilim::vhca::exec {

struct OpcodeRow {
  // One WQE, once.
  using Execute = Verdict (*)(Engine&, wq::Qp&, const wq::SendWqe&, transport::Answer&) noexcept;
  // What the WQE at sq.ci begins, as far as it is plain (plain.hh): how many WQEs, `budget` at
  // most.
  using Straight = std::size_t (*)(Engine&, wq::Qp&, std::size_t budget) noexcept;

  prm::Opcode opcode;
  uint8_t services;  // a bit for each QpType
  Execute execute;
  Straight straight;  // null: there is no straight way
};

// Null: a queue of this type does not know the opcode.
const OpcodeRow* opcode_row(QpType, uint8_t opcode) noexcept;

// Executes a WQE that asks nothing of a peer; for RoceLink::execute.
Verdict execute_here(void* engine, wq::Qp&, const wq::SendWqe&) noexcept;

}  // namespace kilim::vhca::exec
