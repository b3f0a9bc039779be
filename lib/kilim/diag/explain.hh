// SPDX-License-Identifier: BSD-3-Clause
// From an error completion, the WQE that failed and the book of keys to a sentence for people:
// which segment, which entry of which key, which region, how many bytes past its end, bound by
// whom. Owner: as the book. Not for a burst.
#pragma once

#include <array>
#include <cstddef>

#include "kilim/diag/key_book.hh"
#include "kilim/prm/text.hh"
#include "kilim/queue/completion.hh"
#include "kilim/queue/sq.hh"

namespace kilim::diag {

// A WQE as it still lies in its ring, straight. To be taken before the queue retires it.
struct SavedWqe {
  std::array<std::byte, 1024> raw{};
  std::size_t size = 0;
  [[nodiscard]] prm::lint::Bytes bytes() const noexcept { return {raw.data(), size}; }
};
SavedWqe save_wqe(const queue::Sq&, uint16_t wqe_counter) noexcept;

// `wqe` is empty where it is not known any more; `kind` says what its queue puts behind the control
// segment. Counts the fault in the book.
void explain(prm::Text&, const queue::Completion&, prm::lint::Bytes wqe, KeyBook&,
             prm::lint::QueueKind kind = prm::lint::QueueKind::connected);

}  // namespace kilim::diag
