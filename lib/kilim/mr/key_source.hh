// SPDX-License-Identifier: BSD-3-Clause
// Who makes indirect memory keys: in bulk, as values, since making one is a command to the device.
// Implemented by the device's driver; control path only. Any thread, one at a time.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/base/ident.hh"
#include "kilim/base/result.hh"

namespace kilim::mr {

// An indirect key as the device made it: free, with room for `max_entries` entries.
struct IndirectMkey {
  Lkey lkey;  // index and tag; the rkey has the same value
  uint32_t max_entries = 0;

  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey.value()}; }
};

class KeySource {
 public:
  virtual ~KeySource() = default;
  // Fills `out` with new keys or makes none.
  virtual Status create_keys(uint32_t max_entries, std::span<IndirectMkey> out) = 0;
  virtual void destroy_keys(std::span<const IndirectMkey> keys) = 0;
};

}  // namespace kilim::mr
