// SPDX-License-Identifier: BSD-3-Clause
// Decides whether a queue pair gets inline receive (scatter to CQE), and says why. Where it is
// impossible, a queue pair that requires it is refused, and one by default is made without it.
// Pure values and a pure function, any thread; control path only.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/region.hh"

namespace kilim::inline v1::device {

// by_default: on, unless the environment has MLX5_SCATTER_TO_CQE=0. off and on override that.
enum class InlineReceive : uint8_t { by_default, off, on };

// What kind of memory the receive buffers lie in.
enum class RecvMemory : uint8_t {
  addressed,   // host memory at its own addresses
  zero_based,  // under a key that counts otherwise: an indirect key, or a region with an iova
  device       // device memory
};
constexpr RecvMemory recv_memory_of(const mr::Region& r) noexcept {
  if (r.kind == mr::Kind::device) return RecvMemory::device;
  return r.iova == r.address ? RecvMemory::addressed : RecvMemory::zero_based;
}

// The kinds of queue pairs that Kilim makes.
enum class Transport : uint8_t { rc, uc, raw_packet };

// Everything that the decision depends on.
struct InlineCase {
  Transport transport = Transport::rc;
  InlineReceive wish = InlineReceive::by_default;
  RecvMemory memory = RecvMemory::addressed;
  bool capable = true;                // Caps::inline_receive
  bool receives = true;               // the queue pair has a receive queue, its own or shared
  bool signal_all = false;            // every request asks for a completion
  const char* environment = nullptr;  // value of MLX5_SCATTER_TO_CQE; null: not set
  uint32_t send_cqe_bytes = 64;
  uint32_t recv_cqe_bytes = 64;
};

// The decision. Longer data, and data of error completions, is in posted memory.
struct InlineDecision {
  uint32_t received = 0;  // longest message, in bytes, that arrives in the CQE; 0: none
  uint32_t answered = 0;  // longest READ or atomic response in the CQE, in bytes; 0: none
  const char* why = "";   // a sentence, in static storage
};

namespace detail {
constexpr uint32_t cqe_room(uint32_t cqe_bytes) noexcept {
  return cqe_bytes == 128 ? 64 : 32;
}
// Why inline receive is impossible; null: it is possible.
constexpr const char* inline_obstacle(const InlineCase& c) noexcept {
  if (c.transport == Transport::raw_packet)
    return "a card has no inline receive on a packet queue: frames lie in the posted buffers";
  if (!c.capable) return "the adapter puts no data in completion entries";
  if (c.memory == RecvMemory::zero_based)
    return "no inline receive: the receive buffers' key is zero-based, so a posted address is not "
           "where the data belongs";
  if (c.memory == RecvMemory::device)
    return "no inline receive: the receive buffers are device memory, which is not copied to";
  return nullptr;
}
}  // namespace detail

// EOPNOTSUPP: it is required, and this queue or adapter does not have it; EINVAL: it is required,
// and these buffers do not allow it.
inline Result<InlineDecision> arbitrate(const InlineCase& c) noexcept {
  if (c.wish == InlineReceive::off) return InlineDecision{.why = "off: the queue asked for that"};
  if (const char* obstacle = detail::inline_obstacle(c); obstacle != nullptr) {
    const bool buffers = c.capable && c.transport != Transport::raw_packet;
    if (c.wish == InlineReceive::on) return Error{buffers ? EINVAL : EOPNOTSUPP, obstacle};
    return InlineDecision{.why = obstacle};
  }
  const bool asked = c.wish == InlineReceive::on;
  if (!asked && c.environment != nullptr && std::string_view{c.environment} == "0")
    return InlineDecision{.why = "off: MLX5_SCATTER_TO_CQE=0"};
  // A response needs a CQE: either every request has one, or the caller asked for inline receive.
  const bool answers = c.transport == Transport::rc && (asked || c.signal_all);
  return InlineDecision{.received = c.receives ? detail::cqe_room(c.recv_cqe_bytes) : 0,
                        .answered = answers ? detail::cqe_room(c.send_cqe_bytes) : 0,
                        .why = asked ? "on: the queue asked for it" : "on: the default"};
}

}  // namespace kilim::inline v1::device
