// SPDX-License-Identifier: BSD-3-Clause
// The memory of an index: its directory, the arena's words and its tables, on hugepages if there
// are any. Directory, arena words and the first tables share one block of memory.
// Owner: one index; control path only.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/lookup/index_word.hh"
#include "kilim/detail/mem/block.hh"

namespace kilim::inline v1::lookup {

// Entries of the directory: one for each GiB of a process's address space.
inline constexpr uint64_t directory_entries = uint64_t{1} << 17;
using Directory = std::atomic<IndexTable*>;

class IndexMemory {
 public:
  // `arena_blocks`: words of the arena, each for 2 MiB. `socket`: NUMA node, -1: any. ENOMEM.
  static Result<IndexMemory> create(uint64_t arena_blocks, int socket);

  [[nodiscard]] Directory* directory() const noexcept { return directory_; }
  [[nodiscard]] Slot* arena() const noexcept { return arena_; }

  // allocate(): an empty table; null: there is no memory. free(): returns a table that nobody
  // reads.
  IndexTable* allocate() noexcept;
  void free(IndexTable* table) noexcept { free_.push_back(table); }
  [[nodiscard]] uint64_t page_bytes() const noexcept { return blocks_.front().range().page_bytes; }

 private:
  IndexMemory() = default;
  std::vector<mem::Block> blocks_;
  Directory* directory_ = nullptr;
  Slot* arena_ = nullptr;
  std::byte* next_ = nullptr;  // the unused part of the newest block
  std::byte* end_ = nullptr;
  std::vector<IndexTable*> free_;
  int socket_ = -1;
};

}  // namespace kilim::inline v1::lookup
