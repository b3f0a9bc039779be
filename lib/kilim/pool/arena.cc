// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/pool/arena.hh"

#include <cerrno>

#include <rte_errno.h>
#include <rte_memory.h>
#include <rte_memzone.h>

namespace kilim::pool {

Result<Arena> Arena::over(std::span<std::byte> memory, uint32_t stride, SideRecord* side) {
  constexpr uint32_t line = cacheline_bytes;
  if (stride % line != 0 || stride / line % 2 == 0 || stride / line > Handle::offset_mask)
    return Error{EINVAL, "the buffer stride must be an odd number of 64-byte lines, 1 to 255"};
  if (memory.size() / stride == 0) return Error{EINVAL, "the memory holds no packet buffer"};
  if (memory.size() / stride > UINT32_MAX) return Error{EINVAL, "more than 2^32 packet buffers"};
  Arena a;
  a.base_ = memory.data();
  a.side_ = side;
  a.stride_ = stride;
  a.count_ = static_cast<uint32_t>(memory.size() / stride);
  return a;
}

namespace {

Error zone_error() {
  if (rte_errno == EEXIST) return Error{EEXIST, "this process has its packet arena already"};
  return Error{ENOMEM,
               "no memory for the packet buffers: reserve hugepages, give EAL more with -m MIB, or "
               "run with --no-huge --no-shconf -m MIB"};
}

}  // namespace

Result<ArenaMemory> ArenaMemory::create(const ArenaConfig& config) {
  int node = config.numa_node < 0 ? SOCKET_ID_ANY : config.numa_node;
  std::size_t bytes = std::size_t{config.buffers} * config.stride;
  if (bytes == 0) return Error{EINVAL, "an arena holds at least one packet buffer"};
  ArenaMemory m;
  m.zone_.reset(rte_memzone_reserve_aligned("kilim_arena", bytes, node, 0, 4096));
  if (m.zone_ == nullptr) return zone_error();
  SideRecord* side = nullptr;
  if (config.side_records) {
    m.side_zone_.reset(rte_memzone_reserve_aligned("kilim_arena_side",
                                                   config.buffers * sizeof(SideRecord), node, 0,
                                                   static_cast<unsigned>(cacheline_bytes)));
    if (m.side_zone_ == nullptr) return zone_error();
    side = static_cast<SideRecord*>(m.side_zone_->addr);
  }
  auto arena = Arena::over({static_cast<std::byte*>(m.zone_->addr), bytes}, config.stride, side);
  if (!arena) return arena.error();
  m.arena_ = *arena;
  return m;
}

std::size_t ArenaMemory::page_bytes() const noexcept {
  return zone_ == nullptr ? 0 : zone_->hugepage_sz;
}

void ArenaMemory::FreeZone::operator()(const rte_memzone* zone) const noexcept {
  rte_memzone_free(zone);
}

}  // namespace kilim::pool
