// SPDX-License-Identifier: BSD-3-Clause
// Follows a range of addresses through the MkeyBook as the device follows it through its mkeys, and
// says why it must have stopped. For diag/explain.hh only. Owner: the book's. Not for a burst.
#pragma once

#include <cstdint>

#include "kilim/detail/diag/mkey_book.hh"
#include "kilim/prm/text.hh"

namespace kilim::inline v1::diag::detail {

// Bytes that a request accesses under one key.
struct Range {
  uint32_t key;      // as in the WQE: index and tag
  uint64_t address;  // as the key counts
  uint64_t bytes;
  uint32_t rights;  // prm::mkey rights that the access needs
  unsigned* steps;  // entries followed so far for this request; bounded, as keys may form a loop
};

// Says which region or binding the key is.
void say_key(prm::Text& t, const MkeyRecord& k);

// True: the device must have refused the range, and the reason has been said. `depth`: indirect
// keys above this one, 0 for a key that the WQE names itself.
bool explain_range(prm::Text& t, const MkeyBook& book, const Range& r, unsigned depth);

}  // namespace kilim::inline v1::diag::detail
