// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Scatter to CQE". Short data that comes in its completion entry instead of in the memory
// that was posted for it: which does, and where it waits until the entry is written. The client's
// library copies it on when it polls. Adapter's lock held. Never allocates.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "vhca/tpt/transfer.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::wq {

// A whole SEND of that length.
inline bool received_in_entry(const Qp& qp, uint64_t bytes) noexcept {
  return bytes != 0 && bytes <= qp.spec.scatter_received;
}

// A whole answer; without an entry there is nothing that could carry it.
inline bool answered_in_entry(const Qp& qp, bool signaled, uint64_t bytes) noexcept {
  return signaled && bytes != 0 && bytes <= qp.spec.scatter_answers;
}

// The place of the next entry's data, empty.
inline tpt::Segment entry_segment(EngineContext& context) noexcept {
  context.entry_data.fill(std::byte{0});
  return {reinterpret_cast<uint64_t>(context.entry_data.data()), context.entry_data.size(), 0,
          true};
}

inline void fill_entry(EngineContext& context, std::span<const std::byte> bytes) noexcept {
  entry_segment(context);
  std::memcpy(context.entry_data.data(), bytes.data(),
              std::min(bytes.size(), context.entry_data.size()));
}

}  // namespace kilim::vhca::wq
