// SPDX-License-Identifier: BSD-3-Clause
// Front: a cache of one queue's last lookups, for addresses that the index finds only by a search:
// small or overlapping regions, and addresses outside the tables. A hit is a range of addresses
// within which every lookup gives the same key. A change of the index invalidates all hits.
// Owner: the queue's worker, which reports quiescent states. Never allocates, locks or waits.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/detail/lookup/index.hh"

namespace kilim::inline v1::lookup {

class Front {
 public:
  // `index` outlives it.
  explicit Front(const Index& index) noexcept : index_(&index) {}

  // Returns what Index::find() returns, from the cache if it can.
  [[nodiscard]] Lkey find(uint64_t address, uint64_t bytes, Rights rights = Rights()) noexcept {
    const Word word = index_->word_at(address);
    if (Index::is_answer(word, address, bytes, rights)) [[likely]]
      return word.key();
    const uint64_t generation = index_->generation();
    for (const Hit* hit : {&small_[small_place(address)], &large_[large_place(address)]})
      if (hit->answers(generation, address, bytes, rights)) return hit->key;
    return find_behind(address, bytes, rights);
  }
  // Lookups that searched the index.
  [[nodiscard]] uint64_t misses() const noexcept { return misses_; }

 private:
  static constexpr std::size_t places = 16;
  static constexpr unsigned large_shift = 20;  // ranges from 2^18 bytes have places of their own
  struct Hit {
    uint64_t generation = 0;  // 0 is no generation of an index
    uint64_t first = 0, bytes = 0;
    Lkey key;
    Rights rights;

    [[nodiscard]] bool answers(uint64_t now, uint64_t at, uint64_t asked, Rights r) const noexcept {
      const uint64_t offset = at - first;
      return generation == now && rights == r && offset < bytes && asked - 1 < bytes - offset;
    }
  };

  static std::size_t small_place(uint64_t address) noexcept {
    return (address >> index_page_shift ^ address >> index_block_shift) & (places - 1);
  }
  static std::size_t large_place(uint64_t address) noexcept {
    return address >> large_shift & (places - 1);
  }
  // The generation is read before the search: a hit may be newer than its generation, never older.
  [[gnu::noinline]] Lkey find_behind(uint64_t address, uint64_t bytes, Rights rights) noexcept {
    misses_++;
    const uint64_t generation = index_->generation();
    const Index::Extent e = index_->extent(address, rights);
    const uint64_t rest = bytes == 0 ? 0 : bytes - 1;
    if (e.key == Lkey{0} || rest > e.last - address) return index_->find(address, bytes, rights);
    const uint64_t width = e.last - e.first;
    Hit& hit = width < (uint64_t{1} << (large_shift - 2)) ? small_[small_place(address)]
                                                          : large_[large_place(address)];
    hit = {generation, e.first, width + 1, e.key, rights};
    return e.key;
  }

  const Index* index_;
  uint64_t misses_ = 0;
  std::array<Hit, places> small_{}, large_{};
};

}  // namespace kilim::inline v1::lookup
