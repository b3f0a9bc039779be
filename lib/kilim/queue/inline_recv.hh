// SPDX-License-Identifier: BSD-3-Clause
// Data that came in its completion entry (inline receive, scatter to CQE): short messages of a
// receiver, short answers of READs and atomics. A view shows them where they lie; it is valid until
// the consumer index moves. Or they are copied to where they were posted.
// Owner: the worker of the completion queue. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/base/counter.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/queue/completion.hh"
#include "kilim/queue/cq.hh"

namespace kilim::queue {

// Of one queue: one writer, any readers.
struct InlineCounters {
  Counter messages, bytes;
};

inline bool has_inline_data(const prm::Cqe& e) noexcept {
  return (e.op_own & prm::cqe::format_mask) != 0 && !Cq::is_error(e.op_own);
}

// The bytes that a CQE carries; none where they lie in posted memory. The first 32 bytes of the CQE
// hold up to 32, the half before a CQE of a 128-byte entry up to 64. Not of an error completion.
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

// Copies to posted memory of `room` bytes, as far as it goes. How many bytes.
inline std::size_t copy_out(std::span<const std::byte> data, std::span<std::byte> room) noexcept {
  const std::size_t n = data.size() < room.size() ? data.size() : room.size();
  if (n != 0) std::memcpy(room.data(), data.data(), n);
  return n;
}

// Shows up to `limit` completions, oldest first, errors as well: each(completion, data), where
// `data` is what the entry carries, empty where nothing does. Afterwards their places go back to
// the device, and no view is valid any more. How many completions.
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

}  // namespace kilim::queue
