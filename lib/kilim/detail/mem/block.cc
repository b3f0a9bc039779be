// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mem/block.hh"

#include <cerrno>
#include <cstring>

#include <linux/mman.h>
#include <numa.h>
#include <numaif.h>
#include <rte_errno.h>
#include <rte_memory.h>
#include <rte_memzone.h>
#include <sys/mman.h>

#include "kilim/detail/base/outlived.hh"
#include "kilim/detail/mem/limits.hh"

namespace kilim::inline v1::mem {
namespace {

struct PageKind {
  std::size_t bytes;
  int flags;
};
constexpr PageKind page_kinds[] = {
    {std::size_t{1} << 30, MAP_HUGETLB | MAP_HUGE_1GB},
    {std::size_t{2} << 20, MAP_HUGETLB | MAP_HUGE_2MB},
    {std::size_t{4} << 10, 0},
};

// Sets the policy before the pages are touched, because the first touch decides the node.
// MPOL_PREFERRED (mbind(2)): if the node has no page left, another node gives one. A binding policy
// would make the touch of a huge page end in SIGBUS.
void place(void* base, std::size_t bytes, int socket) {
  if (socket < 0 || numa_available() < 0 || socket > numa_max_node()) return;
  bitmask* nodes = numa_allocate_nodemask();
  numa_bitmask_setbit(nodes, static_cast<unsigned>(socket));
  (void)mbind(base, bytes, MPOL_PREFERRED, nodes->maskp, nodes->size + 1, 0);
  numa_free_nodemask(nodes);
}

}  // namespace

Result<Block> Block::reserve(const char* name, std::size_t bytes, std::size_t align, int socket) {
  const int where = socket < 0 ? SOCKET_ID_ANY : socket;
  const rte_memzone* zone =
      rte_memzone_reserve_aligned(name, bytes, where, 0, static_cast<unsigned>(align));
  if (zone == nullptr) {
    const char* why = rte_errno == EEXIST ? "a memzone of this name is there already"
                                          : "EAL has no contiguous memory of this size left";
    return Error{rte_errno, why};
  }
  std::memset(zone->addr, 0, zone->len);
  return Block{
      zone, Range{static_cast<std::byte*>(zone->addr), bytes, zone->hugepage_sz, zone->socket_id}};
}

Result<Block> Block::map(std::size_t bytes, int socket, std::span<char> fall_back) {
  if (bytes == 0) return Error{EINVAL, "a block of no bytes"};
  if (!fall_back.empty()) fall_back[0] = '\0';
  for (const PageKind& kind : page_kinds) {
    if (bytes < kind.bytes && kind.flags != 0) continue;
    const std::size_t whole = (bytes + kind.bytes - 1) / kind.bytes * kind.bytes;
    if (whole < bytes) continue;
    void* base = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | kind.flags, -1, 0);
    if (base == MAP_FAILED) {
      const bool first = !fall_back.empty() && fall_back[0] == '\0';
      if (first && kind.flags != 0) explain_huge_pages(kind.bytes, bytes, fall_back);
      continue;
    }
    place(base, whole, socket);
    for (std::size_t at = 0; at < whole; at += kind.bytes)
      static_cast<volatile std::byte*>(base)[at] = std::byte{0};
    return Block{nullptr, Range{static_cast<std::byte*>(base), whole, kind.bytes, node_of(base)}};
  }
  return Error{ENOMEM, "the machine has no memory of this size left"};
}

void Block::reset() noexcept {
  if (range_.base == nullptr) return;
  if (zone_ != nullptr) {
    if (!outlived_eal(range_.base, "memory from EAL, such as the packet arena,"))
      (void)rte_memzone_free(zone_);
  } else {
    munmap(range_.base, range_.bytes);
  }
  zone_ = nullptr;
  range_ = Range{};
}

int node_of(const void* address) noexcept {
  int node = -1;
  if (numa_available() < 0) return -1;
  const long rc =
      get_mempolicy(&node, nullptr, 0, const_cast<void*>(address), MPOL_F_NODE | MPOL_F_ADDR);
  return rc == 0 ? node : -1;
}

}  // namespace kilim::inline v1::mem
