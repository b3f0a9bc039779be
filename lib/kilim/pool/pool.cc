// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/pool/pool.hh"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <pthread.h>
#include <rte_errno.h>
#include <rte_memory.h>

namespace kilim::pool {

namespace {

// The buffers of each living pool, as addresses: two arenas may lie over the same memory.
struct Part {
  const rte_ring* ring;
  const std::byte *first, *end;
};
pthread_mutex_t parts_lock = PTHREAD_MUTEX_INITIALIZER;
std::vector<Part>& parts() {
  static auto* list = new std::vector<Part>;  // pools may be destroyed by static destructors
  return *list;
}

// Records a pool's buffers. False: another pool has some of them.
bool claim(const Part& part) {
  pthread_mutex_lock(&parts_lock);
  const bool free = std::none_of(parts().begin(), parts().end(), [&part](const Part& p) {
    return part.first < p.end && p.first < part.end;
  });
  if (free) parts().push_back(part);
  pthread_mutex_unlock(&parts_lock);
  return free;
}

void release(const rte_ring* ring) {
  pthread_mutex_lock(&parts_lock);
  std::erase_if(parts(), [ring](const Part& p) { return p.ring == ring; });
  pthread_mutex_unlock(&parts_lock);
}

}  // namespace

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
  const std::byte* first = arena.buffer(config.first);
  if (!claim({p.ring_.get(), first, first + std::size_t{config.count} * arena.stride()}))
    return Error{EBUSY, "another pool has some of these buffers of the arena already"};
  for (uint32_t i = 0; i < config.count; i++) {
    uint32_t index = config.first + i;
    p.push({&index, 1});
  }
  return p;
}

void Pool::FreeRing::operator()(rte_ring* ring) const noexcept {
  release(ring);
  if (!outlived_eal(ring, "a pool of packet buffers")) rte_ring_free(ring);
}

}  // namespace kilim::pool
