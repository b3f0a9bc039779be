// SPDX-License-Identifier: BSD-3-Clause
// Inline receive: a short message arrives inside its completion, and the buffer that was posted for
// it is not written. device::arbitrate() says whether a queue has it and why not;
// queue::for_each_completion() hands out each completion with the bytes in it; burst::recv_burst()
// does the same for a queue that posts its receives again by itself.
//
// Threads: the queue's worker. The bytes are valid inside the call alone.
//
// Errors: arbitrate() gives EOPNOTSUPP with the obstacle where inline receive was asked for and
// cannot be; a failed receive is a completion whose ok() is false, without bytes.
//
// Example:
//   uint64_t sum_of(kilim::queue::Cq& cq, kilim::queue::InlineCounters& counters) {
//     uint64_t sum = 0;
//     kilim::queue::for_each_completion(
//         cq, 32, counters, [&](const kilim::queue::Completion& c, std::span<const std::byte> d) {
//           if (c.ok() && !d.empty()) sum += std::to_integer<uint64_t>(d[0]);
//         });
//     return sum;
//   }
#pragma once

#include "kilim/detail/burst/recv.hh"
#include "kilim/detail/device/inline_arbiter.hh"
#include "kilim/detail/queue/inline_recv.hh"
