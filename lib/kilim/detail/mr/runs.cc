// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mr/runs.hh"

#include <algorithm>
#include <cerrno>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mem/range.hh"
#include "kilim/detail/mem/user_range.hh"

namespace kilim::inline v1::mr {
namespace {

// Registers all runs; after an error none of them stays registered.
Result<std::vector<Mr>> register_each(Registrar& registrar, const std::vector<mem::Range>& runs,
                                      uint32_t access) {
  std::vector<Mr> regions;
  regions.reserve(runs.size());
  for (const mem::Range& run : runs) {
    Result<Mr> region = Mr::create(registrar, run.span(), access, run.page_bytes);
    if (!region) return region.error();
    regions.push_back(*std::move(region));
  }
  return regions;
}

using Pieces = std::vector<std::span<std::byte>>;

void collect_chunk(rte_mempool*, void* pieces, rte_mempool_memhdr* chunk, unsigned) {
  static_cast<Pieces*>(pieces)->push_back({static_cast<std::byte*>(chunk->addr), chunk->len});
}

void collect_buffer(rte_mempool*, void* pieces, void* object, unsigned) {
  const auto* m = static_cast<const rte_mbuf*>(object);
  static_cast<Pieces*>(pieces)->push_back({static_cast<std::byte*>(m->buf_addr), m->buf_len});
}

// Merges pieces that touch or overlap. Sorted by address.
Pieces merged(Pieces pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  Pieces out;
  for (const auto& p : pieces) {
    if (out.empty() || out.back().data() + out.back().size() < p.data()) {
      out.push_back(p);
      continue;
    }
    std::byte* const end = std::max(out.back().data() + out.back().size(), p.data() + p.size());
    out.back() = {out.back().data(), static_cast<std::size_t>(end - out.back().data())};
  }
  return out;
}

}  // namespace

Result<std::vector<Mr>> register_runs(Registrar& registrar, std::span<std::byte> memory,
                                      uint32_t access) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  Result<std::vector<mem::Range>> runs = mem::runs_of(memory);
  if (!runs) return runs.error();
  return register_each(registrar, *runs, access);
}

Result<std::vector<Mr>> register_range(Registrar& registrar, std::span<std::byte> memory,
                                       uint32_t access) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  Result<std::vector<mem::Range>> runs = mem::runs_of(memory);
  if (!runs) runs = mem::user_runs(memory);
  if (!runs) return runs.error();
  return register_each(registrar, *runs, access);
}

Result<std::vector<Mr>> register_mempool(Registrar& registrar, rte_mempool* pool, uint32_t access) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  Pieces pieces;
  (void)rte_mempool_mem_iter(pool, collect_chunk, &pieces);
  const bool outside = pool->private_data_size >= sizeof(rte_pktmbuf_pool_private) &&
                       (rte_pktmbuf_priv_flags(pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0;
  if (outside) (void)rte_mempool_obj_iter(pool, collect_buffer, &pieces);
  if (pieces.empty()) return Error{EINVAL, "the pool has no memory yet"};
  std::vector<Mr> regions;
  for (const auto& piece : merged(std::move(pieces))) {
    Result<std::vector<Mr>> some = register_range(registrar, piece, access);
    if (!some) return some.error();
    for (Mr& r : *some) regions.push_back(std::move(r));
  }
  return regions;
}

}  // namespace kilim::inline v1::mr
