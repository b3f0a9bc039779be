// SPDX-License-Identifier: BSD-3-Clause
// Random layouts of every form over the arena of a FormRig, each with the plain list of bytes that
// a key of it must show. One thread.
#pragma once

#include <vector>

#include "forms_fixture.hh"
#include "kilim/detail/umr/strided.hh"

namespace kilim::test {

// A key as the test knows it: what it is now, and what it shows.
struct BoundKey {
  mr::IndirectMkey made;
  Lkey lkey;
  uint64_t start = 0;
  Shown shown;

  explicit BoundKey(const mr::IndirectMkey& key) : made(key), lkey(key.lkey) {}
};

struct ListLayout {
  std::vector<umr::Piece> pieces;
  Shown shown;
};
// At most so many pieces and bytes; `inner` are keys that pieces may lie under.
ListLayout random_list(FormRig& rig, uint64_t most_pieces, uint64_t most_bytes,
                       const std::vector<BoundKey>& inner = {});

struct StridedLayout {
  std::vector<umr::StridedEntry> entries;
  uint32_t repeat = 0;
  Shown shown;

  [[nodiscard]] umr::StridedView view() const {
    return {entries.data(), static_cast<uint32_t>(entries.size()), repeat};
  }
  [[nodiscard]] bool fits_16_bits() const;
};
// `far`: blocks and strides may be longer than 65,535 bytes.
StridedLayout random_strided(FormRig& rig, uint64_t most_entries, uint64_t most_bytes, bool far);

// Pages of 2^log bytes in any order; the last may be cut.
ListLayout random_fixed(FormRig& rig, uint64_t most_pages, uint8_t log);

// What a bound key is asked to be: any tag, any start address.
umr::ListRequest random_request(FormRig& rig, const BoundKey& key);

}  // namespace kilim::test
