// SPDX-License-Identifier: BSD-3-Clause
// MkeySource: creates and destroys indirect mkeys, in bulk, as each is a command to the device.
// Implemented by the device's driver; control path only. Any thread, one at a time.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::mr {

// The kind of a key's entries, which never changes.
enum class EntryKind : uint8_t {
  klm,  // each entry has its own length; also strided lists
  ksm,  // all entries have one size
};

// What kind of mkey to create.
struct MkeyRequest {
  uint32_t max_entries = 0;  // of its list, each 16 bytes on the device
  EntryKind kind = EntryKind::klm;
  uint8_t log_entity_bytes = 0;    // KSM: log2 of an entry's bytes, 12 to 31
  bool sign = false;               // its blocks may be signed (umr/signature.hh)
  bool encrypt = false;            // its bytes are encrypted (umr/crypto.hh)
  bool remote_invalidate = false;  // a peer's SEND_WITH_INV may invalidate the key
};

// An indirect mkey as the device made it, in state free.
struct IndirectMkey {
  Lkey lkey;  // the rkey has the same value
  uint32_t max_entries = 0;
  EntryKind kind = EntryKind::klm;
  uint8_t log_entity_bytes = 0;
  uint32_t memory_psv = 0, wire_psv = 0;  // with MkeyRequest::sign: numbers of its PSVs

  [[nodiscard]] Rkey rkey() const noexcept { return Rkey{lkey.value()}; }
};

class MkeySource {
 public:
  virtual ~MkeySource() = default;
  // Fills `out` with new keys, or makes none and returns the device's error.
  virtual Status create_mkeys(const MkeyRequest& request, std::span<IndirectMkey> out) = 0;
  // Destroys keys of this source, whatever their tags are now. Accesses through them fail
  // afterwards.
  virtual void destroy_mkeys(std::span<const IndirectMkey> keys) = 0;

  // Creates KLM keys without further features.
  Status create_mkeys(uint32_t max_entries, std::span<IndirectMkey> out) {
    return create_mkeys(MkeyRequest{.max_entries = max_entries}, out);
  }
};

}  // namespace kilim::inline v1::mr
