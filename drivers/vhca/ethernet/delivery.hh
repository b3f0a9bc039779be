// SPDX-License-Identifier: BSD-3-Clause
// One frame into one queue, by the general way (rx.cc): for frames as they come, and for those that
// were joined (lro.cc). Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/be.hh"
#include "vhca/ethernet/state.hh"

namespace kilim::vhca::ethernet {

enum class Delivered : uint8_t { yes, no_wqe, too_long, queue_down };

// What a completion says of segments of TCP that were joined.
struct JoinedMarks {
  uint8_t segments = 0;
  uint8_t min_ttl = 0;
  bool push = false;  // one of them had the flag
  be16 window;        // the last one's
  be32 ack;           // likewise
  be16 payload_sum;   // of all payload
};

// What a rule leads to takes the frame. `joined` null: it came as it is.
Delivered deliver(EthState&, FlowTarget to, std::span<const std::byte> frame,
                  const JoinedMarks* joined) noexcept;

// `frames` of the wire with `bytes` altogether have ended so. `first` is cleared where they were
// taken: what another queue gets as well is a copy.
void count_delivered(EthPort&, Delivered, uint64_t frames, uint64_t bytes, bool& first) noexcept;

}  // namespace kilim::vhca::ethernet
