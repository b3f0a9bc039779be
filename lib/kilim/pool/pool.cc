// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/pool/pool.hh"

#include <cerrno>

#include <rte_errno.h>
#include <rte_memory.h>

namespace kilim::pool {

Result<Pool> Pool::create(const Arena& arena, const PoolConfig& config) {
  if (config.count == 0 || config.first >= arena.count() ||
      config.count > arena.count() - config.first)
    return Error{EINVAL, "the pool's buffers do not lie within the arena"};
  int node = config.numa_node < 0 ? SOCKET_ID_ANY : config.numa_node;
  Pool p;
  p.arena_ = arena;
  p.count_ = config.count;
  p.ring_.reset(
      rte_ring_create_elem(config.name, sizeof(uint32_t), config.count, node, RING_F_EXACT_SZ));
  if (p.ring_ == nullptr)
    return Error{rte_errno, rte_errno == EEXIST ? "a pool of that name exists"
                                                : "no memory for a pool's ring"};
  for (uint32_t i = 0; i < config.count; i++) {
    uint32_t index = config.first + i;
    p.give({&index, 1});
  }
  return p;
}

void Pool::FreeRing::operator()(rte_ring* ring) const noexcept {
  rte_ring_free(ring);
}

}  // namespace kilim::pool
