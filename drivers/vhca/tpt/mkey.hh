// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Memory Key Context". One memory key of the adapter as the engine sees it: a direct key (a
// pinned range of the client) or an indirect one (a list of pieces of other keys). Owner: KeyTable;
// adapter's lock held. Never touches client memory.
#pragma once

#include <cstdint>
#include <memory>

#include "kilim/detail/base/ident.hh"
#include "kilim/prm/umr_seg.hh"
#include "vhca/tpt/crypto.hh"
#include "vhca/tpt/paged_region.hh"
#include "vhca/tpt/signature.hh"

namespace kilim::vhca::tpt {

// One list entry's place in the key's address space, in host order: made from the raw list when the
// list is first walked after a change.
struct ListSpan {
  uint64_t end = 0;  // offset behind this entry (in one repetition of a strided list)
  uint64_t address = 0;
  uint32_t key = 0;
  uint16_t stride = 0;
};

enum class WindowType : uint8_t { none, type_1, type_2 };

// `null`: KeyTable::null_key alone.
enum class KeyMode : uint8_t { direct, klm, ksm, null };

struct Mkey {
  uint32_t key = 0;  // index << 8 | tag
  KeyMode mode = KeyMode::direct;
  WindowType window = WindowType::none;
  // Bits of the context; what they allow is in key_state.hh.
  bool free = false;
  bool umr_enabled = false;         // umr_en
  bool remote_invalidates = false;  // en_rinval
  bool length64 = false;            // the whole 64-bit space; len does not matter
  bool compiled = false;            // `spans` follow from `list`
  bool list_valid = true;           // the list makes sense (set with compiled)
  bool strided = false;             // the list opens with a repeat block (set with compiled)
  bool dense = false;               // no padding before the last entry (set with compiled)
  bool only_klms = true;            // every entry so far was checked as a KLM
  uint8_t rights = 0;               // prm::mkey::local_read ... atomic
  uint8_t log_entity_size = 0;
  Pdn pd;
  uint32_t qpn = prm::mkey::any_qpn;
  uint64_t start = 0;  // first address that users of the key name
  uint64_t len = 0;
  uint64_t va = 0;                     // direct: client address of `start`
  std::unique_ptr<PagedRegion> paged;  // direct: its pages come on demand; null: pinned
  uint32_t capacity = 0;               // list entries (octowords)
  uint32_t used = 0;                   // entries ever written
  uint32_t span_count = 0;             // (set with compiled)
  uint32_t last_span = 0;              // where the list was looked into last
  uint32_t repeat_count = 0;           // (set with compiled)
  // Where the last range on the straight way ended, and the next one most often begins: an entry,
  // and the offset of its first byte.
  uint32_t resume_entry = 0;
  uint64_t resume_at = 0;
  uint64_t repeat_bytes = 0;  // of one repetition (set with compiled)
  std::unique_ptr<prm::Klm[]> list;
  std::unique_ptr<ListSpan[]> spans;
  std::unique_ptr<Signature> signature;  // of a key made to be signed; null: none
  std::unique_ptr<Crypto> crypto;        // of a key made to be encrypted; null: none

  // The list, or what bounds it, is another one now.
  void forget_list() noexcept {
    compiled = false;
    resume_entry = 0;
    resume_at = 0;
  }
  [[nodiscard]] uint32_t index() const noexcept { return key >> 8; }
  [[nodiscard]] uint8_t tag() const noexcept { return static_cast<uint8_t>(key); }
  // Its blocks are signed: users name bytes as they are on the wire.
  [[nodiscard]] bool is_signed() const noexcept { return signature != nullptr && signature->on; }
  // Users name bytes as they are on the wire, of which memory has something else.
  [[nodiscard]] bool converts() const noexcept { return is_signed() || crypto != nullptr; }
  // Bytes are encrypted next to memory, or on the wire's side of signatures.
  [[nodiscard]] bool crypto_by_memory() const noexcept {
    return crypto != nullptr && (crypto->by_memory || !is_signed());
  }
  [[nodiscard]] bool crypto_by_wire() const noexcept {
    return crypto != nullptr && !crypto_by_memory();
  }
  // The memory behind these bytes of the wire.
  [[nodiscard]] Signature::Range memory_of(uint64_t begin, uint64_t bytes) const noexcept {
    uint64_t end = begin + bytes;
    if (crypto_by_wire()) {
      begin = crypto->floor(begin);
      end = crypto->ceil(end);
    }
    Signature::Range r{begin, end - begin};
    if (is_signed()) r = signature->memory_of(r.begin, r.bytes);
    if (!crypto_by_memory()) return r;
    const uint64_t first = crypto->floor(r.begin);
    return {first, crypto->ceil(r.begin + r.bytes) - first};
  }
};

}  // namespace kilim::vhca::tpt
