// SPDX-License-Identifier: BSD-3-Clause
// Formats of the index. A word describes a block of 2 MiB or a page of 4 KiB: it is one key that
// covers all of it, or points to a list of keys that cover parts, or to a table of pages.
// Pure values; the index owns what they point to. Any thread may read them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/mr/region.hh"

namespace kilim::inline v1::lookup {

inline constexpr unsigned index_page_shift = 12, index_block_shift = 21, index_table_shift = 30;
inline constexpr uint64_t index_page_bytes = uint64_t{1} << index_page_shift;
inline constexpr uint64_t index_block_bytes = uint64_t{1} << index_block_shift;
inline constexpr std::size_t words_per_table = 512;

// The rights that a lookup requires, in the bits of mr::Access; none: local reading.
class Rights {
 public:
  static constexpr uint32_t judged = mr::Access::all | mr::Access::mw_bind;  // bits 0 to 4
  static constexpr uint32_t present = 0x20;  // always set: tells a key's word from other words

  constexpr Rights() noexcept = default;
  constexpr explicit Rights(uint32_t access) noexcept : bits_((access & judged) | present) {}
  [[nodiscard]] constexpr uint32_t bits() const noexcept { return bits_; }
  // True: `granted`, the low bits of a word or of a Candidate's rights, has all of these.
  [[nodiscard]] constexpr bool within(uint64_t granted) const noexcept {
    return (granted & bits_) == bits_;
  }
  friend constexpr bool operator==(Rights, Rights) noexcept = default;

 private:
  uint32_t bits_ = present;
};

// A key that covers a part of a block or page. In a list the narrowest comes first; of equally wide
// ones the older.
struct Candidate {
  uint64_t first = 0, last = 0;  // addresses of its region's first and last byte
  Lkey key;
  Rights rights;

  [[nodiscard]] bool covers(uint64_t from, uint64_t to) const noexcept {
    return first <= from && to <= last;
  }
  [[nodiscard]] uint64_t width() const noexcept { return last - first; }
};

// Immutable once a word points to it: a change makes a new list.
struct alignas(64) CandidateList {
  uint64_t count = 0;

  [[nodiscard]] const Candidate* begin() const noexcept {
    return reinterpret_cast<const Candidate*>(reinterpret_cast<const std::byte*>(this) +
                                              sizeof count);
  }
  [[nodiscard]] const Candidate* end() const noexcept { return begin() + count; }
};

struct IndexTable;

// Bits 63..32: the key, 5: present, 4..0: its rights. Or a pointer with bit 5 clear and bit 0
// (list) or bit 1 (table of pages) set.
class Word {
 public:
  constexpr Word() noexcept = default;
  constexpr explicit Word(uint64_t bits) noexcept : bits_(bits) {}
  static constexpr Word whole(Lkey key, Rights rights) noexcept {
    return Word{uint64_t{key.value()} << 32 | rights.bits()};
  }
  static Word list(const CandidateList* list) noexcept {
    return Word{reinterpret_cast<uintptr_t>(list) | is_list};
  }
  static Word pages(const IndexTable* table) noexcept {
    return Word{reinterpret_cast<uintptr_t>(table) | is_pages};
  }

  [[nodiscard]] constexpr uint64_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
  // True: one key with these rights covers all of the block or page.
  [[nodiscard]] constexpr bool grants(Rights rights) const noexcept { return rights.within(bits_); }
  [[nodiscard]] constexpr bool is_whole() const noexcept { return (bits_ & Rights::present) != 0; }
  [[nodiscard]] constexpr Lkey key() const noexcept {
    return Lkey{static_cast<uint32_t>(bits_ >> 32)};
  }
  [[nodiscard]] constexpr Rights rights() const noexcept {
    return Rights{static_cast<uint32_t>(bits_)};
  }
  [[nodiscard]] const CandidateList* list() const noexcept {
    return pointer<const CandidateList>(is_list);
  }
  [[nodiscard]] IndexTable* pages() const noexcept { return pointer<IndexTable>(is_pages); }
  friend constexpr bool operator==(Word, Word) noexcept = default;

 private:
  static constexpr uint64_t is_list = 1, is_pages = 2;
  // Null: the word is of another kind.
  template <typename T>
  [[nodiscard]] T* pointer(uint64_t kind) const noexcept {
    return !is_whole() && (bits_ & kind) != 0 ? reinterpret_cast<T*>(bits_ & ~uint64_t{63})
                                              : nullptr;
  }
  uint64_t bits_ = 0;
};

// The place of a word. Written by the control path, read by any thread; release and acquire order
// what the word points to before the word.
class Slot {
 public:
  [[nodiscard]] Word load() const noexcept { return Word{bits_.load(std::memory_order_acquire)}; }
  void store(Word word) noexcept { bits_.store(word.bits(), std::memory_order_release); }

 private:
  std::atomic<uint64_t> bits_{0};
};

// The words of a block's 512 pages, or of the 512 blocks of a GiB.
struct alignas(4096) IndexTable {
  std::array<Slot, words_per_table> slots;
};
static_assert(sizeof(IndexTable) == 4096 && sizeof(Candidate) == 24 && sizeof(CandidateList) == 64);

}  // namespace kilim::inline v1::lookup
