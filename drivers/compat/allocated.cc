// SPDX-License-Identifier: BSD-3-Clause
#include "compat/allocated.hh"

#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace kilim::compat {
namespace {

using Blocks = std::map<std::pair<const ibv_mr*, const void*>, mem::Block>;

std::mutex mutex;
// Made at the first use and never destroyed, as a program may end with registered regions.
Blocks* blocks = nullptr;

}  // namespace

void keep(const ibv_mr* mr, mem::Block block) {
  const std::lock_guard lock{mutex};
  if (blocks == nullptr) blocks = new Blocks;
  const std::pair<const ibv_mr*, const void*> place{mr, block.span().data()};
  blocks->emplace(place, std::move(block));
}

void release(const ibv_mr* mr, const void* memory) noexcept {
  const std::lock_guard lock{mutex};
  if (blocks != nullptr) blocks->erase({mr, memory});
}

}  // namespace kilim::compat
