// SPDX-License-Identifier: BSD-3-Clause
// How many bindings of a gather's keys have ended. Any thread; the queue's worker goes on
// meanwhile, and no count is changed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kilim/detail/port/packet_gather.hh"

namespace kilim::inline v1::port {

// How many bindings of a gather with `keys` keys have ended: those that no packet needs any more. A
// key that is bound again replaces itself, so few end by an invalidation. The worker writes how
// many are free.
inline uint64_t ended_keys(PacketGather& gather, uint32_t keys) noexcept {
  const uint64_t bound = gather.stats().gathered;
  const uint32_t free = gather.slots()->read_free_count();
  return bound - std::min<uint64_t>(bound, keys - std::min(keys, free));
}

}  // namespace kilim::inline v1::port
