// SPDX-License-Identifier: BSD-3-Clause
// Decides whether short messages and answers of a queue pair may come in their completion entries
// (inline receive, scatter to CQE), and says why. A request that asks for it where it cannot be is
// refused; one that leaves it open is made without. Pure values and a pure function, any thread;
// control path only.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>

#include "kilim/base/result.hh"
#include "kilim/mr/region.hh"

namespace kilim::device {

// by_default: on, unless the environment says MLX5_SCATTER_TO_CQE=0. The others stand above it.
enum class InlineReceive : uint8_t { by_default, off, on };

// What the keys of the receive buffers show.
enum class RecvMemory : uint8_t {
  addressed,   // host memory at its own addresses
  zero_based,  // a key whose addresses are offsets: an indirect key, or a region with an iova
  device       // memory of the adapter
};
constexpr RecvMemory recv_memory_of(const mr::Region& r) noexcept {
  if (r.kind == mr::Kind::device) return RecvMemory::device;
  return r.iova == r.address ? RecvMemory::addressed : RecvMemory::zero_based;
}

enum class Transport : uint8_t { rc, uc, raw_packet };

struct InlineCase {
  Transport transport = Transport::rc;
  InlineReceive wish = InlineReceive::by_default;
  RecvMemory memory = RecvMemory::addressed;
  bool capable = true;                // the adapter
  bool receives = true;               // it has receives, its own or shared
  bool signal_all = false;            // every request has a completion
  const char* environment = nullptr;  // MLX5_SCATTER_TO_CQE
  uint32_t send_cqe_bytes = 64;
  uint32_t recv_cqe_bytes = 64;
};

// How a queue pair was made. Longer data, and data of error completions, lies where it was posted.
struct InlineDecision {
  uint32_t received = 0;  // up to so many bytes of a SEND come in the CQE; 0: none
  uint32_t answered = 0;  // of the answer of a READ or an atomic that has a completion
  const char* why = "";
};

namespace detail {
constexpr uint32_t cqe_room(uint32_t cqe_bytes) noexcept {
  return cqe_bytes == 128 ? 64 : 32;
}
// Why it cannot be, whatever was wished; null: it can.
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

// EOPNOTSUPP: it is wished and cannot be on such a queue or adapter; EINVAL: not with such buffers.
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
  // An answer needs an entry: each request has one, or the reader knows which have.
  const bool answers = c.transport == Transport::rc && (asked || c.signal_all);
  return InlineDecision{.received = c.receives ? detail::cqe_room(c.recv_cqe_bytes) : 0,
                        .answered = answers ? detail::cqe_room(c.send_cqe_bytes) : 0,
                        .why = asked ? "on: the queue asked for it" : "on: the default"};
}

}  // namespace kilim::device
