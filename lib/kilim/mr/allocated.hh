// SPDX-License-Identifier: BSD-3-Clause
// A region whose memory the library allocates for it (IBV_ACCESS_ALLOCATE_MR of the documents):
// contiguous, in the largest pages that the machine gives, on the device's NUMA node.
// Owner: whoever holds it; move-only. Control path only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kilim/base/result.hh"
#include "kilim/mem/block.hh"
#include "kilim/mr/registrar.hh"

namespace kilim::mr {

struct AllocateRequest {
  std::size_t bytes = 0;
  uint32_t access = Access::local;
  int node = -1;  // Device::numa_node()
};

class AllocatedRegion {
 public:
  // Rounded up to whole pages. EINVAL together with on-demand paging, which does not know
  // contiguous pages.
  static Result<AllocatedRegion> create(Registrar& registrar, const AllocateRequest& request);
  // A region that is there is re-registered over new memory with new rights. Where the new region
  // stands it is in `out` and `region` is empty; else `region` is what it was, or undefined.
  static Rereg take_over(std::optional<Mr>& region, const AllocateRequest& request,
                         std::optional<AllocatedRegion>& out);

  AllocatedRegion(AllocatedRegion&&) noexcept = default;
  AllocatedRegion& operator=(AllocatedRegion&&) = delete;

  [[nodiscard]] Region region() const noexcept {
    Region r = mr_.region();
    r.kind = Kind::allocated;
    return r;
  }
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return block_.span(); }
  // Why its pages are smaller than it could fill, with numbers and what would help; empty: they
  // are not.
  [[nodiscard]] const char* fall_back() const noexcept { return fall_back_->data(); }

 private:
  using Sentence = std::array<char, 256>;
  AllocatedRegion(mem::Block block, Mr mr, std::unique_ptr<Sentence> fall_back) noexcept
      : block_(std::move(block)), mr_(std::move(mr)), fall_back_(std::move(fall_back)) {}
  static Status check(const AllocateRequest& request) noexcept;
  mem::Block block_;  // outlives the region
  Mr mr_;
  std::unique_ptr<Sentence> fall_back_;
};

}  // namespace kilim::mr
