// SPDX-License-Identifier: BSD-3-Clause
// Where rules lead a frame that goes the straight way (plain_rx.cc). Owner: one row of frames;
// adapter's lock held. Never allocates. Frames are untrusted.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/ethernet/flow_memo.hh"
#include "vhca/ethernet/state.hh"

namespace kilim::vhca::ethernet {

// The only queue, or TIR, that gets a frame, and where that is remembered. Null: another number of
// them, or they want more than the frame; nothing is remembered.
struct Flow {
  wq::Qp* to = nullptr;
  const FlowMemo* memo = nullptr;
};

// `flow` is that of the frame before, in a row in which rules do not change; it becomes that of
// this one, of at least ether_header_bytes. `by_kind`: rules look that far. False: it is not plain.
bool learn_flow(EthPort&, std::span<const std::byte> frame, bool by_kind, Flow& flow) noexcept;

}  // namespace kilim::vhca::ethernet
