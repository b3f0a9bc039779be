// SPDX-License-Identifier: BSD-3-Clause
// Tap: is shown the packets of a port on their way between device and program, as DPDK's receive
// and transmit callbacks (rte_ethdev.h). A port without one does nothing for it: its queues have
// another burst function while one is set. Owner: who sets it; it outlives that. Its functions run
// on the queues' workers, within their bursts.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/burst/select.hh"
#include "kilim/detail/pool/handle.hh"

namespace kilim::inline v1::port {

struct Tap {
  void* context = nullptr;
  // Packets that a burst has received, or that the device has been given; to read, in whole
  // packets. Sent ones under a key have the key's handle in front.
  void (*received)(void* context, uint32_t queue,
                   std::span<const pool::Handle> packets) noexcept = nullptr;
  void (*sent)(void* context, uint32_t queue,
               std::span<const pool::Handle> packets) noexcept = nullptr;
};

// A port's queues, which know their tap and the burst behind it.
struct TappedRxQueue : burst::RxQueue {
  const Tap* tap = nullptr;
  burst::RxBurst plain = nullptr;
  uint32_t number = 0;
};
struct TappedTxQueue : burst::TxQueue {
  const Tap* tap = nullptr;
  burst::TxBurst plain = nullptr;
  uint32_t number = 0;
};

}  // namespace kilim::inline v1::port
