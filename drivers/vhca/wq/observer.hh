// SPDX-License-Identifier: BSD-3-Clause
// Who watches what a client posts, if anybody does: the linter. The engine tells it what it is
// about to do, and heeds its objections. Owner: the adapter; its lock held. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/prm/lint_rules.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/recv_wqe.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::wq {

// What an observer keeps of a queue pair; a queue pair without it is not watched.
struct Watched {};

class Observer {
 public:
  virtual ~Observer() = default;

  // Of queue pairs that are watched. A WQE is about to be executed, perhaps again: the rule by
  // which it fails; null: none.
  virtual const prm::lint::RuleRow* executes(Qp&, const SendWqe&) noexcept = 0;
  // A completion of a send WQE is written.
  virtual void completed(Qp&, uint16_t wqe_index) noexcept = 0;

  // Of all. A receive WQE is about to be used, perhaps again. As executes().
  virtual const prm::lint::RuleRow* receives(const Qp&, std::span<const std::byte>,
                                             const RecvWqe&) noexcept = 0;
  // A request from the wire names this range of a key, for this right. As executes().
  virtual const prm::lint::RuleRow* arrives(const Qp&, const tpt::Segment&,
                                            uint8_t right) noexcept = 0;
};

}  // namespace kilim::vhca::wq
