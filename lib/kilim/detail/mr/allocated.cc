// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mr/allocated.hh"

#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::mr {

Status AllocatedRegion::check(const AllocateRequest& request) noexcept {
  if ((request.access & Access::on_demand) != 0)
    return Error{EINVAL,
                 "memory that the library allocates is contiguous, and on-demand paging does not "
                 "support contiguous pages: ask for one of the two"};
  return Done{};
}

Result<AllocatedRegion> AllocatedRegion::create(Registrar& registrar,
                                                const AllocateRequest& request) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (Status s = check(request); !s) return s.error();
  auto sentence = std::make_unique<Sentence>();
  Result<mem::Block> block = mem::Block::map(request.bytes, request.node, *sentence);
  if (!block) return block.error();
  Result<Mr> mr = Mr::create(registrar, block->span(), request.access, block->range().page_bytes);
  if (!mr) return mr.error();
  return AllocatedRegion{*std::move(block), *std::move(mr), std::move(sentence)};
}

Rereg AllocatedRegion::replace_memory(std::optional<Mr>& region, const AllocateRequest& request,
                                      std::optional<AllocatedRegion>& out) {
  if (Status s = check(request); !s) return {ReregOutcome::refused, s.error()};
  auto sentence = std::make_unique<Sentence>();
  Result<mem::Block> block = mem::Block::map(request.bytes, request.node, *sentence);
  if (!block) return {ReregOutcome::refused, block.error()};
  Change change;
  change.translation = change.access = true;
  change.memory = block->span();
  change.page_bytes = block->range().page_bytes;
  change.new_access = request.access;
  const Rereg r = region->reregister(change);
  if (r.standing() != Standing::new_region) return r;
  out.emplace(AllocatedRegion{*std::move(block), std::move(*region), std::move(sentence)});
  region.reset();
  return r;
}

}  // namespace kilim::inline v1::mr
