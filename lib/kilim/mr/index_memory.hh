// SPDX-License-Identifier: BSD-3-Clause
// The memory of an index: its directory, the arena's words and its tables, on hugepages where the
// machine gives them, the first of all of them on the same one.
// Owner: one index; control path only.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/mem/block.hh"
#include "kilim/mr/index_word.hh"

namespace kilim::mr {

// Words of the directory: one for each GiB of a process's addresses.
inline constexpr uint64_t directory_entries = uint64_t{1} << 17;
using Directory = std::atomic<IndexTable*>;

class IndexMemory {
 public:
  static Result<IndexMemory> create(uint64_t arena_blocks, int socket);

  [[nodiscard]] Directory* directory() const noexcept { return directory_; }
  [[nodiscard]] Slot* arena() const noexcept { return arena_; }

  // An empty table, or null where the machine has no memory left; and one that nobody reads.
  IndexTable* take() noexcept;
  void give(IndexTable* table) noexcept { free_.push_back(table); }
  [[nodiscard]] uint64_t page_bytes() const noexcept { return blocks_.front().range().page_bytes; }

 private:
  IndexMemory() = default;
  std::vector<mem::Block> blocks_;
  Directory* directory_ = nullptr;
  Slot* arena_ = nullptr;
  std::byte* next_ = nullptr;  // of the newest block
  std::byte* end_ = nullptr;
  std::vector<IndexTable*> free_;
  int socket_ = -1;
};

}  // namespace kilim::mr
