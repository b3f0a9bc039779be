// SPDX-License-Identifier: BSD-3-Clause
// Rows of indices from and to a mempool of mbufs, for Pool. An mbuf's index says how many lines of
// its arena begin before its data room. Any lcore; threads that are none lock the mempool's ring.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/pool/arena.hh"

struct rte_mbuf;
struct rte_mempool;

namespace kilim::inline v1::pool::mbuf_row {

[[nodiscard]] uint32_t size(const rte_mempool& mempool) noexcept;
[[nodiscard]] uint32_t available(const rte_mempool& mempool) noexcept;
[[nodiscard]] const char* name(const rte_mempool& mempool) noexcept;

// The mbuf whose data room is the arena's buffer, and back.
[[nodiscard]] rte_mbuf* mbuf(const rte_mempool& mempool, const Arena& arena,
                             uint32_t index) noexcept;
[[nodiscard]] uint32_t index(const rte_mempool& mempool, const Arena& arena,
                             const rte_mbuf& mbuf) noexcept;

// Allocates mbufs as they lie in the mempool (rte_mbuf_raw_alloc); returns how many.
uint32_t get(rte_mempool& mempool, const Arena& arena, std::span<uint32_t> out) noexcept;
// Frees them as rte_pktmbuf_free_seg() does: who has another reference to one keeps it.
void put(rte_mempool& mempool, const Arena& arena, std::span<const uint32_t> indices) noexcept;

}  // namespace kilim::inline v1::pool::mbuf_row
