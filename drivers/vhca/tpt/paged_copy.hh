// SPDX-License-Identifier: BSD-3-Clause
// The copy where one side or both lie in a region with on-demand paging: in steps, each under the
// page lock, so that what an invalidation takes away is not touched after it. Adapter's lock held.
// Never allocates.
#pragma once

#include <cstdint>

#include "vhca/tpt/page_events.hh"
#include "vhca/tpt/translate.hh"

namespace kilim::vhca::tpt {

struct PagedCopy {
  Piece source, target;  // of the same length; at least one is paged
};
// `source` and `target` say which side is not there any more.
struct PagedResult {
  Verdict source, target;
};
PagedResult copy_paged(const PagedCopy&) noexcept;

// Page lock held: whether all of it is there for this access.
bool is_there(const Piece&, bool write) noexcept;
// The guarded copy found memory gone that the table says is there.
void forget(const Piece&) noexcept;

// An atomic operation on a word: op(va) under the page lock while its page is there for writing.
// False: it is not.
template <typename Op>
bool with_page(const Piece& word, Op op) noexcept {
  {
    const PageLock lock;
    if (!is_there(word, true)) return false;
    if (op(word.va)) return true;
  }
  forget(word);
  return false;
}

}  // namespace kilim::vhca::tpt
