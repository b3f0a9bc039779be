// SPDX-License-Identifier: BSD-3-Clause
// An index over an arena at a fixed address, readers' states for it, and regions as values. The
// addresses are made up: an index never touches memory that it speaks of.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>

#include <rte_rcu_qsbr.h>

#include "kilim/detail/lookup/index.hh"
#include "ut.hh"

namespace kilim::test {

inline constexpr uint64_t kib4 = 4096, mib2 = 2u << 20, gib = 1u << 30;
inline constexpr uint64_t arena = 80 * gib, arena_bytes = 64 * mib2;

inline mr::Region region(uint64_t address, uint64_t length, uint32_t key, uint32_t access = 0) {
  return {
      .address = address, .length = length, .iova = address, .lkey = Lkey{key}, .access = access};
}

inline std::unique_ptr<lookup::Index> make_index(rte_rcu_qsbr* readers = nullptr) {
  Result<std::unique_ptr<lookup::Index>> made =
      lookup::Index::create({.arena = arena, .arena_bytes = arena_bytes, .readers = readers});
  return made ? *std::move(made) : nullptr;
}

struct FreeQsbr {
  void operator()(rte_rcu_qsbr* v) const noexcept { std::free(v); }
};
using Qsbr = std::unique_ptr<rte_rcu_qsbr, FreeQsbr>;

inline Qsbr make_qsbr(uint32_t readers) {
  const std::size_t bytes = (rte_rcu_qsbr_get_memsize(readers) + 63) & ~std::size_t{63};
  Qsbr v{static_cast<rte_rcu_qsbr*>(std::aligned_alloc(64, bytes))};
  if (rte_rcu_qsbr_init(v.get(), readers) != 0) v.reset();
  return v;
}

// Of index_random.cc.
std::span<const kilim::test::Case> index_random_cases();

}  // namespace kilim::test
