// SPDX-License-Identifier: BSD-3-Clause
// AllocatedRegion: a region over memory that the library allocates (IBV_ACCESS_ALLOCATE_MR in
// MLNX_OFED's documents): contiguous, in the largest pages available, on the device's NUMA node.
// Owner: whoever holds it; move-only. Control path only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/mem/block.hh"
#include "kilim/detail/mr/registrar.hh"

namespace kilim::inline v1::mr {

struct AllocateRequest {
  std::size_t bytes = 0;
  uint32_t access = Access::local;  // Access bits, without on_demand
  int node = -1;                    // Device::numa_node()
};

class AllocatedRegion {
 public:
  // Allocates and registers `bytes`, rounded up to whole pages. EINVAL: no bytes, or on-demand
  // paging, which has no contiguous pages; ENOMEM; or the registrar's error.
  static Result<AllocatedRegion> create(Registrar& registrar, const AllocateRequest& request);
  // Re-registers an existing region over newly allocated memory with new rights. On success the
  // region is in `out` and `region` is empty; otherwise `region` is unchanged or undefined, as the
  // Rereg says.
  static Rereg replace_memory(std::optional<Mr>& region, const AllocateRequest& request,
                              std::optional<AllocatedRegion>& out);

  AllocatedRegion(AllocatedRegion&&) noexcept = default;
  AllocatedRegion& operator=(AllocatedRegion&&) = delete;

  [[nodiscard]] Region region() const noexcept {
    Region r = mr_.region();
    r.kind = Kind::allocated;
    return r;
  }
  // The memory, rounded up to whole pages; zeroed when it was allocated.
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return block_.span(); }
  // A sentence that says why the pages are smaller than they could be, and what would help; empty:
  // they are not.
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

}  // namespace kilim::inline v1::mr
