// SPDX-License-Identifier: BSD-3-Clause
// Address to key, for all memory that a process has registered: the key of the narrowest region
// that covers a range and gives the rights asked for. One reserved arena has a flat table, all
// other memory a table for each GiB; what lies in blocks of 2 MiB costs one word, smaller pieces a
// list or a table of pages. Lookup: any thread that reports quiescent states, and only between two
// of them may it use what it found; it never allocates, locks, waits or fails loudly. Changes:
// control path, one thread at a time, while lookups go on.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kilim/base/cacheline.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/index_memory.hh"
#include "kilim/mr/index_word.hh"
#include "kilim/mr/region.hh"

struct rte_rcu_qsbr;

namespace kilim::mr {

struct IndexConfig {
  uint64_t arena = 0;  // the reserved arena, for which lookup is fastest; may be without any
  uint64_t arena_bytes = 0;
  rte_rcu_qsbr* readers = nullptr;  // outlives the index; null: one thread looks up and changes
  int socket = -1;                  // where its tables lie best
};

class Index {
 public:
  // From here on addresses have no place in the tables, and wider regions would fill too many.
  static constexpr uint64_t reach = uint64_t{1} << 47;
  static constexpr uint64_t widest = uint64_t{256} << 30;

  // EINVAL for an arena that wraps or leaves the addresses of a process, ENOMEM.
  static Result<std::unique_ptr<Index>> create(const IndexConfig& config);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // EINVAL: empty, wrapping, without a key, undefined, or known to the device by another address.
  // EEXIST: the key is there. EBUSY: a region left under this key and a reader may still hold it.
  // ENOMEM. Refused means that nothing changed. Regions may overlap.
  Status add(const Region& region);
  // Lookups that begin from now on do not find it; ENOENT.
  Status remove(Lkey key);
  // Whether no reader can hold the key of a region that was removed: it may be deregistered as far
  // as readers go, work in flight is the caller's.
  [[nodiscard]] bool gone(Lkey key);
  [[nodiscard]] std::size_t size() const noexcept { return regions_.size(); }
  // Lists, tables and keys that were taken out of use and wait for readers.
  [[nodiscard]] std::size_t waiting() const noexcept { return retired_.size(); }
  // Of the memory in which the tables begin.
  [[nodiscard]] uint64_t page_bytes() const noexcept { return memory_.page_bytes(); }

  // The key for `bytes` from `address`, 0 where there is none. Bytes 0 is taken as 1.
  [[nodiscard]] Lkey find(uint64_t address, uint64_t bytes,
                          Rights rights = Rights()) const noexcept {
    const Word word = word_at(address);
    if (is_answer(word, address, bytes, rights)) [[likely]]
      return word.key();
    return find_elsewhere(address, bytes, rights);
  }

  // The stretch of memory around an address in which any range has the same key.
  struct Extent {
    uint64_t first = 0, last = 0;
    Lkey key;
  };
  [[nodiscard]] Extent extent(uint64_t address, Rights rights) const noexcept;
  // Changes with every change of the index, after it.
  [[nodiscard]] uint64_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);
  }

 private:
  friend class Front;
  // A word and the memory that it speaks of.
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
  // Whether a block's word is all that it takes.
  static bool is_answer(Word word, uint64_t address, uint64_t bytes, Rights rights) noexcept {
    return word.grants(rights) && bytes - 1 <= (~address & (index_block_bytes - 1));
  }
  [[nodiscard]] bool reaches(Lkey key, uint64_t last) const noexcept;
  [[nodiscard]] Lkey find_elsewhere(uint64_t address, uint64_t bytes, Rights rights) const noexcept;

  Status check(const Region& region);
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

  // What a lookup reads; written once.
  KILIM_CACHELINE_ALIGNED uint64_t arena_base_;
  uint64_t arena_bytes_;
  const Slot* arena_;
  const Directory* directory_;
  // Written by changes.
  KILIM_CACHELINE_ALIGNED std::atomic<uint64_t> generation_{1};
  std::atomic<const CandidateList*> wide_{nullptr};  // regions outside the tables
  // The control path's own.
  KILIM_CACHELINE_ALIGNED IndexMemory memory_;
  rte_rcu_qsbr* readers_;
  std::unordered_map<uint32_t, Candidate> regions_;
  std::vector<Candidate> scratch_;
  std::unordered_set<uint32_t> leaving_;  // keys that were removed and a reader may hold
  std::deque<Retired> retired_;           // the oldest first
  std::size_t retired_now_ = 0;           // of them, by the change under way
};

// Whether the region with this key, which covers an address before, covers `last` too.
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

}  // namespace kilim::mr
