// SPDX-License-Identifier: BSD-3-Clause
// Explains an error completion in a sentence for people, from the failed WQE and the MkeyBook:
// which segment, which entry of which key, which region, how many bytes past its end, bound by
// which lcore. Owner: the book's. Not for a burst.
#pragma once

#include <array>
#include <cstddef>

#include "kilim/detail/diag/mkey_book.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/prm/text.hh"

namespace kilim::inline v1::diag {

// A contiguous copy of a WQE in its ring, made before the queue retires it.
struct SavedWqe {
  std::array<std::byte, 1024> raw{};
  std::size_t size = 0;
  [[nodiscard]] prm::lint::Bytes bytes() const noexcept { return {raw.data(), size}; }
};
// Copies the WQE at block `wqe_counter`, as a completion names it. The queue's worker.
SavedWqe save_wqe(const queue::Sq&, uint16_t wqe_counter) noexcept;

// Appends the explanation of an error completion to the text, and counts the fault in the book.
// `wqe`: the failed WQE; empty: it is not known any more. `kind`: of its queue pair.
void explain(prm::Text&, const queue::Completion&, prm::lint::Bytes wqe, MkeyBook&,
             prm::lint::QueueKind kind = prm::lint::QueueKind::connected);

}  // namespace kilim::inline v1::diag
