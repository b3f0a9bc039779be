// SPDX-License-Identifier: BSD-3-Clause
// Who makes indirect memory keys: in bulk, as values, since making one is a command to the device.
// Implemented by the device's driver; control path only. Any thread, one at a time.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/base/ident.hh"
#include "kilim/base/result.hh"

namespace kilim::mr {

// What a key's list consists of, for its whole life.
enum class EntryKind : uint8_t {
  klm,  // pieces, each with its length; strided lists too
  ksm,  // pieces of one fixed size
};

struct KeyRequest {
  uint32_t max_entries = 0;
  EntryKind kind = EntryKind::klm;
  uint8_t log_entity_bytes = 0;    // of a KSM key's entries, 12 to 31
  bool sign = false;               // blocks behind it may be signed (umr/signature.hh)
  bool remote_invalidate = false;  // a peer's SEND_WITH_INV may free the key
};

// An indirect key as the device made it: free, with room for `max_entries` entries.
struct IndirectMkey {
  Lkey lkey;  // index and tag; the rkey has the same value
  uint32_t max_entries = 0;
  EntryKind kind = EntryKind::klm;
  uint8_t log_entity_bytes = 0;
  uint32_t memory_psv = 0, wire_psv = 0;  // of a key to be signed: where its signatures begin

  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey.value()}; }
};

class KeySource {
 public:
  virtual ~KeySource() = default;
  // Fills `out` with new keys or makes none.
  virtual Status create_keys(const KeyRequest& request, std::span<IndirectMkey> out) = 0;
  virtual void destroy_keys(std::span<const IndirectMkey> keys) = 0;

  // Of the ordinary kind.
  Status create_keys(uint32_t max_entries, std::span<IndirectMkey> out) {
    return create_keys(KeyRequest{.max_entries = max_entries}, out);
  }
};

}  // namespace kilim::mr
