// SPDX-License-Identifier: BSD-3-Clause
// Rings of an ethdev's queues, in memory that processes share. Control path only.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <rte_malloc.h>

namespace kilim::net {

inline uint32_t ring_size(uint16_t descriptors) noexcept {
  return std::bit_ceil(uint32_t{descriptors});
}

// Zeroed; nullptr: no memory. Freed by rte_free().
template <typename T>
T* shared_array(std::size_t count, int node) noexcept {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is meant where T is one
  void* at = rte_zmalloc_socket("kilim_queue", count * sizeof(T), RTE_CACHE_LINE_SIZE, node);
  return static_cast<T*>(at);
}

}  // namespace kilim::net
