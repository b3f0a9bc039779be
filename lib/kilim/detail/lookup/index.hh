// SPDX-License-Identifier: BSD-3-Clause
// Index: from an address to the key of the narrowest registered region that covers a range and has
// the wanted rights. One reserved arena has a flat table, other memory a table for each GiB. A
// region of whole 2 MiB blocks costs a word for each block; smaller ones a list or a table of 4 KiB
// pages. Lookups: any thread that reports quiescent states; a key may be used until its next
// quiescent state. They never allocate, lock, wait or log. Changes: control path, one thread at a
// time, while lookups go on.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/lookup/index_memory.hh"
#include "kilim/detail/lookup/index_word.hh"
#include "kilim/detail/mr/region.hh"

struct rte_rcu_qsbr;

namespace kilim::inline v1::lookup {

// Properties of an index that do not change.
struct IndexConfig {
  uint64_t arena = 0;               // address of the reserved arena, where lookups are fastest
  uint64_t arena_bytes = 0;         // 0: there is no arena
  rte_rcu_qsbr* readers = nullptr;  // outlives the index; null: one thread does lookups and changes
  int socket = -1;                  // NUMA node for its tables; -1: any
};

class Index {
 public:
  // Addresses from `reach` on, and regions wider than `widest` bytes, are kept in a list instead of
  // the tables.
  static constexpr uint64_t reach = uint64_t{1} << 47;
  static constexpr uint64_t widest = uint64_t{256} << 30;

  // EINVAL: the arena wraps or exceeds a process's address space; ENOMEM.
  static Result<std::unique_ptr<Index>> create(const IndexConfig& config);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // Adds a region; regions may overlap. EINVAL: the region is empty, wraps, has no key, is
  // undefined, or its iova differs from its address. EEXIST: the key is in the index. EBUSY: a
  // region with this key was removed and a reader may still hold it. ENOMEM. After an error nothing
  // has changed.
  Status add(const mr::Region& region);
  // Removes a region: lookups that begin later do not find it. ENOENT: no region has this key.
  Status remove(Lkey key);
  // True: no reader can hold the key of a removed region. Before deregistering it the caller also
  // waits for the requests that use the key.
  [[nodiscard]] bool gone(Lkey key);
  // Regions in the index. The changing thread.
  [[nodiscard]] std::size_t size() const noexcept { return regions_.size(); }
  // Lists, tables and keys that are out of use and wait for readers.
  [[nodiscard]] std::size_t waiting() const noexcept { return retired_.size(); }
  // Page size of the memory that holds the directory and the first tables.
  [[nodiscard]] uint64_t page_bytes() const noexcept { return memory_.page_bytes(); }

  // The key for `bytes` from `address`; 0: there is none. 0 bytes count as 1.
  [[nodiscard]] Lkey find(uint64_t address, uint64_t bytes,
                          Rights rights = Rights()) const noexcept {
    const Word word = word_at(address);
    if (is_answer(word, address, bytes, rights)) [[likely]]
      return word.key();
    return find_elsewhere(address, bytes, rights);
  }

  // A range of addresses within which every lookup gives the same key.
  struct Extent {
    uint64_t first = 0, last = 0;
    Lkey key;
  };
  // The extent around `address` for lookups with these rights. Any reader.
  [[nodiscard]] Extent extent(uint64_t address, Rights rights) const noexcept;
  // A number that changes after every change of the index; never 0.
  [[nodiscard]] uint64_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);
  }

 private:
  friend class Front;
  // A word and the addresses that it describes.
  struct Leaf {
    Word word;
    uint64_t first, last;
  };
  struct Retired {
    uint64_t token;
    const CandidateList* list;
    IndexTable* table;
    Lkey key;
  };
  struct Place {
    Slot* slot;
    uint64_t first, bytes;
    [[nodiscard]] uint64_t last() const noexcept { return first + (bytes - 1); }
  };

  Index(const IndexConfig& config, IndexMemory memory) noexcept;
  [[nodiscard]] Word word_at(uint64_t address) const noexcept {
    const uint64_t offset = address - arena_base_;
    if (offset < arena_bytes_) return arena_[offset >> index_block_shift].load();
    if (address >= reach) return {};
    const IndexTable* table =
        directory_[address >> index_table_shift].load(std::memory_order_acquire);
    if (table == nullptr) return {};
    return table->slots[address >> index_block_shift & (words_per_table - 1)].load();
  }
  [[nodiscard]] Leaf leaf_at(uint64_t address) const noexcept {
    Word word = word_at(address);
    uint64_t below = index_block_bytes - 1;
    if (const IndexTable* pages = word.pages()) {
      word = pages->slots[address >> index_page_shift & (words_per_table - 1)].load();
      below = index_page_bytes - 1;
    }
    return {word, address & ~below, address | below};
  }
  // True: the block's word alone answers the lookup.
  static bool is_answer(Word word, uint64_t address, uint64_t bytes, Rights rights) noexcept {
    return word.grants(rights) && bytes - 1 <= (~address & (index_block_bytes - 1));
  }
  [[nodiscard]] bool reaches(Lkey key, uint64_t last) const noexcept;
  [[nodiscard]] Lkey find_elsewhere(uint64_t address, uint64_t bytes, Rights rights) const noexcept;

  Status check(const mr::Region& region);
  [[nodiscard]] bool make_tables(const Candidate& c) noexcept;
  Slot* slot_at(uint64_t address) noexcept;
  void change(const Candidate& c, bool adding);
  void change_wide(const Candidate& c, bool adding);
  void change_place(const Place& place, const Candidate& c, bool adding);
  void change_pages(IndexTable& pages, const Place& block, const Candidate& c, bool adding);
  void fold_pages(const Place& block, IndexTable& pages);
  void collect(const Place& place, const Candidate& c, bool adding);
  void publish(const Place& place);
  bool split(const Place& place);
  [[nodiscard]] CandidateList* new_list() const;
  static void delete_list(const CandidateList* list) noexcept;
  void retire(const CandidateList* list, IndexTable* table, Lkey key);
  void finish_change();
  void reclaim();

  // Read by lookups; written once, in create().
  KILIM_CACHELINE_ALIGNED uint64_t arena_base_;
  uint64_t arena_bytes_;
  const Slot* arena_;
  const Directory* directory_;
  // Written by changes.
  KILIM_CACHELINE_ALIGNED std::atomic<uint64_t> generation_{1};
  std::atomic<const CandidateList*> wide_{nullptr};  // regions outside the tables
  // Used by the control path only.
  KILIM_CACHELINE_ALIGNED IndexMemory memory_;
  rte_rcu_qsbr* readers_;
  std::unordered_map<uint32_t, Candidate> regions_;
  std::vector<Candidate> scratch_;
  std::unordered_set<uint32_t> leaving_;  // removed keys that a reader may hold
  std::deque<Retired> retired_;           // the oldest first
  std::size_t retired_now_ = 0;           // how many of them belong to the change under way
};

// Whether the region with this key, which covers an earlier address, also covers `last`.
inline bool Index::reaches(Lkey key, uint64_t last) const noexcept {
  const Word word = leaf_at(last).word;
  if (word.is_whole()) return word.key() == key;
  if (const CandidateList* list = word.list())
    for (const Candidate& c : *list)
      if (c.key == key) return c.covers(last, last);
  return false;
}

[[gnu::noinline]] inline Lkey Index::find_elsewhere(uint64_t address, uint64_t bytes,
                                                    Rights rights) const noexcept {
  const uint64_t last = address + (bytes == 0 ? 0 : bytes - 1);
  if (last < address) return Lkey{0};
  const Leaf leaf = leaf_at(address);
  if (leaf.word.grants(rights) && (last <= leaf.last || reaches(leaf.word.key(), last)))
    return leaf.word.key();
  if (const CandidateList* list = leaf.word.list())
    for (const Candidate& c : *list)
      if (c.covers(address, last) && rights.within(c.rights.bits())) return c.key;
  if (const CandidateList* wide = wide_.load(std::memory_order_acquire))
    for (const Candidate& c : *wide)
      if (c.covers(address, last) && rights.within(c.rights.bits())) return c.key;
  return Lkey{0};
}

inline Index::Extent Index::extent(uint64_t address, Rights rights) const noexcept {
  const Leaf leaf = leaf_at(address);
  Extent e{leaf.first, leaf.last, Lkey{0}};
  if (leaf.word.grants(rights)) {
    e.key = leaf.word.key();
    return e;
  }
  const CandidateList* lists[] = {leaf.word.list(), wide_.load(std::memory_order_acquire)};
  for (const CandidateList* list : lists) {
    if (list == nullptr || e.key != Lkey{0}) continue;
    for (const Candidate& c : *list) {
      if (c.first > address) {
        e.last = std::min(e.last, c.first - 1);
      } else if (c.last < address) {
        e.first = std::max(e.first, c.last + 1);
      } else {
        e.first = std::max(e.first, c.first);
        e.last = std::min(e.last, c.last);
        if (e.key == Lkey{0} && rights.within(c.rights.bits())) e.key = c.key;
      }
    }
  }
  return e;
}

}  // namespace kilim::inline v1::lookup
