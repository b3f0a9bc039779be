// SPDX-License-Identifier: BSD-3-Clause
// Inline receive (scatter to CQE): short messages, and short responses of READs and atomics, whose
// bytes lie in the CQE. They can be read there until the CQE is consumed, or copied to posted
// memory. Owner: the worker of the completion queue. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::queue {

// Counts of one queue; one writer, any readers.
struct InlineCounters {
  Counter messages, bytes;
};

// True: the CQE reports no error and holds the data itself.
inline bool has_inline_data(const prm::Cqe& e) noexcept {
  return (e.op_own & prm::cqe::format_mask) != 0 && !Cq::is_error(e.op_own);
}

// The bytes in a CQE without error; empty: they are in posted memory. Up to 32 bytes lie in the
// CQE's first 32 bytes, up to 64 in the first half of a 128-byte entry.
inline std::span<const std::byte> inline_data(const prm::Cqe& e) noexcept {
  const auto* at = reinterpret_cast<const std::byte*>(&e);
  const std::size_t bytes = e.byte_cnt.host();
  switch (e.op_own & prm::cqe::format_mask) {
    case prm::cqe::inline_scatter_32:
      return {at, bytes < 32 ? bytes : 32};
    case prm::cqe::inline_scatter_64:
      return {at - 64, bytes < 64 ? bytes : 64};
    default:
      return {};
  }
}

// Copies bytes to posted memory, at most `room`; returns how many.
inline std::size_t copy_out(std::span<const std::byte> data, std::span<std::byte> room) noexcept {
  const std::size_t n = data.size() < room.size() ? data.size() : room.size();
  if (n != 0) std::memcpy(room.data(), data.data(), n);
  return n;
}

// Calls each(completion, data) for up to `limit` completions, the oldest first, errors included;
// `data` are the bytes in the CQE, perhaps none. Then it consumes them, and their data is invalid.
// Returns how many.
template <typename Each>
uint32_t for_each_completion(Cq& cq, uint32_t limit, InlineCounters& counters,
                             Each&& each) noexcept {
  uint32_t n = 0;
  uint64_t inlined = 0, bytes = 0;
  Completion c;
  for (const prm::Cqe* e; n < limit && (e = cq.peek(n)) != nullptr; n++) {
    std::span<const std::byte> data;
    if (Cq::is_error(e->op_own)) [[unlikely]] {
      c = decode_error(*e);
    } else {
      decode(*e, e->op_own, c);
      data = inline_data(*e);
    }
    inlined += data.empty() ? 0 : 1;
    bytes += data.size();
    each(static_cast<const Completion&>(c), data);
  }
  if (n == 0) return 0;
  cq.consume(n);
  counters.messages.add(inlined);
  counters.bytes.add(bytes);
  return n;
}

}  // namespace kilim::inline v1::queue
