// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/pool/mbuf_row.hh"

#include <algorithm>

#include <rte_mbuf.h>
#include <rte_mempool.h>

namespace kilim::inline v1::pool::mbuf_row {

namespace {

constexpr uint32_t at_once = 64;

// Bytes from an mbuf to its data room (rte_pktmbuf_init).
std::size_t head(const rte_mempool& mempool) noexcept {
  return sizeof(rte_mbuf) + rte_pktmbuf_priv_size(const_cast<rte_mempool*>(&mempool));
}

}  // namespace

uint32_t size(const rte_mempool& mempool) noexcept {
  return mempool.size;
}
uint32_t available(const rte_mempool& mempool) noexcept {
  return rte_mempool_avail_count(&mempool);
}
const char* name(const rte_mempool& mempool) noexcept {
  return mempool.name;
}

rte_mbuf* mbuf(const rte_mempool& mempool, const Arena& arena, uint32_t index) noexcept {
  return reinterpret_cast<rte_mbuf*>(arena.buffer(index) - head(mempool));
}

uint32_t index(const rte_mempool& mempool, const Arena& arena, const rte_mbuf& mbuf) noexcept {
  const auto* room = reinterpret_cast<const std::byte*>(&mbuf) + head(mempool);
  return static_cast<uint32_t>((room - arena.buffer(0)) / arena.stride());
}

uint32_t get(rte_mempool& mempool, const Arena& arena, std::span<uint32_t> out) noexcept {
  uint32_t done = 0;
  void* some[at_once];
  // A mempool gives all or nothing: what is left of it is asked for in ever smaller rows.
  for (uint32_t ask = at_once; done < out.size() && ask != 0;) {
    const auto left = static_cast<uint32_t>(out.size()) - done;
    ask = std::min(ask, left);
    if (rte_mempool_get_bulk(&mempool, some, ask) != 0) {
      ask /= 2;
      continue;
    }
    for (uint32_t i = 0; i < ask; i++)
      out[done++] = index(mempool, arena, *static_cast<const rte_mbuf*>(some[i]));
  }
  return done;
}

void put(rte_mempool& mempool, const Arena& arena, std::span<const uint32_t> indices) noexcept {
  void* free[at_once];
  uint32_t n = 0;
  for (const uint32_t i : indices) {
    rte_mbuf* const last = rte_pktmbuf_prefree_seg(mbuf(mempool, arena, i));
    if (last == nullptr) continue;  // somebody else holds it too
    free[n++] = last;
    if (n < at_once) continue;
    rte_mempool_put_bulk(&mempool, free, n);
    n = 0;
  }
  if (n != 0) rte_mempool_put_bulk(&mempool, free, n);
}

}  // namespace kilim::inline v1::pool::mbuf_row
