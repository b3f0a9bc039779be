// SPDX-License-Identifier: BSD-3-Clause
// Tells observers of frames that arrive by the straight way (plain_rx.cc): the linter, which may
// object to a receive WQE, and the journal, which writes lines. Observed frames go one at a time.
// Owner: one row of frames; adapter's lock held. Never allocates; a WQE is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/core/journal.hh"
#include "vhca/ethernet/state.hh"

namespace kilim::vhca::ethernet {

struct Observed {
  EthState& eth;
  uint32_t port;
  bool on;

  Observed(EthState& state, uint32_t number) noexcept
      : eth(state),
        port(number),
        on(state.context->journal->on() || state.context->observer != nullptr) {}
  // Reads the queue's next receive WQE as it lies there. False: it cannot be read, or the linter
  // objects, which the general way finds out again.
  [[nodiscard]] bool look(const wq::Qp& qp) const noexcept;
  // The frame went into that WQE.
  void tell(const wq::Qp& qp, std::size_t bytes) const noexcept;
};

}  // namespace kilim::vhca::ethernet
