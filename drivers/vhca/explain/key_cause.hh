// SPDX-License-Identifier: BSD-3-Clause
// Why a range of a key is refused: the checks of tpt/translate.hh once more, remembering where they
// stop, and the sentence about it. Runs only when a request has failed. Adapter's lock held. Never
// allocates, never touches client memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/prm/text.hh"
#include "vhca/tpt/key_table.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::explain {

enum class KeyFault : uint8_t {
  none,     // the key allows it: it is refused for something else
  unknown,  // nothing has its index
  freed,    // nothing has its index any more
  tag,
  free,  // not bound, or invalidated
  domain,
  queue,
  rights,
  bounds,
  hole,   // nothing lies there in its list
  depth,  // keys of keys of keys
};

struct KeyCause {
  KeyFault fault = KeyFault::none;
  uint32_t key = 0;  // that is refused: the one that was named, or one of its list's
  uint64_t at = 0, bytes = 0;
  tpt::Access need{};
  const tpt::Mkey* found = nullptr;  // what has its index
  uint32_t list = 0;                 // 0: the key was named; else the key in whose list it stands
  uint32_t entry = 0;                // of that list
};

// Keys that were destroyed, until others push them out.
class FreedKeys {
 public:
  struct Row {
    uint32_t key;
    uint64_t start, len;
  };
  void add(const tpt::Mkey&) noexcept;
  // The last one that had this index; null: none that is remembered.
  [[nodiscard]] const Row* find(uint32_t index) const noexcept;

 private:
  std::array<Row, 64> rows_{};
  std::size_t next_ = 0;
};

KeyCause find_key_cause(const tpt::KeyTable&, uint8_t max_indirection, const tpt::Segment&,
                        const tpt::Access& need) noexcept;

// The sentence behind "... was asked for": what the key is, and which one would be right.
void put_key_cause(prm::Text&, const KeyCause&, const tpt::KeyTable&, const FreedKeys&) noexcept;
// "local read and remote write"; "nothing".
void put_rights(prm::Text&, uint8_t rights) noexcept;
// "4096 bytes at 0x7f0000000000".
void put_range(prm::Text&, uint64_t at, uint64_t bytes) noexcept;

}  // namespace kilim::vhca::explain
