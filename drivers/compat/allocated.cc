// SPDX-License-Identifier: BSD-3-Clause
#include "compat/allocated.hh"

#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace kilim::compat {
namespace {

using Blocks = std::unordered_map<const ibv_mr*, mem::Block>;

std::mutex mutex;
// Never destroyed: a program may end with regions that are registered.
Blocks* blocks = nullptr;

}  // namespace

void keep(const ibv_mr* mr, mem::Block block) {
  const std::lock_guard lock{mutex};
  if (blocks == nullptr) blocks = new Blocks;
  blocks->insert_or_assign(mr, std::move(block));
}

void release(const ibv_mr* mr) noexcept {
  const std::lock_guard lock{mutex};
  if (blocks != nullptr) blocks->erase(mr);
}

}  // namespace kilim::compat
