// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/pool/arena.hh"

#include <bit>
#include <cerrno>
#include <cstring>

#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::pool {

namespace {

bool piece_ok(uint32_t bytes) noexcept {
  return bytes == 0 || (std::has_single_bit(bytes) && bytes >= 64 && bytes <= 4096);
}

}  // namespace

Result<Arena> Arena::over(std::span<std::byte> memory, uint32_t stride, SideRecord* side,
                          ExtraHolders* extra, uint32_t side_piece) {
  constexpr uint32_t line = cacheline_bytes;
  if (stride % line != 0 || stride / line % 2 == 0 || stride > max_stride)
    return Error{EINVAL, "the buffer stride must be an odd number of 64-byte lines, 1 to 255"};
  if (memory.size() / stride == 0) return Error{EINVAL, "the memory holds no packet buffer"};
  if (memory.size() / stride > most_buffers) return Error{EINVAL, "2^28 packet buffers or more"};
  if (!piece_ok(side_piece))
    return Error{EINVAL, "side records are of a power of two of bytes, 64 to 4096"};
  Arena a;
  a.base_ = memory.data();
  a.known_ = reinterpret_cast<uint64_t>(a.base_);
  a.side_ = side;
  a.extra_ = extra;
  a.stride_ = a.room_ = static_cast<uint16_t>(stride);
  a.count_ = static_cast<uint32_t>(memory.size() / stride) & most_buffers;
  if (side_piece != 0) a.side_log_ = static_cast<uint32_t>(std::countr_zero(side_piece)) & 15;
  return a;
}

Result<Arena> Arena::over_others(std::span<std::byte> memory, uint32_t stride, uint16_t room) {
  if (stride == 0 || stride % cacheline_bytes != 0 || stride > max_stride)
    return Error{EINVAL, "the buffers' distance must be 1 to 255 lines of 64 bytes"};
  if (room == 0 || memory.size() < room) return Error{EINVAL, "the memory holds no packet buffer"};
  const std::size_t count = (memory.size() - room) / stride + 1;
  if (count > most_buffers) return Error{EINVAL, "2^28 packet buffers or more"};
  Arena a;
  a.base_ = memory.data();
  a.known_ = reinterpret_cast<uint64_t>(a.base_);
  a.stride_ = static_cast<uint16_t>(stride);
  a.room_ = room;
  a.count_ = static_cast<uint32_t>(count) & most_buffers;
  return a;
}

namespace {

Error zone_error(Error e) {
  if (e.code == EEXIST) return Error{EEXIST, "this process has its packet arena already"};
  return Error{ENOMEM,
               "no memory for the packet buffers: reserve hugepages, give EAL more with -m MIB, or "
               "run with --no-huge --no-shconf -m MIB"};
}

// `each` entries for each buffer. At least one: a memzone of 0 bytes would be the largest free
// piece of memory.
Result<mem::Block> records(const char* name, std::size_t each, std::size_t size,
                           const ArenaConfig& config) {
  const std::size_t count = each == 0 ? 1 : each * config.buffers;
  return mem::Block::reserve(name, count * size, cacheline_bytes, config.numa_node);
}

}  // namespace

Result<ArenaMemory> ArenaMemory::create(const ArenaConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::size_t bytes = std::size_t{config.buffers} * config.stride;
  if (bytes == 0) return Error{EINVAL, "an arena holds at least one packet buffer"};
  auto buffers = mem::Block::reserve("kilim_arena", bytes, 4096, config.numa_node);
  if (!buffers) return zone_error(buffers.error());
  const uint32_t sides = side_records_of(config.stride, config.side_piece);
  auto side =
      records("kilim_arena_side", config.side_records ? sides : 0, sizeof(SideRecord), config);
  if (!side) return zone_error(side.error());
  auto extra = records("kilim_arena_holders", config.holders ? 1 : 0, sizeof(ExtraHolders), config);
  if (!extra) return zone_error(extra.error());
  auto* record = reinterpret_cast<SideRecord*>(side->span().data());
  auto* holders = reinterpret_cast<ExtraHolders*>(extra->span().data());
  std::memset(extra->span().data(), 0, extra->span().size());
  auto arena = Arena::over(buffers->span(), config.stride, config.side_records ? record : nullptr,
                           config.holders ? holders : nullptr, config.side_piece);
  if (!arena) return arena.error();
  return ArenaMemory{*std::move(buffers), *std::move(side), *std::move(extra), *arena};
}

}  // namespace kilim::inline v1::pool
