// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/lookup/index_memory.hh"

#include <new>

namespace kilim::inline v1::lookup {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{2} << 20;

template <typename T>
T* make_array(std::byte* at, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; i++) new (at + i * sizeof(T)) T{};
  return std::launder(reinterpret_cast<T*>(at));
}

}  // namespace

Result<IndexMemory> IndexMemory::create(uint64_t arena_blocks, int socket) {
  const std::size_t directory_bytes = directory_entries * sizeof(Directory);
  const std::size_t arena_bytes =
      (arena_blocks * sizeof(Slot) + sizeof(IndexTable) - 1) & ~(sizeof(IndexTable) - 1);
  const std::size_t bytes = (directory_bytes + arena_bytes + chunk_bytes - 1) & ~(chunk_bytes - 1);
  Result<mem::Block> block = mem::Block::map(bytes, socket);
  if (!block) return block.error();
  IndexMemory m;
  std::byte* at = block->range().base;
  m.directory_ = make_array<Directory>(at, directory_entries);
  m.arena_ = make_array<Slot>(at + directory_bytes, arena_blocks);
  m.next_ = at + directory_bytes + arena_bytes;
  m.end_ = at + bytes;
  m.socket_ = socket;
  m.blocks_.push_back(*std::move(block));
  return m;
}

IndexTable* IndexMemory::allocate() noexcept {
  if (!free_.empty()) {
    IndexTable* table = free_.back();
    free_.pop_back();
    for (Slot& s : table->slots) s.store({});
    return table;
  }
  if (next_ == end_) {
    Result<mem::Block> block = mem::Block::map(chunk_bytes, socket_);
    if (!block) return nullptr;
    next_ = block->range().base;
    end_ = next_ + chunk_bytes;
    blocks_.push_back(*std::move(block));
  }
  IndexTable* table = new (next_) IndexTable;
  next_ += sizeof(IndexTable);
  return table;
}

}  // namespace kilim::inline v1::lookup
